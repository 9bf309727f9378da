"""pass@k at every budget: shares, bands, and how many times fewer calls one method needs than another for the same.

Bands are pointwise and 95 %, from a percentile bootstrap over problems, with the trials of a problem averaged first.
Two curves of one pool share its problems, so overlapping bands do not mean that there is no difference.

The *factor*, how many times fewer calls, is the horizontal distance between two curves (Tuyls et al. 2025,
arXiv:2510.11686: "3x to 6x", "56.9x"). A curve is known at ascending budgets. It is made monotone by its running
maximum (a subset method's may fall), and is linear in k between two budgets. calls(h), the fewest with which it reaches
the height h, is never below its first budget. At budget k of the method behind, whose pass@k is h:

    times(k) = k / calls_ahead(h)

Below 1 the method "ahead" needs more calls than the other. Where the curve behind is flat up to k, k and h are those of
the first budget of the flat part, as the method behind needs no more calls either. Equal methods have 1 everywhere.

Its 95 % interval is from a percentile bootstrap over problems: both curves have the same resampled problems, and the
trials and seeds of a problem are averaged first. There is none where fewer than `ROOM` problems lie between h and 0 or
the last height of the method ahead: a few problems then decide. At k = N this is so for any two selectors of one pool,
since both have found all that is there. `tests/bench/calibration.py --only efficiency` measures the coverage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.records import Floats, Ints

from . import metrics, stats
from .metrics import Outcomes

POINTS = 40  # budgets of a curve, evenly spaced on a log axis
RESAMPLES = 1000
ROOM = 5  # problems; with fewer the measured coverage falls to 60 % and less
FLAT = 1e-3  # problems: a curve that rises by less is flat
TINY = 1e-11  # heights that differ by less are equal: sums of shares differ in their last digits
NEVER = "the method ahead never reaches this pass@k"
TOO_NEAR = f"fewer than {ROOM} problems lie between this pass@k and 0 or the most that the method ahead reaches"
UNSOLVED = "no problem is solved at this k"
CHOSEN = "the budget was chosen because the factor is large there"


# pass@k of each problem, (problems, budgets).


def budgets(n: int) -> list[int]:
    """The budgets of a curve, ascending: at most `POINTS` on a log axis from 1 to n, and those of the tables."""
    return sorted({int(k) for k in np.geomspace(1, n, POINTS).round()} | set(metrics.budgets(n)))


def random_shares(outcomes: Outcomes, ks: Sequence[int]) -> Floats:
    """pass@k of random selection, (problems, budgets)."""
    return np.stack([metrics.random_pass_at_k(outcomes.n, outcomes.c, k, outcomes.correct) for k in ks], axis=1)


def oracle_shares(outcomes: Outcomes, ks: Sequence[int]) -> Floats:
    """pass@k of the oracle, (problems, budgets): its first m picks are correct if so many responses are."""
    shares: Floats = (outcomes.solvable[:, None] & (np.array(ks) >= outcomes.correct)).astype(float)
    return shares


def selected_shares(outcomes: Outcomes, ks: Sequence[int]) -> tuple[list[int], Floats]:
    """The budgets, and for each problem and budget the share of trials that hit by it, (problems, budgets).

    For a ranker the budgets are `ks`. No budget may exceed the size of the smallest pool: else the rank N+1, which
    means "not so many are correct", would count as a hit. For a subset method `ks` is ignored: the budgets are those
    for which every problem has a subset.
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


# How many times fewer calls.


@dataclass(frozen=True, eq=False)
class Curve:
    """pass@k of one method on its problems and on resamples of them, monotone in k."""

    ks: Ints  # (budgets,) ascending
    passed: Floats  # (1 + resamples, budgets): row 0 is of the problems themselves
    problems: int


@dataclass(frozen=True)
class Factor:
    """How many times fewer calls the method ahead needs at one budget of the method behind.

    k, pass_at_k  the budget of the method behind, and its pass@k
    calls_behind  with which it has that already: k, or less where its curve is flat up to k
    calls         with which the method ahead reaches it; None if it never does
    times         calls_behind / calls; None if `calls` is, or if no problem is solved at k
    times_ci      [low, high]; low is None if it is open: in more than 2.5 % of the resamples the height is never
                  reached. None: no interval
    no_interval   why there is none; None if there is one
    """

    k: int
    pass_at_k: float
    calls_behind: int
    calls: float | None
    times: float | None
    times_ci: list[float | None] | None
    no_interval: str | None = None


def curve(ks: Sequence[int], shares: Floats, seed: int) -> Curve:
    """The curve of a method; shares (problems, budgets) of each problem's trials that hold a correct response by k.

    Curves of the same problems, in the same order and with equal seeds, are paired.
    """
    rows = [shares.mean(axis=0)[None], *(weights @ shares for weights in stats.resamples(len(shares), seed))]
    return Curve(np.array(ks), np.maximum.accumulate(np.concatenate(rows), axis=1), len(shares))


def selected_curve(outcomes: Outcomes, seed: int) -> Curve:
    """That of a selector, at each budget up to the smallest pool, or at those for which all pools have a subset."""
    ks, shares = selected_shares(outcomes, range(1, int(outcomes.n.min()) + 1))
    return curve(ks, outcomes.inside(shares), seed)


def random_curve(outcomes: Outcomes, seed: int) -> Curve:
    """The exact curve of random selection on the same pools, at each budget up to the smallest pool."""
    ks = range(1, int(outcomes.n.min()) + 1)
    return curve(ks, outcomes.inside(random_shares(outcomes, ks)), seed)


def factors(ahead: Curve, behind: Curve, ks: Iterable[int]) -> list[Factor]:
    """How many times fewer calls `ahead` needs, at each of these budgets of `behind` that its curve has."""
    places = np.flatnonzero(np.isin(behind.ks, list(ks)))
    calls, theirs, times = _times(ahead, behind, places)
    ends = np.quantile(times[1:], [0.025, 0.975], axis=0, method="inverted_cdf").T
    columns = (behind.ks[places], behind.passed[0, places], theirs[0], calls[0], times[0], ends)
    made = []
    for *fields, room in zip(*(column.tolist() for column in columns), _room(ahead, behind)[places], strict=True):
        factor = Factor(*fields)
        if not factor.times or factor.pass_at_k <= TINY:  # 0: never reached, inf: nothing solved
            reason = UNSOLVED if factor.times else NEVER
            made.append(replace(factor, calls=None, times=None, times_ci=None, no_interval=reason))
        elif room < ROOM:
            made.append(replace(factor, times_ci=None, no_interval=TOO_NEAR))
        else:
            made.append(replace(factor, times_ci=[stats.rounded(end) if end else None for end in fields[-1]]))
    return made


def largest(ahead: Curve, behind: Curve) -> Factor | None:
    """The largest factor at any budget of `behind` with `ROOM`; without an interval, as its place was chosen by it."""
    places = np.flatnonzero(_room(ahead, behind) >= ROOM)
    if not places.size:
        return None
    *_, times = _times(ahead, behind, places)
    best = behind.ks[places[times[0].argmax()]]
    return replace(factors(ahead, behind, [best])[0], times_ci=None, no_interval=CHOSEN)


def _room(ahead: Curve, behind: Curve) -> Floats:
    """How many problems lie between each height of `behind` and the nearer of 0 and the last height of `ahead`."""
    heights = behind.passed[0]
    room: Floats = ahead.problems * np.minimum(heights, ahead.passed[0, -1] - heights)
    return room


def _times(ahead: Curve, behind: Curve, places: Ints) -> tuple[Floats, Ints, Floats]:
    """The calls of both (inf: never) and the factor (0: never, inf: nothing solved), (1 + resamples, places)."""
    flat = np.minimum(_first(behind, behind.passed[:, places] - FLAT / behind.problems), places)
    heights, theirs = np.take_along_axis(behind.passed, flat, axis=1), behind.ks[flat]
    # Where, on the line between two budgets of the method ahead, it reaches these heights.
    ks, first = ahead.ks, _first(ahead, heights - TINY)
    after = np.minimum(first, len(ks) - 1)
    before = np.maximum(after - 1, 0)
    low, high = (np.take_along_axis(ahead.passed, budget, axis=1) for budget in (before, after))
    part = np.clip((heights - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    calls = np.where(first < len(ks), ks[before] + part * (ks[after] - ks[before]), np.inf)
    return calls, theirs, np.where(heights > TINY, theirs / calls, np.inf)


def _first(curve: Curve, heights: Floats) -> Ints:
    """The index of the first budget at which each row's curve is at that row's heights; their number: at none."""
    rows = np.arange(len(curve.passed))[:, None]
    table = (curve.passed + 2.0 * rows).ravel()  # all rows in one ascending table
    first: Ints = np.searchsorted(table, np.maximum(heights, 0) + 2.0 * rows) - len(curve.ks) * rows
    return first
