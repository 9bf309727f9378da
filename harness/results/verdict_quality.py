"""How far correct verdicts can be trusted: the share made by a fallback, and the share expected by chance.

The chance level is the mean over problems of the share of responses graded correct against other problems' references
(`stages.chance`). Its interval is over problems (`stats.difference_interval`); it is None if no such grading was
correct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .rows import Row

FALLBACK = "fallback"
WARNS = 0.05  # share of correct verdicts by a fallback, above which tables warn


def quality(cells: Sequence[Mapping[str, Any]], seed: int) -> dict[str, Any]:
    """`routes`, `fallback_share`, `chance` of cells of different pools, None if they lack the data; and `answering`."""
    entries = [entry for cell in cells for entry in cell["problems"]]
    return {**_of_routes(entries), "chance": level(_by_problem(entries), seed), **_of_answers(entries)}


def _of_answers(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The responses that were run for their answers, and the CPU seconds that this took; {} if none was."""
    costs = [entry["answering"] for entry in entries if "answering" in entry]
    total = {"responses": sum(n for n, _ in costs), "cpu_s": sum(cpu_s for _, cpu_s in costs)}
    return {"answering": total} if costs else {}


def _of_routes(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not all("routes" in entry for entry in entries):
        return {"routes": None, "fallback_share": None}
    counts: Counter[str] = Counter()
    for entry in entries:
        counts.update(entry["routes"])
    total = counts.total()
    routes = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return {"routes": routes, "fallback_share": counts[FALLBACK] / total if total else None}


def _by_problem(entries: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """(correct, gradings) of each problem that has some, over all its pools."""
    sums: dict[str, tuple[int, int]] = {}
    for entry in entries:
        correct, gradings = entry.get("chance") or (0, 0)
        before = sums.get(entry["id"], (0, 0))
        sums[entry["id"]] = before[0] + correct, before[1] + gradings
    return [counts for counts in sums.values() if counts[1]]


def level(counts: Sequence[tuple[int, int]], seed: int) -> dict[str, Any] | None:
    """The chance level from each problem's (correct, gradings); None if there are no gradings.

    correct, gradings  sums over the problems
    share, share_ci    the level, and its 95 % interval or None
    """
    if not counts:
        return None
    from harness.scoring.stats import difference_interval  # imports scipy.stats

    correct, gradings = (sum(column) for column in zip(*counts, strict=True))
    shares = np.array([hits / tried for hits, tried in counts])
    ends = difference_interval(shares, seed) if correct else None
    return {
        "correct": correct,
        "gradings": gradings,
        "share": float(shares.mean()),
        "share_ci": [max(0.0, ends[0]), min(1.0, ends[1])] if ends else None,
    }


def remarks(row: Row) -> Iterator[str]:
    """Yield remarks on a row's verdicts: how many a fallback made correct, the chance level, the cost of answers."""
    routes = row.routes or {}
    if set(routes) - {"-"}:  # a grader with only one route has "-" alone
        share, count = row.fallback_share or 0.0, routes.get(FALLBACK, 0)
        warning = f", over {100 * WARNS:.0f} %: read them before you trust this table" if share > WARNS else ""
        counts = f"{count:,} of {sum(routes.values()):,} verdicts"
        yield f"correct by a fallback, not stated as asked: {counts}, {100 * share:.1f} %{warning}"
    if row.chance:
        yield _level_line(row, row.chance)
    if row.answering:
        responses, cpu_s = int(row.answering["responses"]), row.answering["cpu_s"]
        a_problem = f"{cpu_s / responses * row.n:.2f} s for the {row.n:,} of a problem"
        yield f"{answers_line(responses, cpu_s)}, {a_problem}, to set against the calls saved"


def answers_line(responses: int, cpu_s: float) -> str:
    """Say what it cost to run so many responses for their answers."""
    return (
        f"answers by running {responses:,} responses: {cpu_s:.1f} CPU-seconds, {1000 * cpu_s / responses:.1f} ms each"
    )


def _level_line(row: Row, chance: Mapping[str, Any]) -> str:
    share_correct = row.pass_at_k_random.get("1")
    line = f"chance level: {level_text(chance)}"
    if share_correct is not None:
        line += f", {100 * share_correct:.2f} % for their own"
    if not chance["correct"]:
        return line
    by_luck = 1 - (1 - chance["share"]) ** row.n
    return f"{line}; at that level one of {row.n:,} responses is correct with a probability of {100 * by_luck:.0f} %"


def level_text(chance: Mapping[str, Any]) -> str:
    """The text of a chance level (as `level` returns it) in per cent, with its interval and counts."""
    ends = chance["share_ci"]
    interval = f" [{100 * ends[0]:.2f}, {100 * ends[1]:.2f}]" if ends else ""
    hits = f"{chance['correct']:,} of {chance['gradings']:,} gradings against other problems' answers are correct"
    return f"{100 * chance['share']:.2f} %{interval}, {hits}"
