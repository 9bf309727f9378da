"""The exact distance of every row to the nearest pick so far, and the greedy order by it.

    score(x) = base(x) + weight · min over the picks p of |x - p|²        pick the largest

The picks must be those of `kcenter.reference_order` (base 0), each the farthest by `kcenter.reference_distances` within
1e-9 of it; for `mmr`, on unit rows, each the best by `mmr.reference_scores` within 1e-9. Scores closer than TIE,
relatively, count as equal. The lowest index of the active set is then picked: a row outside it can lose such a tie.

The reference computes n distances at every pick. But a pick lowers few of them, so most of the n²/2 pairs are skipped:

- One float32 matrix product is a sieve: |x|² + |p|² - 2 x·p, less a bound on its rounding, tells which pairs may be
  nearer than the distance known so far. Only those, some ten a row, are computed, as the sum of squared differences in
  float64. So distances have all their digits, copies are at 0, and equal distances tie.
- Distances never rise. Picks are made inside a small active set of the best rows while its best row beats all outside.
  Then one product brings this block of picks to the rows outside (as in `elliptical`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import TIE, Float64s, Floats, Ints, largest, squared_norms

ACTIVE = 256  # rows in the active set
FEW = 32  # ... or fewer at first: this many, plus one for each pick so far, so that a short ranking is cheap
LOOSE = 0.05  # the sieve uses float64 if the error of float32 is more than this share of the largest distance
PAIRS = 256  # rows that are converted to float64 at a time: they stay in the cache
COMPACT = 0.9  # when only this share of the sieve's rows remains, they are copied without the others


class NearestPick:
    """The distance of every row of h (n, d) to its nearest pick, updated by `take` for the rows that are not picked.

    distance  (n,) float64: the squared distance to the nearest row taken so far; infinite before the first
    unpicked  (n,) whether the row is not picked yet
    """

    def __init__(self, h: Floats) -> None:
        self.h = h
        self.distance = np.full(len(h), np.inf)
        self.unpicked = np.ones(len(h), np.bool_)
        self._sift(np.float32)

    def _sift(self, dtype: type[np.floating[Any]]) -> None:
        """Make the sieve: the remaining rows, centred and scaled, so that float32 can hold them."""
        self._rows = np.flatnonzero(self.unpicked)
        mean = self.h.mean(axis=0, dtype=np.float64)
        self._scale = 2 * float(max(self.h.max(initial=0), -self.h.min(initial=0))) or 1.0
        self._x: NDArray[Any] = np.empty((len(self._rows), self.h.shape[1]), dtype)
        for start in range(0, len(self._x), PAIRS):  # a float64 copy of h would cost more than the first picks
            part = slice(start, start + PAIRS)
            centred = np.subtract(self.h[self._rows[part]], mean, dtype=np.float64)
            np.divide(centred, self._scale, out=self._x[part], casting="same_kind")
        # The largest error of a squared distance, as a share of |x|² + |p|²: d terms, and some for rows and sums.
        self._error = (self.h.shape[1] + 32) * float(np.finfo(dtype).eps) / 2
        self._half = ((1 - self._error) * squared_norms(self._x) / 2).astype(dtype)

    def take(self, picks: Sequence[int]) -> None:
        """Count these rows as picks: lower the distances of all remaining rows to them."""
        for start in range(0, len(picks), ACTIVE):
            block = np.asarray(picks[start : start + ACTIVE])
            self.unpicked[block] = False
            nearer, of = np.nonzero(self.near(slice(None), self.at(block), self.distance[self._rows]))
            rows, picked = self._rows[nearer], block[of]
            for place in range(0, len(rows), PAIRS):
                part = slice(place, place + PAIRS)
                np.minimum.at(self.distance, rows[part], self.between(rows[part], picked[part]))
            remaining = self.unpicked[self._rows]
            if np.count_nonzero(remaining) < COMPACT * len(remaining):
                self._rows, self._x, self._half = self._rows[remaining], self._x[remaining], self._half[remaining]
            error = 2 * self._error * self._half.max(initial=0) * self._scale**2
            if self._x.dtype == np.float32 and 0 < LOOSE * self.distance[self._rows].max(initial=0) < error:
                self._sift(np.float64)

    def at(self, rows: Ints) -> Ints:
        """Return the places of these remaining rows in the sieve: what the three methods below take."""
        return np.searchsorted(self._rows, rows)

    def near(self, rows: Any, picks: Ints, distance: Float64s) -> NDArray[np.bool_]:
        """Return which rows (m,) may be nearer to which picks (t,) than the squared `distance` (m,), without misses."""
        return np.asarray(self.products(rows, picks) > self.reach(rows, distance)[:, None])

    def products(self, rows: Any, picks: Ints) -> NDArray[Any]:
        """Return x·p less half of the squared length of p and its rounding error, (m, t): to compare with `reach`."""
        product = self._x[rows] @ self._x[picks].T
        product -= self._half[picks]
        return np.asarray(product)

    def reach(self, rows: Any, distance: Float64s) -> NDArray[Any]:
        """Return what `products` exceed if p may be nearer to x (m,) than the squared `distance` (m,)."""
        return np.asarray((self._half[rows] - distance / (2 * self._scale**2)).astype(self._half.dtype))

    def between(self, rows: Ints, picks: Ints) -> Float64s:
        """Return the squared distance of each row to its pick."""
        return squared_norms(np.subtract(self.h[rows], self.h[picks], dtype=np.float64))


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
        chosen, outside = largest(base[rows] + weight * nearest.distance[rows], min(ACTIVE, FEW + picks), rows)
        active = rows[chosen]
        at, own, distance = nearest.at(active), base[active], nearest.distance[active]
        product, reach, score = nearest.products(at, at), nearest.reach(at, distance), own + weight * distance
        block: list[int] = []
        while (top := score.max()) > -np.inf:
            tie = TIE * (abs(own[score.argmax()]) + weight * distance[score.argmax()])
            j = int((score >= top - tie).argmax())
            if top < outside - tie or (block and not distance[j] and top <= outside + tie):
                break  # a row outside is better, or as good a copy with a lower index may be
            yield int(active[j])
            block.append(int(active[j]))
            score[j], reach[j] = -np.inf, np.inf
            nearer = np.flatnonzero(product[:, j] > reach)
            if len(nearer):
                distance[nearer] = np.minimum(distance[nearer], nearest.between(active[nearer], active[j]))
                reach[nearer] = nearest.reach(at[nearer], distance[nearer])
                score[nearer] = own[nearer] + weight * distance[nearer]
        nearest.take(block)
        picks += len(block)
