"""pass@k of a cell at every budget, with bands: what a curve is drawn from, in a report and in a figure.

Random's pass@k is exact on each problem, 1 - C(N-c, k)/C(N, k); a selector's is the share of trials whose first k
picks (a subset method's: whose subset of size k) hold a correct response. Bands are 95 %, pointwise, by a percentile
bootstrap over problems, trials averaged inside a problem first; seeded, so that the same cell gives the same band. Two
curves of one pool share its problems: bands that overlap do not mean that there is no difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.records import Floats

from . import metrics
from .metrics import Outcomes

POINTS = 40  # budgets of a curve, even on a log axis
RESAMPLES = 1000


def budgets(n: int) -> list[int]:
    """About `POINTS` budgets from 1 to n, those of the tables among them."""
    return sorted({int(k) for k in np.geomspace(1, n, POINTS).round()} | set(metrics.budgets(n)))


def random_shares(outcomes: Outcomes, ks: Sequence[int]) -> Floats:
    """pass@k of random selection, (problems, budgets)."""
    return np.stack([metrics.random_pass_at_k(outcomes.n, outcomes.c, k) for k in ks], axis=1)


def oracle_shares(outcomes: Outcomes, ks: Sequence[int]) -> Floats:
    """pass@k of who knows the verdicts, (problems, budgets): the first pick is correct, where any response is."""
    return np.repeat((outcomes.c > 0)[:, None].astype(float), len(ks), axis=1)


def selected_shares(outcomes: Outcomes, ks: Sequence[int]) -> tuple[list[int], Floats]:
    """The budgets, and at each every problem's share of trials that found a correct response, (problems, budgets).

    A subset method has budgets of its own. No budget may be larger than the smallest pool: N+1, which says that there
    is none, never counts.
    """
    if outcomes.hits is not None:
        there = [k for k, hits in sorted(outcomes.hits.items()) if len(hits) == len(outcomes.n)]
        return there, np.stack([outcomes.hits[k].mean(axis=1) for k in there], axis=1)
    assert outcomes.ranks is not None
    return list(ks), (outcomes.ranks[:, :, None] <= np.array(ks)).mean(axis=1)


def band(shares: Floats, seed: int) -> tuple[Floats, Floats]:
    """The ends (budgets,) of the 95 % band of the mean over problems of shares (problems, budgets)."""
    problems = len(shares)
    drawn = np.random.default_rng(seed).multinomial(problems, np.full(problems, 1 / problems), RESAMPLES)
    low, high = np.percentile(drawn @ shares / problems, [2.5, 97.5], axis=0)
    return low, high
