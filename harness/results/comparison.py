"""`harness compare A B`: two rows on the same problems, the paired difference, and the problems that differ.

A key names a row: its cell and all cells in the searched folders that differ from it only in their seeds. A file names
its cell alone. If the rows share seeds, only these are compared, so that the pools are the same; else all seeds.
Two rankers are compared by samples-to-correct. If one is a subset method, both are compared by pass@k, at the budget at
which random selection solves about half of the solvable problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.records import Floats
from harness.scoring import efficiency, stats
from harness.scoring.metrics import Outcomes, budgets, telling_budget
from harness.store.keys import digest

from . import cells, seed_groups
from .cells import Cell

METRICS = ("p_random", "k95", "calls_saved", "trust", "budget", "p_budget")


def compare(names: Sequence[str], folders: Sequence[Path]) -> dict[str, Any]:
    """Compare two rows; each is named by a cell's file or by the beginning of a cell's key in the folders.

    `left_out`: how many problems only one row has. `seeds_left_out`: how many cells have a seed that only one row has;
    if the rows share no seed, all cells are compared. `fewer`, `more`: the problems where the first needs fewer, or
    more, calls than the second (at a budget: hits more, or less, often), the largest difference first, with the means
    of both. At a budget the difference is of the shares of misses: below 0 the first hits more often. `efficiency`: at
    the second's k = 1, 2, 4, ..., N, how many times fewer calls the first needs for the same pass@k (the fields of
    `efficiency.Factor`); `largest_efficiency`: the largest at any k.
    """
    first, second, seeds_left_out = _paired([_row(name, folders) for name in names])
    first_places, second_places = _problems(first), _problems(second)
    shared = [problem for problem in first_places if problem in second_places]
    if not shared:
        raise HarnessError(f"compare: {names[0]!r} and {names[1]!r} have no problem in common")
    first_outcomes, second_outcomes = (
        _part(group, [places[problem] for problem in shared])
        for group, places in ((first, first_places), (second, second_places))
    )
    _check_trials(first_outcomes, second_outcomes)
    budget = _budget(first_outcomes, second_outcomes)
    x, y = _compared(first_outcomes, budget), _compared(second_outcomes, budget)
    seed = int(digest([cells.resampling_seed(*(cell for _, cell in group)) for group in (first, second)], 8), 16)
    most = 1.0 if budget is not None else float(max(first_outcomes.n.max(), second_outcomes.n.max()))
    paired = stats.paired_difference(x[:, None], y[:, None], seed, widest=most)
    first_shown, second_shown = (x, y) if budget is None else (1 - x, 1 - y)  # calls, or hits
    means = [float(first_shown.mean()), float(second_shown.mean())]

    def listed(places: Sequence[int]) -> list[dict[str, Any]]:
        return [{"id": shared[i], "first": float(first_shown[i]), "second": float(second_shown[i])} for i in places]

    return {
        "first": _about(first),
        "second": _about(second),
        "same_pool": seed_groups.pools_of(first) == seed_groups.pools_of(second),
        "problems": len(shared),
        "left_out": len(set(first_places) ^ set(second_places)),
        "seeds_left_out": seeds_left_out,
        "budget": budget,
        "samples_to_correct": means if budget is None else None,
        "pass_at_budget": means if budget is not None else None,
        "difference": paired.difference,
        "difference_ci": paired.difference_ci,
        "ratio": paired.ratio if budget is None else None,
        "ratio_ci": paired.ratio_ci if budget is None else None,
        **_no_intervals(paired, len(shared), budget),
        "p": paired.p,
        **_efficiency(first_outcomes, second_outcomes, seed),
        "fewer": listed(paired.fewer),
        "more": listed(paired.more),
    }


def _efficiency(first: Outcomes, second: Outcomes, seed: int) -> dict[str, Any]:
    ahead, behind = (efficiency.selected_curve(outcomes, seed) for outcomes in (first, second))
    at_budgets = efficiency.factors(ahead, behind, budgets(int(behind.ks[-1])))
    largest = efficiency.largest(ahead, behind)
    return {
        "efficiency": [factor.to_json() for factor in at_budgets],
        "largest_efficiency": largest and largest.to_json(),
    }


def _no_intervals(paired: stats.Paired, problems: int, budget: int | None) -> dict[str, dict[str, str]]:
    """`no_interval`: key of each null interval -> the reason; {} if there is none."""
    absent = {}
    if paired.difference_ci is None:
        absent["difference_ci"] = stats.why_none(problems, stats.BEYOND_RANGE)
    if budget is None and paired.ratio is not None and paired.ratio_ci is None:
        absent["ratio_ci"] = stats.why_none(problems, stats.TOO_WIDE)
    return {"no_interval": absent} if absent else {}


def _row(name: str, folders: Sequence[Path]) -> list[seed_groups.Keyed]:
    """The cells of the row that a name stands for: a file's cell, or a key's cell with those of other seeds."""
    path = cells.named(name, folders, "compare")
    named = cells.read(path)
    if "failed" in named:
        raise HarnessError(f"compare: cell {name!r} failed ({named['failed']}): run it again")
    if path == Path(name):
        return [(cells.key_of(named), named)]
    inputs = seed_groups.shared_inputs(named)
    alike = {key: cell for key, cell in _readable(folders) if seed_groups.shared_inputs(cell) == inputs}
    return next(group for group in seed_groups.rows_of(alike) if path.stem in dict(group))


def _readable(folders: Sequence[Path]) -> list[seed_groups.Keyed]:
    """Every measured cell in the folders, with its key; unreadable files are skipped, as in a leaderboard."""
    readable: dict[str, Cell] = {}
    for path in cells.files(folders):
        if path.stem in readable:
            continue
        try:
            cell = cells.read(path)
        except HarnessError:
            continue
        if "failed" not in cell:
            readable[path.stem] = cell
    return list(readable.items())


def _paired(rows: Sequence[list[seed_groups.Keyed]]) -> tuple[list[seed_groups.Keyed], list[seed_groups.Keyed], int]:
    """Both rows restricted to their common seeds, and how many cells that leaves out; unchanged if they share none."""
    first, second = rows
    shared = {cell["labels"]["seed"] for _, cell in first} & {cell["labels"]["seed"] for _, cell in second}
    if not shared:
        return first, second, 0
    kept = [[keyed for keyed in row if keyed[1]["labels"]["seed"] in shared] for row in rows]
    return kept[0], kept[1], len(first) + len(second) - len(kept[0]) - len(kept[1])


def _problems(group: Sequence[seed_groups.Keyed]) -> dict[str, int]:
    """Problem id -> its index in the row's cells."""
    return {entry["id"]: place for place, entry in enumerate(group[0][1]["problems"])}


def _part(group: Sequence[seed_groups.Keyed], places: Sequence[int]) -> Outcomes:
    """The outcomes of the row's problems at these indices, in this order."""
    whole = seed_groups.outcomes(group)
    chosen = np.array([place * whole.pools + pool for place in places for pool in range(whole.pools)])
    ranks = None if whole.ranks is None else whole.ranks[chosen]
    full = {k: values for k, values in (whole.hits or {}).items() if len(values) == len(whole.n)}
    hits = None if whole.hits is None else {k: values[chosen] for k, values in full.items()}
    return Outcomes(whole.n[chosen], whole.c[chosen], whole.errors[chosen], ranks, hits, whole.pools)


def _check_trials(first: Outcomes, second: Outcomes) -> None:
    trials = [_trials(outcomes) for outcomes in (first, second)]
    if trials[0] != trials[1]:
        raise HarnessError(f"compare: the cells have {trials[0]} and {trials[1]} trials: run both with equally many")


def _trials(outcomes: Outcomes) -> int:
    values = outcomes.ranks if outcomes.ranks is not None else next(iter((outcomes.hits or {}).values()))
    return int(values.shape[1])


def _budget(first: Outcomes, second: Outcomes) -> int | None:
    """None for two rankers; else the telling budget of the first pools, or 1 if none of their problems is solvable."""
    if first.ranks is not None and second.ranks is not None:
        return None
    budget = telling_budget(first.n, first.c) or 1
    if any(outcomes.hits_within(budget) is None for outcomes in (first, second)):
        raise HarnessError(f"compare: the pools differ in size, and the subsets have no common budget of {budget}")
    return budget


def _compared(outcomes: Outcomes, budget: int | None) -> Floats:
    """Per problem the mean rank of the first correct response; at a budget the share of trials without a hit."""
    if budget is None:
        assert outcomes.ranks is not None
        return outcomes.inside(outcomes.ranks.mean(axis=1))
    hits = outcomes.hits_within(budget)
    assert hits is not None
    return outcomes.inside(1 - hits.mean(axis=1))


def _about(group: Sequence[seed_groups.Keyed]) -> dict[str, Any]:
    """The labels and seeds of a row, and some of its metrics."""
    row = seed_groups.row(group).to_json()
    labels = {name: row[name] for name in cells.LABELS}
    return {"cell": row["cell"], **labels, "seeds": row["seeds"], **{name: row[name] for name in METRICS}}
