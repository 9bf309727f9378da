"""`harness compare A B`: two rows on the same problems, the paired difference, and the problems that flipped.

A key stands for its row: the cell and all that differ from it only in their seeds, in the folders that are searched. A
file stands for its cell alone. Where both rows have a seed in common, these seeds are compared, so that the pools are
the same; else all of each. Rankers are compared by samples-to-correct. Where one of the two chooses subsets, both are
compared by pass@k, at the budget at which random selection solves about half of what can be solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.records import Floats
from harness.scoring import stats
from harness.scoring.metrics import Outcomes, telling_budget
from harness.store.keys import digest

from . import cells, seed_groups
from .cells import Cell

FIGURES = ("p_random", "k95", "calls_saved", "trust", "budget", "p_budget")


def compare(names: Sequence[str], folders: Sequence[Path]) -> dict[str, Any]:
    """The comparison of two rows, named by a cell's file or by the beginning of its key in the folders.

    Problems that only one of them has are left out and counted, and so are seeds. `fewer`, `more`: the problems where
    the first needs fewer, or more, calls than the second (at a budget: hits more, or less, often), the largest
    difference first, with the means of both. At a budget the difference is one of misses: below 0 the first hits more.
    """
    first, second, seeds_left_out = _paired([_row(name, folders) for name in names])
    a, b = _problems(first), _problems(second)
    shared = [problem for problem in a if problem in b]
    if not shared:
        raise HarnessError(f"compare: {names[0]!r} and {names[1]!r} have no problem in common")
    ours, theirs = (
        _part(group, [places[problem] for problem in shared]) for group, places in ((first, a), (second, b))
    )
    _check_trials(ours, theirs)
    budget = None if ours.ranks is not None and theirs.ranks is not None else _budget(ours, theirs)
    x, y = _figures(ours, budget), _figures(theirs, budget)
    seed = int(digest([_seeding(first), _seeding(second)], 8), 16)
    most = 1.0 if budget is not None else float(max(ours.n.max(), theirs.n.max()))
    found = stats.paired_difference(x[:, None], y[:, None], seed, widest=most)

    mine, others = (x, y) if budget is None else (1 - x, 1 - y)  # to be read: calls, or hits

    def listed(places: Sequence[int]) -> list[dict[str, Any]]:
        return [{"id": shared[i], "first": float(mine[i]), "second": float(others[i])} for i in places]

    return {
        "first": _about(first),
        "second": _about(second),
        "same_pool": seed_groups.pools_of(first) == seed_groups.pools_of(second),
        "problems": len(shared),
        "left_out": len(set(a) ^ set(b)),
        "seeds_left_out": seeds_left_out,
        "budget": budget,
        "samples_to_correct": [float(mine.mean()), float(others.mean())] if budget is None else None,
        "pass_at_budget": [float(mine.mean()), float(others.mean())] if budget is not None else None,
        "difference": found.difference,
        "difference_ci": found.difference_ci,
        "ratio": found.ratio if budget is None else None,
        "ratio_ci": found.ratio_ci if budget is None else None,
        **_no_intervals(found, len(shared), budget),
        "p": found.p,
        "fewer": listed(found.fewer),
        "more": listed(found.more),
    }


def _no_intervals(found: stats.Paired, problems: int, budget: int | None) -> dict[str, dict[str, str]]:
    """`no_interval`: why an interval is null, by its key; nothing where none is."""
    absent = {}
    if found.difference_ci is None:
        absent["difference_ci"] = stats.why_none(problems, stats.BEYOND_RANGE)
    if budget is None and found.ratio is not None and found.ratio_ci is None:
        absent["ratio_ci"] = stats.why_none(problems, stats.TOO_WIDE)
    return {"no_interval": absent} if absent else {}


def _row(name: str, folders: Sequence[Path]) -> list[seed_groups.Keyed]:
    """The cells that a name stands for."""
    path = Path(name) if Path(name).is_file() else _find(name, folders)
    named = cells.read(path)
    if "failed" in named:
        raise HarnessError(f"compare: cell {name!r} failed ({named['failed']}): run it again")
    if path == Path(name):
        return [(cells.key_of(named), named)]
    key, setting = path.stem, seed_groups.setting(named)
    alike = {one: cell for one, cell in _readable(folders) if seed_groups.setting(cell) == setting}
    return next(group for group in seed_groups.rows_of(alike) if key in [one for one, _ in group])


def _readable(folders: Sequence[Path]) -> list[seed_groups.Keyed]:
    """Every measured cell in the folders that can be read; one that cannot takes no part, as in a leaderboard."""
    found: dict[str, Cell] = {}
    for path in cells.files(folders):
        if path.stem in found:
            continue
        try:
            cell = cells.read(path)
        except HarnessError:
            continue
        if "failed" not in cell:
            found[path.stem] = cell
    return list(found.items())


def _find(name: str, folders: Sequence[Path]) -> Path:
    found = sorted({path.name: path for path in cells.files(folders) if path.name.startswith(name)}.values())
    if len(found) == 1:
        return found[0]
    where = ", ".join(map(str, folders))
    if not found:
        raise HarnessError(f"compare: no file {name!r}, and no cell whose key begins so in {where}")
    keys = ", ".join(path.stem for path in found[:3])
    raise HarnessError(f"compare: {name!r} begins the keys of {len(found)} cells ({keys}, ...): write more of it")


def _paired(rows: Sequence[list[seed_groups.Keyed]]) -> tuple[list[seed_groups.Keyed], list[seed_groups.Keyed], int]:
    """Both rows with the seeds that they share, and how many cells that leaves out; whole where they share none."""
    first, second = rows
    shared = {cell["labels"]["seed"] for _, cell in first} & {cell["labels"]["seed"] for _, cell in second}
    if not shared:
        return first, second, 0
    kept = [[one for one in row if one[1]["labels"]["seed"] in shared] for row in rows]
    return kept[0], kept[1], len(first) + len(second) - len(kept[0]) - len(kept[1])


def _problems(group: Sequence[seed_groups.Keyed]) -> dict[str, int]:
    """problem id -> its place."""
    return {entry["id"]: place for place, entry in enumerate(group[0][1]["problems"])}


def _part(group: Sequence[seed_groups.Keyed], places: Sequence[int]) -> Outcomes:
    """The outcomes of some of a row's problems."""
    whole = seed_groups.outcomes(group)
    chosen = np.array([place * whole.pools + pool for place in places for pool in range(whole.pools)])
    ranks = None if whole.ranks is None else whole.ranks[chosen]
    full = {k: found for k, found in (whole.hits or {}).items() if len(found) == len(whole.n)}
    hits = None if whole.hits is None else {k: found[chosen] for k, found in full.items()}
    return Outcomes(whole.n[chosen], whole.c[chosen], whole.errors[chosen], ranks, hits, whole.pools)


def _check_trials(ours: Outcomes, theirs: Outcomes) -> None:
    trials = [_trials(outcomes) for outcomes in (ours, theirs)]
    if trials[0] != trials[1]:
        raise HarnessError(f"compare: the cells have {trials[0]} and {trials[1]} trials: run both with equally many")


def _trials(outcomes: Outcomes) -> int:
    found = outcomes.ranks if outcomes.ranks is not None else next(iter((outcomes.hits or {}).values()))
    return int(found.shape[1])


def _budget(ours: Outcomes, theirs: Outcomes) -> int:
    """The budget of the first's pools; 1 where nothing there can be solved."""
    budget = telling_budget(ours.n, ours.c) or 1
    if any(outcomes.found_within(budget) is None for outcomes in (ours, theirs)):
        raise HarnessError(f"compare: the pools differ in size, and the subsets have no common budget of {budget}")
    return budget


def _figures(outcomes: Outcomes, budget: int | None) -> Floats:
    """Per problem the mean rank of the first correct response; at a budget the share of trials that find none."""
    if budget is None:
        assert outcomes.ranks is not None
        return outcomes.inside(outcomes.ranks.mean(axis=1))
    found = outcomes.found_within(budget)
    assert found is not None
    return outcomes.inside(1 - found.mean(axis=1))


def _seeding(group: Sequence[seed_groups.Keyed]) -> str | list[str]:
    keys = [key for key, _ in group]
    return keys[0] if len(keys) == 1 else keys


def _about(group: Sequence[seed_groups.Keyed]) -> dict[str, Any]:
    """Whose figures these are, and some of its row's."""
    row = seed_groups.row(group).to_json()
    labels = {name: row[name] for name in cells.LABELS}
    return {"cell": row["cell"], **labels, "seeds": row["seeds"], **{name: row[name] for name in FIGURES}}
