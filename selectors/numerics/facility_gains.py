"""Compute the greedy order by coverage: the columns of a similarity matrix that represent all rows best.

    gain(i) = Σ over the rows x of weight(x) · max(0, s(x, i) - covered(x))    covered(x) = max over picks p of s(x, p)

The picks must be those of `facility_location.reference_order`: each pick's gain is the largest remaining one, by
`facility_location.reference_gains`, within 1e-6 of it and 3e-7 of the largest possible sum (s is float32).

The reference computes n² terms at every pick. But a pick changes only the gains from the rows that it covers better.
They are few, and each gain falls by what those rows no longer contribute. When the largest gain has fallen far, all
gains are computed again, so that no decision depends on cancelled digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .vectors import TIE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .vectors import Float64s, Ints

    Float32s = NDArray[np.float32]

FALL = 1e-3  # all gains are computed again when the largest fell by this factor, as many digits have cancelled
CHUNK = 128  # rows of similarities processed together


def coverage_order(similarity: Float32s, weight: Float64s, picked: Sequence[int] = ()) -> Iterator[int]:
    """Yield all n columns except those `picked` before: the largest gain first; when no gain remains, by index.

    similarity (n, n) float32, symmetric, >= 0; weight (n,): how often each row counts. Late in the order ties are
    common: two rows that are each other's nearest gain the same. A tie goes to the most central column, the one with
    the largest gain as a first pick; then to the lowest index.
    """
    covered = np.zeros(len(weight), np.float32)
    remaining = np.ones(len(weight), np.bool_)
    central = gain = _gains(similarity, weight, covered)
    if len(picked):
        remaining[picked] = False
        covered = similarity[picked].max(axis=0)
        gain = _gains(similarity, weight, covered)
    gain, renewed = gain.copy(), float(gain.max())
    while remaining.any():
        gain[~remaining] = -np.inf
        best = float(gain.max())
        if best < FALL * renewed:
            gain = np.where(remaining, _gains(similarity, weight, covered), -np.inf)
            best = renewed = float(gain.max())
        if best <= 0:
            break
        tied = np.flatnonzero(gain >= best * (1 - TIE))
        pick = int(tied[(central[tied] >= central[tied].max() * (1 - TIE)).argmax()])
        remaining[pick] = False
        yield pick
        better = np.flatnonzero(similarity[pick] > covered)
        for start in range(0, len(better), CHUNK):
            gain -= _falls(similarity, weight, covered, better[start : start + CHUNK], pick)
        covered[better] = similarity[pick, better]
    yield from np.flatnonzero(remaining).tolist()


def _gains(similarity: Float32s, weight: Float64s, covered: Float32s) -> Float64s:
    """Return the gain of every column (n,)."""
    gain = np.zeros(len(weight))
    for start in range(0, len(weight), CHUNK):
        rows = slice(start, start + CHUNK)
        more = np.subtract(similarity[rows], covered[rows, None], dtype=np.float64)
        gain += weight[rows] @ np.maximum(more, 0, out=more)
    return gain


def _falls(similarity: Float32s, weight: Float64s, covered: Float32s, rows: Ints, pick: int) -> Float64s:
    """Return by how much every gain falls (n,) when the pick covers these rows better."""
    before, after = covered[rows, None], similarity[pick, rows][:, None]
    lost = np.subtract(np.clip(similarity[rows], before, after), before, dtype=np.float64)
    return np.asarray(weight[rows] @ lost)
