"""pass@k of a cell at every budget, with confidence bands: the values that plots and reports show as curves.

For random selection pass@k is exact on each problem, 1 - C(N-c, k)/C(N, k). For a selector it is the share of trials
whose first k picks (for a subset method: whose subset of size k) hold a correct response. Bands are pointwise and 95 %,
from a percentile bootstrap over problems, with the trials of a problem averaged first. The bootstrap is seeded: the
same cell gives the same band. Two curves of one pool share its problems, so overlapping bands do not mean that there is
no difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.records import Floats

from . import metrics
from .metrics import Outcomes

POINTS = 40  # budgets of a curve, evenly spaced on a log axis
RESAMPLES = 1000


def budgets(n: int) -> list[int]:
    """Return the budgets of a curve, ascending: at most `POINTS` on a log axis from 1 to n, and those of the tables."""
    return sorted({int(k) for k in np.geomspace(1, n, POINTS).round()} | set(metrics.budgets(n)))


def random_shares(outcomes: Outcomes, ks: Sequence[int]) -> Floats:
    """pass@k of random selection, (problems, budgets)."""
    return np.stack([metrics.random_pass_at_k(outcomes.n, outcomes.c, k) for k in ks], axis=1)


def oracle_shares(outcomes: Outcomes, ks: Sequence[int]) -> Floats:
    """pass@k of the oracle, (problems, budgets): its first pick is correct if any response is."""
    return np.repeat((outcomes.c > 0)[:, None].astype(float), len(ks), axis=1)


def selected_shares(outcomes: Outcomes, ks: Sequence[int]) -> tuple[list[int], Floats]:
    """The budgets, and for each problem and budget the share of trials with a correct response, (problems, budgets).

    For a ranker the budgets are `ks`. No budget may exceed the size of the smallest pool: else the rank N+1, which
    means "no correct response", would count as a hit. For a subset method `ks` is ignored: the budgets are those for
    which every problem has a subset.
    """
    if outcomes.hits is not None:
        complete = [k for k, hits in sorted(outcomes.hits.items()) if len(hits) == len(outcomes.n)]
        return complete, np.stack([outcomes.hits[k].mean(axis=1) for k in complete], axis=1)
    assert outcomes.ranks is not None
    return list(ks), (outcomes.ranks[:, :, None] <= np.array(ks)).mean(axis=1)


def band(shares: Floats, seed: int) -> tuple[Floats, Floats]:
    """The ends of the 95 % band of the mean over problems: low, high (budgets,); shares (problems, budgets)."""
    problems = len(shares)
    counts = np.random.default_rng(seed).multinomial(problems, np.full(problems, 1 / problems), RESAMPLES)
    low, high = np.percentile(counts @ shares / problems, [2.5, 97.5], axis=0)
    return low, high
