"""`harness report --journal`: a search as one HTML page: what it found by call, against chance, and on a map.

The order is that in which candidates were picked, so that outcomes that come early for being good change nothing. What
chance would have found is said only as far as it is known:

    the pool file has verdicts   c of n candidates are hits: after t outcomes hypergeometric (n, c, t), exactly
    --rate p                     the user's word: binomial (t, p)
    neither                      not known. Given the h hits among T outcomes, the number after t of them is
                                 hypergeometric (T, h, t) if they came evenly: it says whether hits came early
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.jobs.plan import joined_file
from harness.jobs.selection import Candidates, Opened
from harness.records import Floats
from harness.results.inert_text import without_folders
from harness.system.files import write_atomically
from harness.system.progress import Progress
from harness.verifying.config import VerifyConfig
from harness.verifying.journal import POOL_FILE, Check, Pick, read_journal
from harness.verifying.loop import header_of, opened_search

from .browsing import CLUSTERS, flat
from .page import page, visible

NAME = 80  # characters
POINTS = 200  # of a curve of chance
MOST = 4000  # candidates on the map; all that were asked for are among them
SCRIPTS = ("elements", "panels", "search")
OF_HEADER = ("embedder", "model", "task", "seed", "dim", "centre")


def write_search(
    journal: Path,
    out: Path | None,
    progress: Progress,
    rate: float | None = None,
    **options: Any,
) -> Path:
    """Write the page of a journal's search to `out`, and return its path.

    out      None: beside the journal, verify-report.html for verify.jsonl
    rate     the share of hits among all candidates, if somebody knows it
    options  of `VerifyConfig`: pool, embeddings, outcomes, threshold, plugin_files; without a file no map is drawn

    HarnessError if the journal cannot be read, or is of other candidates.
    """
    if rate is not None and not 0 < rate < 1:
        raise HarnessError(f"report: --rate is the share of candidates that are hits, between 0 and 1, got {rate:g}")
    header, entries = read_journal(journal)
    picks: dict[Pick, Check | None] = {}  # in the order asked for
    names: dict[Pick, str] = {}
    for entry in entries:
        if isinstance(entry, Check):
            pick = (entry.problem_id, entry.index)
            picks[pick] = entry
            names[pick] = entry.name or names.get(pick, "")
        else:
            for pick, name in entry:
                picks.setdefault(pick, None)
                names[pick] = name
    if not picks:
        raise HarnessError(f"report: journal {journal} holds no picks yet")
    source, opened = _source(header, options), None
    if source:
        fields = {name: header[name] for name in OF_HEADER if header.get(name) is not None}
        given = {**fields, **options, **source, "unit": bool(header.get("unit"))}
        # Whatever selector it was, RepExp reads what the map is drawn from.
        config = VerifyConfig(selector="repexp", ask=True, journal=journal, **given)
        with opened_search(config, progress) as opened:
            now = header_of(config, opened)
            if now["pool"] != header.get("pool") or now["embeddings"] != header.get("embeddings"):
                raise HarnessError(
                    f"report: journal {journal} is of other candidates than {next(iter(source.values()))}: it was "
                    f"begun with {header.get(POOL_FILE)}"
                )
            views = _views(picks, names, rate, options.get("threshold"), opened)
    else:
        progress.say("no map: say where the candidates are, by --pool FILE or --embeddings FILE")
        views = _views(picks, names, rate, options.get("threshold"), None)
    out = out or journal.with_name(f"{journal.stem}-report.html")
    about = {name: header.get(name) for name in ("selector", "embedder", "model", "verifier")}
    data = {"journal": journal.name, "about": without_folders(about), "views": views}
    write_atomically(out, page(data, "search", SCRIPTS))
    return out


def _source(header: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Path]:
    """The files of candidates that are given, else that which the journal names, if it is there."""
    given = {name: options[name] for name in ("pool", "embeddings") if options.get(name)}
    path = Path(str(header.get(POOL_FILE) or ""))
    if given or not path.is_file():
        return given
    return {"pool" if header.get("embeddings") is None else "embeddings": path}


def _views(
    picks: Mapping[Pick, Check | None],
    names: Mapping[Pick, str],
    rate: float | None,
    threshold: float | None,
    opened: Opened | None,
) -> list[dict[str, Any]]:
    """What the page shows of each problem; the one with most picks first."""
    correct = {}
    if opened and opened.request.pool:
        correct = {problem.id: record.correct for record, problem in joined_file(opened.context)[2]}
    known = {each.problem.id: each for each in opened.candidates} if opened else {}
    views = []
    for problem_id, _ in Counter(name for name, _ in picks).most_common():
        own = {index: check for (name, index), check in picks.items() if name == problem_id}
        candidates = known.get(problem_id)
        called = candidates.problem.meta.get("names") if candidates else ()
        shown = {index: called[index] if called and called[index] else names[problem_id, index] for index in own}
        rows, hits = [], list[bool]()
        for index, check in own.items():
            word = "open" if check is None else _word(check, threshold)
            if word in ("hit", "miss"):
                hits.append(word == "hit")
            value = None if check is None else check.value
            name = visible((shown[index] or f"{index}")[:NAME])
            rows.append({"index": index, "name": name, "outcome": word, "value": value})
            rows[-1]["call"] = len(hits) if word in ("hit", "miss") else None
        verdicts = correct.get(candidates.problem.meta.get("line", problem_id)) if candidates else None
        verdicts = correct.get(problem_id, verdicts)
        view = {"id": visible(problem_id[:NAME]), "rows": rows, "found": np.cumsum(hits).tolist()}
        view |= {"n": len(candidates.responses) if candidates else None, **chance(hits, verdicts, rate)}
        views.append(view | (_map(opened, candidates, own, threshold) if opened and candidates else {"map": None}))
    return views


def _word(check: Check, threshold: float | None) -> str:
    if check.outcome == "measured" and threshold is None:
        raise HarnessError("report: the journal holds measured values: --threshold says from where on they are hits")
    if check.outcome in ("error", "skip"):
        return {"error": "error", "skip": "skipped"}[check.outcome]
    return "hit" if check.is_success(threshold) else "miss"


def chance(hits: Sequence[bool], correct: Sequence[bool] | None, rate: float | None) -> dict[str, Any]:
    """What a random order would have found after each outcome: `chance`, its curve, and `said`, a sentence on it.

    hits     the outcomes in the order asked for
    correct  the verdicts on all candidates, where they are known
    rate     the share of hits, where somebody says it
    """
    from scipy import stats

    total, found = len(hits), sum(hits)
    t = np.unique(np.linspace(0, total, min(total, POINTS) + 1).round().astype(int))
    if correct is not None:
        n, c = len(correct), sum(correct)
        law, mean, end = stats.hypergeom(n, c, np.maximum(t, 1)), t * c / n, stats.hypergeom(n, c, max(total, 1))
        base = f"{c:,} of the {n:,} candidates are hits, by the verdicts of the pool file:"
    elif rate is not None:
        law, mean, end = stats.binom(np.maximum(t, 1), rate), t * rate, stats.binom(max(total, 1), rate)
        base = f"If {100 * rate:g} % of the candidates are hits, as --rate says,"
    else:
        law, mean, end = stats.hypergeom(max(total, 1), found, np.maximum(t, 1)), t * found / max(total, 1), None
        base = ""
    low, high = (np.where(t > 0, law.ppf(q), 0) for q in (0.025, 0.975))
    if end is None:
        said = (
            "How many of the candidates are hits is not known, so nobody can say what a random order would have found "
            f"(--rate 0.03 says it, if you know it). The band shows only where the curve would run if these {found:,} "
            f"hits had come evenly over the {total:,} outcomes: above it they came early, below it late."
        )
    else:
        low_end, high_end = (int(value) for value in end.ppf([0.025, 0.975])) if total else (0, 0)
        p = float(end.sf(found - 1)) if total else 1.0
        said = (
            f"{base} a random order finds {mean[-1]:.1f} in {total:,} outcomes, {low_end:,} to {high_end:,} in 95 of "
            f"100 such orders. This search found {found:,}; a random order finds as many or more with probability "
            f"{p:.2g}."
        )
        if hits and hits[-1]:
            said += " The last outcome is a hit: if the search stopped because of it, this favours the search."
    curve = {"at": t.tolist(), "mean": np.round(mean, 3).tolist()}
    return {"chance": {**curve, "low": low.tolist(), "high": high.tolist(), "known": end is not None}, "said": said}


def _map(
    opened: Opened, candidates: Candidates, own: Mapping[int, Check | None], threshold: float | None
) -> dict[str, Any]:
    """The map of the candidates on two principal components, by clusters of their vectors (k-means, largest first)."""
    h = np.asarray(opened.pool(replace(candidates, verified=())).embeddings, float)
    rng, n = np.random.default_rng(0), len(h)
    others = np.setdiff1d(np.arange(n), list(own))
    places = np.sort(np.append(rng.permutation(others)[: max(0, MOST - len(own))], [*own]).astype(int))
    cluster = _clusters(h)
    verdicts = {"hit": "c", "error": "e"}
    words = {index: "open" if check is None else _word(check, threshold) for index, check in own.items()}
    names = candidates.problem.meta.get("names") or ()
    request = opened.request
    return {
        "map": flat(h[places]) | {"of": str(request.embedder or (request.embeddings and "given vectors") or "tfidf")},
        "at": places.tolist(),
        "cluster": cluster[places].tolist(),
        "answers": [[f"cluster {place + 1}", int(size)] for place, size in enumerate(np.bincount(cluster))],
        "coloured_by": "answer",
        "verdict": "".join(verdicts.get(words.get(index, ""), "w") for index in places.tolist()),
        "names": [visible((names[index] or str(index))[:NAME]) if names else str(index) for index in places.tolist()],
    }


def _clusters(h: Floats) -> Any:
    """The cluster of each row of h (n, d), 0 the largest; of fewer different rows than clusters, one for each."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    k = min(CLUSTERS, len(np.unique(h, axis=0)))
    with threadpool_limits(1):  # so that sums, and hence clusters, are the same in any process
        labels = KMeans(k, n_init=2, random_state=0).fit(h).labels_
    return np.argsort(np.argsort(-np.bincount(labels), kind="stable"), kind="stable")[labels]
