"""The columns that say how many times fewer calls a selector needs than random selection for the same pass@k."""

from __future__ import annotations

from collections.abc import Sequence

from harness.scoring.curves import factors, random_curve, selected_curve

from .chosen import Chosen
from .request import Row


def times_fewer(cell: Chosen, ks: Sequence[int]) -> list[Row]:
    """Return for each budget k how many times fewer calls the selector needs for random's pass@k, and the interval.

    Random selection is that of the cell's own pool. An empty `times_fewer`: that pass@k is never reached, or is 0.
    `times_fewer_low` alone empty: the interval is open below; both ends empty: there is none.
    """
    ahead, behind = (curve(cell.outcomes, cell.resampling_seed) for curve in (selected_curve, random_curve))
    rows = []
    for factor in factors(ahead, behind, ks):
        low, high = factor.times_ci or (None, None)
        rows.append({"times_fewer": factor.times, "times_fewer_low": low, "times_fewer_high": high})
    return rows
