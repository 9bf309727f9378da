"""Efficiency: how many times fewer verifier calls one method needs than another for the same pass@k.

It is the horizontal distance between two curves of pass@k (Tuyls et al. 2025, arXiv:2510.11686: "3x to 6x", "56.9x").
A curve is known at ascending budgets. It is made monotone by its running maximum (a subset method's may fall), and is
linear in k between two budgets. calls(h), the fewest with which it reaches the height h, is never below its first
budget. At budget k of the method behind, whose pass@k is h:

    times(k) = k / calls_ahead(h)

Below 1 the method "ahead" needs more calls than the other. Where the curve behind is flat up to k, k and h are those of
the first budget of the flat part, as the method behind needs no more calls either. Equal methods have 1 everywhere.

The 95 % interval is from a percentile bootstrap over problems: both curves have the same resampled problems, and the
trials and seeds of a problem are averaged first. There is none where fewer than `ROOM` problems lie between h and 0 or
the last height of the method ahead: a few problems then decide. At k = N this is so for any two selectors of one pool,
since both have found all that is there. `tests/bench/calibration.py --only efficiency` measures the coverage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from harness.records import Floats, Ints

from . import stats
from .budget_curves import random_shares, selected_shares
from .metrics import Outcomes

ROOM = 5  # problems; with fewer the measured coverage falls to 60 % and less
FLAT = 1e-3  # problems: a curve that rises by less is flat
TINY = 1e-11  # heights that differ by less are equal: sums of shares differ in their last digits
NEVER = "the method ahead never reaches this pass@k"
TOO_NEAR = f"fewer than {ROOM} problems lie between this pass@k and 0 or the most that the method ahead reaches"
UNSOLVED = "no problem is solved at this k"
CHOSEN = "the budget was chosen because the factor is large there"


@dataclass(frozen=True, eq=False)
class Curve:
    """pass@k of one method on its problems and on resamples of them, monotone in k.

    ks        (budgets,) ascending
    passed    (1 + resamples, budgets): row 0 is of the problems themselves
    problems  their number
    """

    ks: Ints
    passed: Floats
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

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


def curve(ks: Sequence[int], shares: Floats, seed: int) -> Curve:
    """The curve of a method; shares (problems, budgets) of each problem's trials that hold a correct response by k.

    Curves of the same problems, in the same order and with equal seeds, are paired.
    """
    rows = [shares.mean(axis=0)[None], *(weights @ shares for weights in stats.resamples(len(shares), seed))]
    return Curve(np.array(ks), np.maximum.accumulate(np.concatenate(rows), axis=1), len(shares))


def selected_curve(outcomes: Outcomes, seed: int) -> Curve:
    """The curve of a selector at each budget up to the smallest pool, or at those for which all pools have a subset."""
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
    values = zip(*(column.tolist() for column in columns), _room(ahead, behind)[places], strict=True)
    return [_checked(Factor(*fields), room) for *fields, room in values]


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
    first = np.minimum(_first(behind, behind.passed[:, places] - FLAT / behind.problems), places)
    heights = np.take_along_axis(behind.passed, first, axis=1)
    calls, theirs = _calls(ahead, heights), behind.ks[first]
    return calls, theirs, np.where(heights > TINY, theirs / calls, np.inf)


def _calls(curve: Curve, heights: Floats) -> Floats:
    """The smallest k, on the line between budgets, at which each row's curve reaches that row's heights; inf: never."""
    ks, first = curve.ks, _first(curve, heights - TINY)
    after = np.minimum(first, len(ks) - 1)
    before = np.maximum(after - 1, 0)
    low, high = (np.take_along_axis(curve.passed, places, axis=1) for places in (before, after))
    part = np.clip((heights - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    calls: Floats = np.where(first < len(ks), ks[before] + part * (ks[after] - ks[before]), np.inf)
    return calls


def _first(curve: Curve, heights: Floats) -> Ints:
    """The index of the first budget at which each row's curve is at that row's heights; their number: at none."""
    rows = np.arange(len(curve.passed))[:, None]
    table = (curve.passed + 2.0 * rows).ravel()  # all rows in one ascending table
    first: Ints = np.searchsorted(table, np.maximum(heights, 0) + 2.0 * rows) - len(curve.ks) * rows
    return first


def _checked(factor: Factor, room: float) -> Factor:
    """The factor without what does not hold (0: never reached, inf: nothing solved), and the reason."""
    if not factor.times or factor.pass_at_k <= TINY:
        return replace(factor, calls=None, times=None, times_ci=None, no_interval=UNSOLVED if factor.times else NEVER)
    if room < ROOM:
        return replace(factor, times_ci=None, no_interval=TOO_NEAR)
    return replace(factor, times_ci=[stats.rounded(end) if end else None for end in factor.times_ci or ()])
