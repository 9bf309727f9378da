"""Selectors across pools: the geometric mean of their improvement, the worst pool, and how sure both are.

A pool is one table of a leaderboard. The improvement on a pool is random selection's samples-to-correct divided by the
selector's (`scoring.metrics`). The mean is geometric, since 2 and 1/2 cancel. Two intervals, both 95 %:

    problems   of the mean over these very pools, if their problems were sampled anew: the pools' own intervals, which
               are symmetric on the log scale, combined as independent
    pools      of the mean over pools like these: Student's t on the log improvements; none for fewer than three pools

The second is the one for "which selector should I use on my pool?", and it is wide, since pools are few and were not
sampled at random from anything. Tables of the same problems (other seeds, samplers or models) are not independent: give
folders with one of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.plugin_system.component import build
from harness.plugin_system.picks import information
from harness.plugin_system.registry import Registry, load_registry

from .leaderboard import Board
from .rows import Interval, Row

LEAST_POOLS = 3  # for an interval over pools


@dataclass(frozen=True)
class Across:
    """A selector, with the vectors that it reads, on several pools.

    reads                     what it is given: "answers", "texts", "vectors", ...; None if it is not installed here, or
                              does not say
    pools                     how many of them it ranked
    improvement               geometric mean over these pools, with the intervals over problems and over pools
    solvable                  the same mean over problems with a correct response; None if a pool has no such value
    worst, worst_pool         the smallest improvement, and where
    win, loss                 mean chance of a lower, and of a higher, rank than in a random order
    """

    selector: str
    embedder: str
    reads: Sequence[str] | None
    pools: int
    improvement: float
    improvement_ci: Interval
    pools_ci: Interval
    solvable: float | None
    worst: float
    worst_pool: str
    win: float
    loss: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


def across(boards: Sequence[Board]) -> list[Across]:
    """A line for each selector and embedder: those on most pools first, then by falling improvement.

    Subset methods have no samples-to-correct and are left out.
    """
    grouped: dict[tuple[str, str], list[tuple[str, Row]]] = {}
    for board in boards:
        for row in board.rows:
            if row.improvement is not None:
                grouped.setdefault((row.name, row.embedder), []).append((pool_name(board), row))
    registry = load_registry()
    lines = [_line(*names, _reads(registry, rows[0][1].selector), rows) for names, rows in grouped.items()]
    return sorted(lines, key=lambda line: (-line.pools, -line.improvement, line.selector, line.embedder))


def pool_name(board: Board) -> str:
    """A pool's name: task, model and sampler, and n."""
    parts = [board.about[name] for name in ("task", "model", "sampler") if board.about[name] not in ("pool", None)]
    return ", ".join([*dict.fromkeys(map(str, parts)), f"n = {board.about['n']}"])


def _reads(registry: Registry, selector: str) -> Sequence[str] | None:
    try:
        return information(build(registry, "selector", selector))
    except HarnessError:  # a plugin of others: its cells are read without it
        return None


def _line(selector: str, embedder: str, reads: Sequence[str] | None, rows: Sequence[tuple[str, Row]]) -> Across:
    logs = [math.log(row.improvement or 1) for _, row in rows]
    worst = min(range(len(rows)), key=lambda place: logs[place])
    return Across(
        selector=selector,
        embedder=embedder,
        reads=reads,
        pools=len(rows),
        improvement=math.exp(float(np.mean(logs))),
        improvement_ci=_over_problems(logs, [row.improvement_ci for _, row in rows]),
        pools_ci=_over_pools(logs),
        solvable=_mean([row.improvement_solvable for _, row in rows]),
        worst=math.exp(logs[worst]),
        worst_pool=rows[worst][0],
        win=float(np.mean([row.win or 0 for _, row in rows])),
        loss=float(np.mean([row.loss or 0 for _, row in rows])),
    )


def _mean(ratios: Sequence[float | None]) -> float | None:
    """The geometric mean; None if a value is missing."""
    known = [math.log(ratio) for ratio in ratios if ratio]
    return math.exp(float(np.mean(known))) if len(known) == len(ratios) else None


def _over_problems(logs: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """The interval of the mean if each pool's problems were sampled anew; None if a pool has no interval."""
    halves = [math.log(ends[1] / ends[0]) / 2 for ends in intervals if ends]
    if len(halves) < len(logs):
        return None
    return _ends(float(np.mean(logs)), math.sqrt(sum(half**2 for half in halves)) / len(logs))


def _over_pools(logs: Sequence[float]) -> Interval:
    """Student's interval of the mean over pools; None for fewer than `LEAST_POOLS`."""
    if len(logs) < LEAST_POOLS:
        return None
    from scipy.stats import t  # a second of import

    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    return _ends(float(np.mean(logs)), float(t.ppf(0.975, len(logs) - 1)) * error)


def _ends(log: float, half: float) -> list[float]:
    return [float(f"{math.exp(log + side * half):.6g}") for side in (-1, 1)]
