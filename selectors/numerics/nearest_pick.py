"""Compute the exact distance of every row to the nearest pick so far, and the greedy order by it.

    score(x) = base(x) + weight · min over the picks p of |x - p|²        pick the largest

The picks must be those of `kcenter.reference_order` (base 0), each the farthest by `kcenter.reference_distances` within
1e-9 of it; for `mmr`, on unit rows, each the best by `mmr.reference_scores` within 1e-9. Scores closer than TIE,
relatively, count as equal. The lowest index of the active set is then picked: a row outside it can lose such a tie.

The reference computes n distances at every pick. But a pick lowers few of them, so most of the n²/2 pairs can be
skipped:

- One float32 matrix product is a sieve: |x|² + |p|² - 2 x·p, less a bound on its rounding, tells which pairs may be
  nearer than the distance known so far. Only those, some ten a row, are computed, as the sum of squared differences in
  float64. So distances have all their digits, copies are at 0, and equal distances tie.
- Distances never rise. Picks are made inside a small active set of the best rows while its best row beats all outside.
  Then one product brings this block of picks to the rows outside (as in `elliptical`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .vectors import TIE, squared_norms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .vectors import Float64s, Floats, Ints

ACTIVE = 256  # rows in the active set
FEW = 32  # ... or fewer at first: this many, plus one for each pick so far, so that a short ranking is cheap
LOOSE = 0.05  # the sieve uses float64 if the error of float32 is more than this share of the largest distance
PAIRS = 256  # rows that are converted to float64 at a time: they stay in the cache
COMPACT = 0.9  # when only this share of the sieve's rows remains, they are copied without the others


def greedy_order(h: Floats, base: Float64s, weight: float, first: int, picked: Sequence[int] = ()) -> Iterator[int]:
    """Yield all n indices: `first`, then always the largest base + weight · (squared distance to the nearest pick).

    h (n, d) finite; base (n,); weight >= 0. Ties go to the lowest index of the active set. Memory O(n d). If any were
    `picked` before, they replace `first`, and are not yielded.
    """
    nearest = NearestPick(h)
    if not picked:
        yield first
    nearest.take(picked or [first])
    picks = len(picked) or 1
    while nearest.unpicked.any():
        rows = np.flatnonzero(nearest.unpicked)
        if not nearest.distance[rows].any():  # only copies of picks remain, and no pick changes their scores
            yield from rows[np.argsort(-base[rows], kind="stable")].tolist()
            return
        score = base[rows] + weight * nearest.distance[rows]
        chosen, outside = largest(score, min(ACTIVE, FEW + picks))
        block = []
        for pick in _picks_inside(nearest, rows[chosen], base, weight, outside):
            yield pick
            block.append(pick)
        nearest.take(block)
        picks += len(block)


def largest(score: Float64s, size: int) -> tuple[Ints, float]:
    """Return the indices of the `size` largest scores, ascending, ties to the lowest; and the largest other score.

    With at most `size` scores the latter is -inf.
    """
    if len(score) <= size:
        return np.arange(len(score)), -np.inf
    border = float(np.partition(score, -size)[-size])
    chosen = score > border + TIE * abs(border)
    tied = np.flatnonzero((score >= border - TIE * abs(border)) & ~chosen)
    chosen[tied[: size - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen), float(score[~chosen].max())


def _picks_inside(nearest: NearestPick, active: Ints, base: Float64s, weight: float, outside: float) -> Iterator[int]:
    """Yield picks from the active rows (ascending) while the best of them beats `outside`; update their distances."""
    sieve = nearest.sieve_of(active)
    product = sieve.rows @ sieve.rows.T  # (m, m)
    base, distance = base[active], nearest.distance[active]
    reach, score = sieve.reach(distance), base + weight * distance
    begun = False
    while True:
        best = int(score.argmax())
        tie = TIE * (abs(base[best]) + weight * distance[best])
        if score[best] < outside - tie or score[best] == -np.inf:
            return
        j = int((score >= score[best] - tie).argmax())
        if begun and not distance[j] and score[best] <= outside + tie:
            return  # a copy of a pick: another one with a lower index may be outside
        begun = True
        yield int(active[j])
        score[j], reach[j] = -np.inf, np.inf
        nearer = np.flatnonzero(product[j] > reach + sieve.half[j])
        if len(nearer):
            distance[nearer] = np.minimum(distance[nearer], nearest.between(active[nearer], active[j]))
            reach[nearer] = sieve.part(nearer).reach(distance[nearer])
            score[nearer] = base[nearer] + weight * distance[nearer]


class NearestPick:
    """The distance of every row of h (n, d) to its nearest pick, updated by `take` for the rows that are not picked.

    distance  (n,) float64: the squared distance to the nearest row taken so far; infinite before the first
    unpicked  (n,) whether the row is not picked yet
    """

    def __init__(self, h: Floats) -> None:
        self.h = h
        self.distance = np.full(len(h), np.inf)
        self.unpicked = np.ones(len(h), np.bool_)  # not picked yet
        self._rows: Ints = np.arange(len(h))  # the rows that the sieve holds
        self._sieve = Sieve.of(h, np.float32)

    def take(self, picks: Sequence[int]) -> None:
        """Count these rows as picks: lower the distances of all remaining rows to them."""
        for start in range(0, len(picks), ACTIVE):
            self._take(list(picks[start : start + ACTIVE]))

    def _take(self, picks: list[int]) -> None:
        self.unpicked[picks] = False
        nearer, of = np.nonzero(self._sieve.near(self.sieve_of(picks), self.distance[self._rows]))
        rows, picked = self._rows[nearer], np.asarray(picks)[of]
        for start in range(0, len(rows), PAIRS):
            part = slice(start, start + PAIRS)
            np.minimum.at(self.distance, rows[part], self.between(rows[part], picked[part]))
        remaining = self.unpicked[self._rows]
        if np.count_nonzero(remaining) < COMPACT * len(remaining):
            self._rows, self._sieve = self._rows[remaining], self._sieve.part(remaining)
        if 0 < LOOSE * self.distance[self._rows].max(initial=0) < self._sieve.error():
            self._sieve = Sieve.of(self.h, np.float64).part(self._rows)

    def sieve_of(self, rows: Sequence[int] | Ints) -> Sieve:
        """Return the sieve of some remaining rows."""
        return self._sieve.part(np.searchsorted(self._rows, rows))

    def between(self, rows: Ints, picks: Ints) -> Float64s:
        """Return the squared distance of each row to its pick."""
        return squared_norms(np.subtract(self.h[rows], self.h[picks], dtype=np.float64))


@dataclass(frozen=True)
class Sieve:
    """Rows to compare by one matrix product: centred and divided by `scale`, so that float32 can hold them."""

    rows: NDArray[Any]  # (m, d) float32 or float64
    half: NDArray[Any]  # (m,) |x|² / 2, less the largest rounding error
    scale: float

    @classmethod
    def of(cls, h: Floats, dtype: type[np.floating[Any]]) -> Sieve:
        """Return the sieve of h, converted in parts: a float64 copy of h would cost more than the first picks."""
        mean, largest = h.mean(axis=0, dtype=np.float64), float(max(h.max(initial=0), -h.min(initial=0)))
        scale = 2 * largest or 1.0
        rows = np.empty(h.shape, dtype)
        for start in range(0, len(h), PAIRS):
            part = slice(start, start + PAIRS)
            np.divide(np.subtract(h[part], mean, dtype=np.float64), scale, out=rows[part], casting="same_kind")
        half = (1 - _rounding(rows)) * squared_norms(rows) / 2
        return cls(rows, half.astype(dtype), scale)

    def part(self, index: Any) -> Sieve:
        """Return the sieve of some of the rows."""
        return Sieve(self.rows[index], self.half[index], self.scale)

    def reach(self, distance: Float64s) -> NDArray[Any]:
        """Return a bound (m,): p may be nearer to x than the squared `distance` only if x·p - half(p) exceeds it.

        `distance` (m,) is that of each row x; half(p) is half the squared length of p, less the rounding error.
        """
        return np.asarray((self.half - distance / (2 * self.scale**2)).astype(self.half.dtype))

    def near(self, picked: Sieve, distance: Float64s) -> NDArray[np.bool_]:
        """Return which rows (m,) may be nearer to which picks (t,) than their squared `distance`, without misses."""
        return np.asarray(self.rows @ picked.rows.T > self.reach(distance)[:, None] + picked.half)

    def error(self) -> float:
        """Return the largest error of a squared distance; 0 for float64, which is always precise enough."""
        if self.rows.dtype == np.float64 or not len(self.half):
            return 0.0
        return float(2 * _rounding(self.rows) * self.half.max()) * self.scale**2


def _rounding(rows: NDArray[Any]) -> float:
    """Return the largest error of a squared distance as a share of |x|² + |p|²: d terms, and some for rows and sums."""
    return float((rows.shape[1] + 32) * float(np.finfo(rows.dtype).eps) / 2)
