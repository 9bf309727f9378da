"""Keep track of requests without a response. They do not count in N; the next run repeats them.

If only some rows of a problem arrived, its shard has fewer rows and lists those that it lacks. A file beside it,
`STEM.unanswered.json`, makes such problems visible in one listing of the folder. When the rows arrive, the shard is
completed, and everything derived from the incomplete one (vectors, verdicts, rankings) is removed, to be made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.errors import HarnessError
from harness.records import Problem, Responses
from harness.store.json_files import read_json, read_manifest, write_json
from harness.store.keys import shard_name, storable
from harness.store.stage import Stage

from . import shards

MOST = 0.05  # largest missing share of all responses of a run
LOST = 0.5  # largest missing share of one call: above it the server is probably gone
DERIVED = ("embedding", "score", "verdict", "audit", "chance", "ranking")
MARK = ".unanswered.json"
PAID = ".paid.jsonl"


def mark(pool: Stage, problem: Problem, missing: Mapping[int, str]) -> None:
    """Write the mark of a problem with missing rows (row -> reason); remove the mark if no row is missing.

    For a new problem call this before its shard is written.
    """
    path = _mark(pool, problem)
    if missing:
        write_json(path, {str(row): storable(why) for row, why in missing.items()})
    else:
        path.unlink(missing_ok=True)


def journal(pool: Stage, problem: Problem) -> Path:
    """The file in which an engine may keep a problem's responses until its shard is written (`SampleRequest`)."""
    return pool.folder / f"{shard_name(problem).rpartition('.')[2]}{PAID}"


def waiting(pool: Stage, problems: Sequence[Problem]) -> dict[str, dict[int, str]]:
    """Problem id -> {missing row: reason}; only for problems whose shard is incomplete."""
    marked = {path.name for path in pool.folder.glob(f"*{MARK}")}
    sampled = [problem for problem in problems if _mark(pool, problem).name in marked and pool.path(problem).exists()]
    lacking = {problem.id: shards.read_missing(pool.path(problem)) for problem in sampled}
    return {name: rows for name, rows in lacking.items() if rows}


def to_sample(pool: Stage, problems: Sequence[Problem]) -> bool:
    """Whether any response is still to be sampled."""
    return bool(pool.missing(problems) or waiting(pool, problems))


def fill(pool: Stage, problem: Problem, arrived: Responses) -> None:
    """Add rows that arrived later to a problem's shard, and remove what was derived without them.

    `arrived`: the responses to the shard's missing rows, in order; `arrived.missing` lists the rows still missing.
    """
    kept = shards.read_responses(pool.path(problem))
    new = sorted(set(kept.missing) - set(arrived.missing))
    if not new:
        return
    present = [row for row in range(len(kept) + len(kept.missing)) if row not in kept.missing]
    for folder in _derived(pool):
        _remove(folder, problem)
    shards.write_responses(pool.path(problem), problem, _merged(kept, present, arrived, new))
    mark(pool, problem, arrived.missing)


def forget_derived(pool: Stage, problems: Sequence[Problem]) -> None:
    """Remove what was derived from shards that no longer exist; sampled again, rows may differ in their last bits."""
    for folder in _derived(pool):
        stems = {path.name.rpartition(".")[0] for path in folder.iterdir()}
        for problem in problems:
            if shard_name(problem) in stems and not pool.path(problem).exists():
                _remove(folder, problem)


def _remove(folder: Path, problem: Problem) -> None:
    for shard in folder.glob(f"{shard_name(problem)}.*"):
        shard.unlink(missing_ok=True)


def require_most(sampled: Sequence[Responses]) -> None:
    """Raise HarnessError if more than half of a call's rows did not arrive; those that did are already kept."""
    missing = [why for responses in sampled for why in responses.missing.values()]
    total = len(missing) + sum(map(len, sampled))
    if len(missing) > LOST * total:
        raise HarnessError(
            f"sample: {len(missing)} of {total} responses asked for did not come ({missing[-1]}); what came is kept: "
            "run the same command again for the rest"
        )


def summary(pool: Stage, problems: Sequence[Problem], n: int) -> str:
    """A line about the responses that did not arrive; "" if all arrived.

    HarnessError if more than 5 % are missing, or all of one problem: no metric is defined for N = 0.
    """
    empty, incomplete = pool.missing(problems), waiting(pool, problems)
    missing, total = sum(map(len, incomplete.values())) + n * len(empty), n * len(problems)
    if not missing:
        return ""
    why = next((why for rows in incomplete.values() for why in rows.values()), "")
    why = _why(pool, empty[0]) if empty else why
    count = f"{missing:,} of {total:,} responses did not come ({why})"
    if empty:
        raise HarnessError(
            f"sample: {count}, among them all of problem {empty[0].id!r}; what came is kept: run it again"
        )
    if missing > MOST * total:
        raise HarnessError(f"sample: {count}, more than {MOST:.0%}; what came is kept: run it again")
    smaller = f"{len(incomplete)} problem{'s have' if len(incomplete) > 1 else ' has'} a smaller N"
    return f"sample: {count}: {smaller}; the next run asks for them again"


def _mark(pool: Stage, problem: Problem) -> Path:
    return pool.folder / f"{shard_name(problem)}{MARK}"


def _why(pool: Stage, problem: Problem) -> str:
    path = _mark(pool, problem)
    return str(next(iter(read_json(path).values()), "")) if path.exists() else "not asked for"


def _derived(pool: Stage) -> list[Path]:
    """The folders of all stages that were derived from the pool."""
    manifests = [path for kind in DERIVED for path in pool.folder.parents[1].glob(f"{kind}/*/manifest.json")]
    return [path.parent for path in manifests if read_manifest(path.parent).get("pool") == pool.key]


def _merged(kept: Responses, present: Sequence[int], arrived: Responses, new: Sequence[int]) -> Responses:
    """Kept and newly arrived responses joined, in the order of their rows."""
    order = np.argsort([*present, *new], kind="stable")
    texts, finish = [*kept.texts, *arrived.texts], [*kept.finish, *arrived.finish]
    token_ids = None
    if kept.token_ids is not None and arrived.token_ids is not None:
        both = [*kept.token_ids, *arrived.token_ids]
        token_ids = [both[at] for at in order]
    return replace(
        arrived,
        texts=[texts[at] for at in order],
        finish=[finish[at] for at in order],
        lengths=np.concatenate([kept.lengths, arrived.lengths])[order],
        logprobs=np.concatenate([kept.logprobs, arrived.logprobs])[order],
        token_ids=token_ids,
        states={},
        scores={
            name: np.concatenate([values, arrived.scores[name]])[order]
            for name, values in kept.scores.items()
            if name in arrived.scores
        },
    )
