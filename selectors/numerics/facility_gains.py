"""Greedy maximisation of a weighted coverage: which columns of a similarity matrix stand for all rows best.

    gain(i) = Σ over x of weight(x) · max(0, s(x, i) - covered(x))        covered(x) = max over the picks p of s(x, p)

After a pick only the rows that it covers better change any gain; they are few, and all gains fall by what those rows
now give less. Gains are renewed from nothing whenever the best has fallen far, so that no cancelled digits decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .vectors import Float64s, Ints

    Float32s = NDArray[np.float32]

TIE = 1e-10  # gains relatively this close count as equal
FALL = 1e-3  # all gains are renewed when the best fell by this factor: what is left then are cancelled digits
CHUNK = 128  # rows of similarities looked at together


def coverage_order(similarity: Float32s, weight: Float64s, picked: Sequence[int] = ()) -> Iterator[int]:
    """All n columns but those `picked` before, by the largest gain; once nothing is gained the rest by index. Lazy.

    similarity (n, n) float32, symmetric, >= 0; weight (n,): how often each row counts. Ties are the rule late in the
    order: of two rows that are each other's nearest, either gains the same. They go to the column of the largest first
    gain, the most central, and among equals to the lowest.
    """
    covered = np.zeros(len(weight), np.float32)
    left = np.ones(len(weight), np.bool_)
    central = gain = _gains(similarity, weight, covered)
    if len(picked):
        left[picked] = False
        covered = similarity[picked].max(axis=0)
        gain = _gains(similarity, weight, covered)
    gain, renewed = gain.copy(), float(gain.max())
    while left.any():
        gain[~left] = -np.inf
        best = float(gain.max())
        if best < FALL * renewed:
            gain = np.where(left, _gains(similarity, weight, covered), -np.inf)
            best = renewed = float(gain.max())
        if best <= 0:
            break
        tied = np.flatnonzero(gain >= best * (1 - TIE))
        pick = int(tied[(central[tied] >= central[tied].max() * (1 - TIE)).argmax()])
        left[pick] = False
        yield pick
        better = np.flatnonzero(similarity[pick] > covered)
        for start in range(0, len(better), CHUNK):
            gain -= _falls(similarity, weight, covered, better[start : start + CHUNK], pick)
        covered[better] = similarity[pick, better]
    yield from np.flatnonzero(left).tolist()


def _gains(similarity: Float32s, weight: Float64s, covered: Float32s) -> Float64s:
    """Every column's gain (n,)."""
    gain = np.zeros(len(weight))
    for start in range(0, len(weight), CHUNK):
        rows = slice(start, start + CHUNK)
        more = np.subtract(similarity[rows], covered[rows, None], dtype=np.float64)
        gain += weight[rows] @ np.maximum(more, 0, out=more)
    return gain


def _falls(similarity: Float32s, weight: Float64s, covered: Float32s, rows: Ints, pick: int) -> Float64s:
    """By how much every gain falls (n,) when the rows are covered by the pick."""
    before, after = covered[rows, None], similarity[pick, rows][:, None]
    lost = np.subtract(np.clip(similarity[rows], before, after), before, dtype=np.float64)
    return np.asarray(weight[rows] @ lost)
