"""Requests that brought no response. They are no response and not in N; the next run asks for them again.

A problem of which some rows came has a shard like any other, with fewer rows, which says what it lacks; beside it
stands a mark, `STEM.unanswered.json`, so that such problems are found by one look at the folder. Once the rows come the
shard is made whole, and what was derived from the smaller one (vectors,
verdicts, rankings) is taken away, to be made anew.
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

MOST = 0.05  # of all responses that a run asks for
LOST = 0.5  # of one call: the server is gone, and to go on asking would not help
DERIVED = ("embedding", "verdict", "audit", "chance", "ranking")
MARK = ".unanswered.json"


def mark(pool: Stage, problem: Problem, missing: Mapping[int, str]) -> None:
    """Mark a problem of which rows are missing, before its shard is written; take the mark away where none is."""
    path = _mark(pool, problem)
    if missing:
        write_json(path, {str(row): storable(why) for row, why in missing.items()})
    else:
        path.unlink(missing_ok=True)


def waiting(pool: Stage, problems: Sequence[Problem]) -> dict[str, dict[int, str]]:
    """Per problem id the rows that its shard lacks, and why; only problems that have a shard and lack some."""
    marked = {path.name for path in pool.folder.glob(f"*{MARK}")}
    some = [one for one in problems if _mark(pool, one).name in marked and pool.path(one).exists()]
    found = {problem.id: shards.read_missing(pool.path(problem)) for problem in some}
    return {name: rows for name, rows in found.items() if rows}


def to_sample(pool: Stage, problems: Sequence[Problem]) -> bool:
    """Whether any response is still to be sampled."""
    return bool(pool.missing(problems) or waiting(pool, problems))


def fill(pool: Stage, problem: Problem, came: Responses) -> None:
    """Put rows that came later among a problem's responses, and take away what was made without them.

    `came`: of the rows that the shard lacks, those that came now, in order; its `missing` are the others.
    """
    kept = shards.read_responses(pool.path(problem))
    new = sorted(set(kept.missing) - set(came.missing))
    if not new:
        return
    there = [row for row in range(len(kept) + len(kept.missing)) if row not in kept.missing]
    for folder in _derived(pool):
        _remove(folder, problem)
    shards.write_responses(pool.path(problem), problem, _merged(kept, there, came, new))
    mark(pool, problem, came.missing)


def forget_derived(pool: Stage, problems: Sequence[Problem]) -> None:
    """Take away what was derived from a shard that is gone: in another batch its rows may come with other last bits."""
    for folder in _derived(pool):
        there = {path.name.rpartition(".")[0] for path in folder.iterdir()}
        for problem in problems:
            if shard_name(problem) in there and not pool.path(problem).exists():
                _remove(folder, problem)


def _remove(folder: Path, problem: Problem) -> None:
    for shard in folder.glob(f"{shard_name(problem)}.*"):
        shard.unlink(missing_ok=True)


def require_most(drawn: Sequence[Responses]) -> None:
    """Raise HarnessError where more than half of a call's rows did not come; what came is kept before."""
    missing = [why for one in drawn for why in one.missing.values()]
    total = len(missing) + sum(map(len, drawn))
    if len(missing) > LOST * total:
        raise HarnessError(
            f"sample: {len(missing)} of {total} responses asked for did not come ({missing[-1]}); what came is kept: "
            "run the same command again for the rest"
        )


def summary(pool: Stage, problems: Sequence[Problem], n: int) -> str:
    """What there is to say of the responses that did not come; "" where all came.

    HarnessError where they are more than 5 %, or all of a problem: no metric is defined for N = 0.
    """
    empty, some = pool.missing(problems), waiting(pool, problems)
    missing, total = sum(map(len, some.values())) + n * len(empty), n * len(problems)
    if not missing:
        return ""
    why = next((why for rows in some.values() for why in rows.values()), "")
    why = _why(pool, empty[0]) if empty else why
    count = f"{missing:,} of {total:,} responses did not come ({why})"
    if empty:
        raise HarnessError(
            f"sample: {count}, among them all of problem {empty[0].id!r}; what came is kept: run it again"
        )
    if missing > MOST * total:
        raise HarnessError(f"sample: {count}, more than {MOST:.0%}; what came is kept: run it again")
    smaller = f"{len(some)} problem{'s have' if len(some) > 1 else ' has'} a smaller N"
    return f"sample: {count}: {smaller}; the next run asks for them again"


def _mark(pool: Stage, problem: Problem) -> Path:
    return pool.folder / f"{shard_name(problem)}{MARK}"


def _why(pool: Stage, problem: Problem) -> str:
    path = _mark(pool, problem)
    return str(next(iter(read_json(path).values()), "")) if path.exists() else "not asked for"


def _derived(pool: Stage) -> list[Path]:
    """The folders of all that was made from the pool."""
    manifests = [path for kind in DERIVED for path in pool.folder.parents[1].glob(f"{kind}/*/manifest.json")]
    return [path.parent for path in manifests if read_manifest(path.parent).get("pool") == pool.key]


def _merged(kept: Responses, there: Sequence[int], came: Responses, new: Sequence[int]) -> Responses:
    """Both as one, in the order of their rows."""
    order = np.argsort([*there, *new], kind="stable")
    texts, finish = [*kept.texts, *came.texts], [*kept.finish, *came.finish]
    token_ids = None
    if kept.token_ids is not None and came.token_ids is not None:
        both = [*kept.token_ids, *came.token_ids]
        token_ids = [both[at] for at in order]
    return replace(
        came,
        texts=[texts[at] for at in order],
        finish=[finish[at] for at in order],
        lengths=np.concatenate([kept.lengths, came.lengths])[order],
        logprobs=np.concatenate([kept.logprobs, came.logprobs])[order],
        token_ids=token_ids,
        states={},
    )
