"""95 % intervals of pass@k after training, and of its difference between two methods, over problems and seeds.

Other problems and other trainings would give other values. With x (seeds, problems) of a method, the variance of its
mean is estimated as

    var over p of (mean over s) / problems  +  var over s of (mean over p) / seeds

and the interval is Student's t with Satterthwaite's degrees of freedom (few seeds have few). What varies with both is
in both terms, so the interval is rather too wide than too narrow. Two methods are paired by problem, and not by seed:
the first term is of their difference, the second of each. A method with one policy (the initial model, one seed) has
no second term: its interval is over problems only. Nothing is resampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import t

from harness.records import Floats
from harness.scoring.metrics import random_pass_at_k
from harness.scoring.stats import LEVEL


def columns(n: int, counts: Mapping[str, Sequence[Sequence[int]]], ks: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Return for each method the columns of its row that hold intervals; str(k) -> value, an interval as [low, high].

    pass_at_k_ci                of the method's pass@k
    gain_over, gain_over_ci     other method -> its pass@k subtracted from this one's, and the interval of that

    n       responses a problem
    counts  method -> for each of its policies the number of correct responses to each problem

    An interval is None for one problem, and if nothing varies.
    """
    solved = {method: _pass_at_k(n, each, ks) for method, each in counts.items()}
    names = [str(k) for k in ks]

    def by_k(values: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(names, values, strict=True))

    def gains(own: Floats, others: Mapping[str, Floats]) -> dict[str, Any]:
        differences = {method: own.mean((0, 1)) - other.mean((0, 1)) for method, other in others.items()}
        return {
            "gain_over": {method: by_k(each.tolist()) for method, each in differences.items()},
            "gain_over_ci": {method: by_k(intervals(own, other)) for method, other in others.items()},
        }

    return {
        method: {"pass_at_k_ci": by_k(intervals(own))}
        | gains(own, {other: values for other, values in solved.items() if other != method})
        for method, own in solved.items()
    }


def _pass_at_k(n: int, counts: Sequence[Sequence[int]], ks: Sequence[int]) -> Floats:
    """Unbiased pass@k of each policy on each problem, (policies, problems, ks)."""
    c = np.array(counts)
    return np.stack([random_pass_at_k(np.full(c.shape, n), c, k) for k in ks], axis=2)


def intervals(own: Floats, other: Floats | None = None) -> list[list[float] | None]:
    """Return [low, high] of the mean of `own`, less that of `other`, for each column.

    own, other  (seeds, problems, columns), of the same problems; the number of seeds may differ

    None for fewer than two problems, and where nothing varies.
    """
    sides = [own] if other is None else [own, other]
    problems = own.shape[1]
    if problems < 2:
        return [None] * own.shape[2]
    paired = own.mean(0) - (0 if other is None else other.mean(0))  # (problems, columns)
    terms = [(paired.var(0, ddof=1) / problems, problems - 1)]
    terms += [(side.mean(1).var(0, ddof=1) / len(side), len(side) - 1) for side in sides if len(side) > 1]
    variance = np.sum([term for term, _ in terms], axis=0)
    shares = [(term / np.where(variance > 0, variance, 1)) ** 2 / df for term, df in terms]
    half = t.ppf((1 + LEVEL) / 2, 1 / np.sum(shares, axis=0).clip(1e-9)) * np.sqrt(variance)
    return [
        [float(f"{mean - h:.6g}"), float(f"{mean + h:.6g}")] if h > 1e-12 else None
        for mean, h in zip(paired.mean(0), half, strict=True)
    ]
