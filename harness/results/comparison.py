"""`harness compare A B`: two rows on the same problems, the paired difference, and the problems that differ.

A key names a row: its cell and all cells in the searched folders that differ from it only in their seeds. A file names
its cell alone. If the rows share seeds, only these are compared, so that the pools are the same; else all seeds.
Two rankers are compared by samples-to-correct. If one is a subset method, both are compared by pass@k, at the budget at
which random selection solves about half of the solvable problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.records import Floats
from harness.scoring import curves, stats
from harness.scoring.metrics import Outcomes, budgets, telling_budget
from harness.system.json_text import digest

from . import cells, published, rows
from .cells import Cell
from .legends import ordinal
from .rows import Keyed

METRICS = ("p_random", "k95", "calls_saved", "trust", "budget", "p_budget")


def compare(names: Sequence[str], folders: Sequence[Path]) -> dict[str, Any]:
    """Compare two rows; each is named by a cell's file or by the beginning of a cell's key in the folders.

    `left_out`: how many problems only one row has. `seeds_left_out`: how many cells have a seed that only one row has;
    if the rows share no seed, all cells are compared. `difference`: mean calls of the first minus the second, with its
    interval and the p of a sign-flip permutation test; `ratio`: mean of the second / mean of the first, above 1 the
    first needs fewer. `fewer`, `more`: the problems where the first needs fewer, or more, calls than the second (at a
    budget: hits more, or less, often), the largest difference first, with the means of both. At a budget the difference
    is of the shares of misses: below 0 the first hits more often. `no_interval`: key of each null interval -> the
    reason. `efficiency`: at the second's k = 1, 2, 4, ..., N, how many times fewer calls the first needs for the same
    pass@k (the fields of `curves.Factor`); `largest_efficiency`: the largest at any k.
    """
    both = [_row(name, folders) for name in names]
    cells_of_both = sum(map(len, both))
    seeds = set.intersection(*({cell["labels"]["seed"] for _, cell in group} for group in both))
    if seeds:
        both = [[keyed for keyed in group if keyed[1]["labels"]["seed"] in seeds] for group in both]
    ids = [dict.fromkeys(entry["id"] for entry in group[0][1]["problems"]) for group in both]
    shared = [problem for problem in ids[0] if problem in ids[1]]
    if not shared:
        raise HarnessError(f"compare: {names[0]!r} and {names[1]!r} have no problem in common")
    first, second = (rows.outcomes([(key, _part(cell, shared)) for key, cell in group]) for group in both)
    if first.correct != second.correct:
        to = [f"the {ordinal(each.correct)}" for each in (first, second)]
        raise HarnessError(
            f"compare: the cells count to {to[0]} and to {to[1]} correct response: run both with one --correct"
        )
    trials = [_by_trial(each, budget=1).shape[1] for each in (first, second)]
    if trials[0] != trials[1]:
        raise HarnessError(f"compare: the cells have {trials[0]} and {trials[1]} trials: run both with equally many")
    budget = None
    if first.ranks is None or second.ranks is None:
        budget = telling_budget(first.n, first.c, first.correct) or 1
        if any(outcomes.hits_within(budget) is None for outcomes in (first, second)):
            raise HarnessError(f"compare: the pools differ in size, and the subsets have no common budget of {budget}")
    x, y = (each.inside(_by_trial(each, budget).mean(axis=1)) for each in (first, second))  # calls, or misses
    d, shown = x - y, (x, y) if budget is None else (1 - x, 1 - y)  # calls, or hits
    seed = int(digest([cells.resampling_seed(*(cell for _, cell in group)) for group in both], 8), 16)
    most = 1.0 if budget is not None else float(max(first.n.max(), second.n.max()))
    difference_ci = stats.difference_interval(d, seed, most)
    ratio_ci = stats.ratio_interval(y, x, seed) if budget is None else None
    no_interval = {}
    if difference_ci is None:
        no_interval["difference_ci"] = stats.why_none(len(shared), stats.BEYOND_RANGE)
    if budget is None and ratio_ci is None:
        no_interval["ratio_ci"] = stats.why_none(len(shared), stats.TOO_WIDE)
    means = [float(values.mean()) for values in shown]
    ahead, behind = (curves.selected_curve(outcomes, seed) for outcomes in (first, second))
    largest = curves.largest(ahead, behind)
    differing = [
        (d[at], {"id": shared[at], "first": float(shown[0][at]), "second": float(shown[1][at])})
        for at in np.argsort(-np.abs(d), kind="stable")
    ]
    return {
        "first": _about(both[0]),
        "second": _about(both[1]),
        "same_pool": list(rows.by_pool(both[0])) == list(rows.by_pool(both[1])),
        "problems": len(shared),
        "left_out": len(ids[0].keys() ^ ids[1].keys()),
        "seeds_left_out": cells_of_both - sum(map(len, both)),
        "budget": budget,
        "samples_to_correct": means if budget is None else None,
        "pass_at_budget": means if budget is not None else None,
        "difference": float(d.mean()),
        "difference_ci": difference_ci,
        "ratio": float(y.mean() / x.mean()) if budget is None else None,
        "ratio_ci": ratio_ci,
        **({"no_interval": no_interval} if no_interval else {}),
        "p": stats.sign_flip_test(d, seed),
        "efficiency": [asdict(each) for each in curves.factors(ahead, behind, budgets(int(behind.ks[-1])))],
        "largest_efficiency": asdict(largest) if largest else None,
        "fewer": [problem for less, problem in differing if less < 0],
        "more": [problem for less, problem in differing if less > 0],
    }


def _row(name: str, folders: Sequence[Path]) -> list[Keyed]:
    """The cells of the row that a name stands for: a file's cell, or a key's cell with those of other seeds.

    Other files that cannot be read are skipped, as in a leaderboard.
    """
    place = published.named(name, folders, "compare")
    named = published.read(place)
    if "failed" in named:
        raise HarnessError(f"compare: cell {name!r} failed ({named['failed']}): run it again")
    if place.path == Path(name):
        return [(place.key, named)]
    alike: dict[str, Cell] = {}
    labels = {name: value for name, value in named["labels"].items() if name != "seed"}
    for other in published.places(folders):
        with suppress(HarnessError):
            cell = published.read(other, labels)
            if "failed" not in cell and rows.shared_inputs(cell) == rows.shared_inputs(named):
                alike[other.key] = cell
    return next(group for group in rows.rows_of(alike) if place.key in dict(group))


def _part(cell: Cell, problems: Sequence[str]) -> Cell:
    """The cell with these of its problems, in this order."""
    entries = {entry["id"]: entry for entry in cell["problems"]}
    return {**cell, "problems": [entries[problem] for problem in problems]}


def _by_trial(outcomes: Outcomes, budget: int | None) -> Floats:
    """The rank of the correct response counted to, (entries, trials); at a budget, or without ranks, its misses."""
    if budget is None and outcomes.ranks is not None:
        return np.asarray(outcomes.ranks, float)
    hits = outcomes.hits_within(budget or 1)
    assert hits is not None
    return 1 - hits


def _about(group: Sequence[Keyed]) -> dict[str, Any]:
    """The labels and seeds of a row, and some of its metrics."""
    row = rows.row_of(group).to_json()
    return {name: row[name] for name in ("cell", *cells.LABELS, "seeds", *METRICS)}
