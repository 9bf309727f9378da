"""How far every row is from the nearest row picked so far, exactly, and the greedy order by it.

A pick lowers few distances, so nearly all of the n²/2 pairs need no close look. What it rests on:

- One float32 matrix product sieves: |x - p|² = |x|² + |p|² - 2 x·p less a bound on its rounding says which pairs may
  lie nearer than what is known. Only those, some ten a row, are computed: the sum of squared differences in float64.
  So distances have no cancelled digits, copies are at 0 and equal distances tie.
- Distances never rise. Picks are made inside a small active set of the best rows for as long as its best beats all
  outside; then a block of picks is taken to the rows outside in one product (as in `elliptical`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .vectors import squared_norms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .vectors import Float64s, Floats, Ints

ACTIVE = 256  # rows in the active set
FEW = 32  # ... or fewer at first: this many and one more for each pick so far, so that a short ranking is cheap
TIE = 1e-10  # scores relatively this close count as equal, and the lowest index is taken
LOOSE = 0.05  # the sieve works in float64 where float32 blurs by this share of the largest distance
PAIRS = 256  # rows that are taken to float64 at a time: they stay in the cache
COMPACT = 0.9  # the sieve's rows are copied together when only this share of them is left


def greedy_order(h: Floats, base: Float64s, weight: float, first: int, picked: Sequence[int] = ()) -> Iterator[int]:
    """All n indices: `first`, then always the largest base + weight · (squared distance to the nearest pick).

    h (n, d) finite; base (n,); weight >= 0. Ties go to the lowest index. Lazy; memory O(n d). What was `picked` before,
    if anything was, stands in the place of `first`, and is not yielded.
    """
    near = NearestPick(h)
    if not picked:
        yield first
    near.take(picked or [first])
    picks = len(picked) or 1
    while near.left.any():
        rows = np.flatnonzero(near.left)
        if not near.distance[rows].any():  # copies of picks are left, and no pick changes their scores
            yield from rows[np.argsort(-base[rows], kind="stable")].tolist()
            return
        score = base[rows] + weight * near.distance[rows]
        chosen, outside = largest(score, min(ACTIVE, FEW + picks))
        block = []
        for pick in _picks_inside(near, rows[chosen], base, weight, outside):
            yield pick
            block.append(pick)
        near.take(block)
        picks += len(block)


def largest(score: Float64s, size: int) -> tuple[Ints, float]:
    """Where the `size` largest scores stand, ascending, ties to the lowest; and the largest of the others."""
    if len(score) <= size:
        return np.arange(len(score)), -np.inf
    border = float(np.partition(score, -size)[-size])
    chosen = score > border + TIE * abs(border)
    tied = np.flatnonzero((score >= border - TIE * abs(border)) & ~chosen)
    chosen[tied[: size - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen), float(score[~chosen].max())


def _picks_inside(near: NearestPick, active: Ints, base: Float64s, weight: float, outside: float) -> Iterator[int]:
    """Picks from the active rows (ascending) while their best beats `outside`; their distances are kept up."""
    sieve = near.sieve_of(active)
    product = sieve.rows @ sieve.rows.T  # (m, m)
    base, distance = base[active], near.distance[active]
    reach, score = sieve.reach(distance), base + weight * distance
    begun = False
    while True:
        best = int(score.argmax())
        tie = TIE * (abs(base[best]) + weight * distance[best])
        if score[best] < outside - tie or score[best] == -np.inf:
            return
        j = int((score >= score[best] - tie).argmax())
        if begun and not distance[j] and score[best] <= outside + tie:
            return  # a copy of a pick: one of a lower index may lie outside
        begun = True
        yield int(active[j])
        score[j], reach[j] = -np.inf, np.inf
        at = np.flatnonzero(product[j] > reach + sieve.half[j])
        if len(at):
            distance[at] = np.minimum(distance[at], near.between(active[at], active[j]))
            reach[at], score[at] = sieve.part(at).reach(distance[at]), base[at] + weight * distance[at]


class NearestPick:
    """`distance` (n,) float64: squared, to the nearest of the rows taken so far; infinite before the first."""

    def __init__(self, h: Floats) -> None:
        self.h = h
        self.distance = np.full(len(h), np.inf)
        self.left = np.ones(len(h), np.bool_)  # not taken yet
        self._rows: Ints = np.arange(len(h))  # the rows that the sieve holds
        self._sieve = Sieve.of(h, np.float32)

    def take(self, picks: Sequence[int]) -> None:
        """Let the distances fall to those to the picks, of all rows but some of those taken."""
        for start in range(0, len(picks), ACTIVE):
            self._take(list(picks[start : start + ACTIVE]))

    def _take(self, picks: list[int]) -> None:
        self.left[picks] = False
        at, of = np.nonzero(self._sieve.near(self.sieve_of(picks), self.distance[self._rows]))
        rows, picked = self._rows[at], np.asarray(picks)[of]
        for start in range(0, len(at), PAIRS):
            part = slice(start, start + PAIRS)
            np.minimum.at(self.distance, rows[part], self.between(rows[part], picked[part]))
        alive = self.left[self._rows]
        if np.count_nonzero(alive) < COMPACT * len(alive):
            self._rows, self._sieve = self._rows[alive], self._sieve.part(alive)
        if 0 < LOOSE * self.distance[self._rows].max(initial=0) < self._sieve.blur():
            self._sieve = Sieve.of(self.h, np.float64).part(self._rows)

    def sieve_of(self, rows: Sequence[int] | Ints) -> Sieve:
        """The sieve of rows that are left."""
        return self._sieve.part(np.searchsorted(self._rows, rows))

    def between(self, rows: Ints, picks: Ints) -> Float64s:
        """The squared distance of each row to its pick."""
        return squared_norms(np.subtract(self.h[rows], self.h[picks], dtype=np.float64))


@dataclass(frozen=True)
class Sieve:
    """Rows to be compared by one matrix product: centred, in the unit `scale`, so that float32 can hold them."""

    rows: NDArray[Any]  # (m, d) float32 or float64
    half: NDArray[Any]  # (m,) |x|² / 2 less what the rounding may take away
    scale: float

    @classmethod
    def of(cls, h: Floats, dtype: type[np.floating[Any]]) -> Sieve:
        """All rows of h, made some at a time: a float64 copy of them all would cost more than the first picks."""
        mean, largest = h.mean(axis=0, dtype=np.float64), float(max(h.max(initial=0), -h.min(initial=0)))
        scale = 2 * largest or 1.0
        rows = np.empty(h.shape, dtype)
        for start in range(0, len(h), PAIRS):
            part = slice(start, start + PAIRS)
            np.divide(np.subtract(h[part], mean, dtype=np.float64), scale, out=rows[part], casting="same_kind")
        half = (1 - _rounding(rows)) * squared_norms(rows) / 2
        return cls(rows, half.astype(dtype), scale)

    def part(self, index: Any) -> Sieve:
        """Some of the rows."""
        return Sieve(self.rows[index], self.half[index], self.scale)

    def reach(self, distance: Float64s) -> NDArray[Any]:
        """What x·p less p's half must exceed for p to be nearer than the squared `distance` (m,)."""
        return np.asarray((self.half - distance / (2 * self.scale**2)).astype(self.half.dtype))

    def near(self, picked: Sieve, distance: Float64s) -> NDArray[np.bool_]:
        """Which rows (m,) may be nearer to which picks (t,) than their squared `distance`; no such pair is missed."""
        return np.asarray(self.rows @ picked.rows.T > self.reach(distance)[:, None] + picked.half)

    def blur(self) -> float:
        """How large a squared distance may be taken for nought; 0 for float64, which is never too coarse."""
        if self.rows.dtype == np.float64 or not len(self.half):
            return 0.0
        return float(2 * _rounding(self.rows) * self.half.max()) * self.scale**2


def _rounding(rows: NDArray[Any]) -> float:
    """By what share of |x|² + |p|² a squared distance may be off: d for the inner product, some for rows and sums."""
    return (rows.shape[1] + 32) * float(np.finfo(rows.dtype).eps) / 2
