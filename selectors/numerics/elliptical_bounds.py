"""Upper bounds on the elliptical bonuses of the rows outside the active set (see `elliptical`).

A block of picks lowers the bonus of a row h by |h V|². A bound falls by |h V|² as well, or by a little less if
rounding makes the digits uncertain. So after every block

    bound(h) >= h Λ hᵀ        the row's bonus by `repexp.reference_bonuses`, except for 1e-9 of it

The products h V are float32, in which they are twice as fast, unless the bounds would become too loose.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .vectors import TIE

Float64s = NDArray[np.float64]
Ints = NDArray[np.intp]

LOOSE = 1e-2  # float32 may loosen |h V| by this share of the root of the best bonus; beyond it the block uses float64
CHUNK = 64  # float32 sums so many dimensions at a time, because its rounding grows with the length of a sum
LASTING = 16  # after so many blocks the columns are copied to be contiguous, which is faster to multiply
COMPACT = 0.9  # when only this share of the rows remains, the columns are copied without the others


class OutsideRows:
    """The rows that may still be picked, as the columns of a matrix; it lowers their bounds.

    h (rows, d); norm (rows,): at least the length of each row.
    """

    def __init__(self, h: NDArray[Any], norm: Float64s) -> None:
        self.h, self.norm = h, norm
        self.rows = np.arange(len(h))  # the row of each column
        self.longest = float(norm.max())
        self.scale = 1.0 if h.dtype == np.float32 and 1e-9 < self.longest < 1e9 else self.longest
        self.falls = 0
        self.columns: dict[type, NDArray[Any]] = {}  # (d, len(self.rows)) by dtype; as float32 they are h / scale

    def fall(self, bound: Float64s, v: Float64s, best: Float64s, sure: int, active: Ints) -> int:
        """Lower `bound` (rows,) in place by |h V|² for the picks of a block that are right; return how many are right.

        v (t, d) is Vᵀ; best (t,) the bonus of each pick when it was picked. The first `sure` picks are known to be
        right. The others are right up to the first pick at whose turn a row that is not `active` had a higher bound.
        """
        self._drop_picked_rows(bound)
        bounds = bound[self.rows]
        length = float(np.linalg.norm(v))
        squares, unit = self._squared_products(v, length, _tolerance(LOOSE, best[-1], bounds.max()))
        slack = unit * length * self.norm[self.rows]
        right = len(v)
        if sure < right:
            rivals = bounds > best[-1]
            rivals[np.isin(self.rows, active)] = False
            right = _first_beaten(bounds[rivals], squares[:, rivals], slack[rivals], unit, best, sure)
        fall = np.sqrt(squares[:right].sum(axis=0).astype(np.float64)) * (1 - unit) - slack
        bound[self.rows] = bounds - np.maximum(fall, 0) ** 2
        return right

    def renew(self, bound: Float64s, factor: Float64s, share: float) -> None:
        """Lower `bound` (rows,) in place to |h F|², or to a little more if rounding makes that uncertain.

        factor (d, d) is F, with Λ = F Fᵀ. float32 may loosen |h F| by `share` times the root of the best bound.
        """
        self._drop_picked_rows(bound)
        length = float(np.linalg.norm(factor))
        total, unit, best = np.zeros(len(self.rows)), 0.0, bound.max()
        for i in range(0, len(factor), 128):
            squares, rounding = self._squared_products(factor.T[i : i + 128], length, _tolerance(share, best, best))
            total += squares.sum(axis=0)
            unit = max(unit, rounding)
        root = np.sqrt(total) * (1 + unit) + unit * length * self.norm[self.rows]
        bound[self.rows] = np.minimum(bound[self.rows], root**2)

    def _drop_picked_rows(self, bound: Float64s) -> None:
        remaining = bound[self.rows] > -inf
        self.falls += 1
        if self.falls == LASTING:
            self.columns.clear()
        if np.count_nonzero(remaining) < COMPACT * len(remaining):
            self.rows = self.rows[remaining]
            self.columns = {dtype: np.compress(remaining, h, axis=1) for dtype, h in self.columns.items()}

    def _squared_products(self, v: Float64s, length: float, tolerance: float) -> tuple[NDArray[Any], float]:
        """Return (v hᵀ)² (t, rows), and the rounding error of v hᵀ in units of `length` |h|.

        In float32 if its largest error stays within the tolerance, else in float64.
        """
        dtype: type = np.float32
        unit = self._unit(len(v), dtype)
        if unit * self.longest * length > tolerance:
            dtype, unit = np.float64, self._unit(len(v), np.float64)
        h, scale = self._columns(dtype)
        v = (scale * v).astype(dtype)
        products = v[:, :CHUNK] @ h[:CHUNK]
        for i in range(CHUNK, len(h), CHUNK):
            products += v[:, i : i + CHUNK] @ h[i : i + CHUNK]
        return np.multiply(products, products, out=products), unit

    def _columns(self, dtype: type) -> tuple[NDArray[Any], float]:
        """Return the columns (d, len(self.rows)), and the number that they were divided by."""
        scale = self.scale if dtype is np.float32 else 1.0
        if dtype not in self.columns:
            rows = self.h if len(self.rows) == len(self.h) else self.h[self.rows]
            columns: NDArray[Any] = np.asarray(rows if scale == 1 else rows / scale, dtype).T
            self.columns[dtype] = columns if self.falls < LASTING else np.ascontiguousarray(columns)
        return self.columns[dtype], scale

    def _unit(self, t: int, dtype: type) -> float:
        """Return the rounding error of products (sums over chunks of d, then over chunks) and of sums of t squares."""
        d = self.h.shape[1]
        return rounding(max(min(d, CHUNK) + d // CHUNK + 1, t), dtype)


def rounding(terms: int, dtype: Any) -> float:
    """Return the largest error of an inner product of so many terms, as a share of the product of the two lengths.

    One unit for each of the two factors is included.
    """
    return (terms + 3) * float(np.finfo(dtype).eps) / 2


def _tolerance(share: float, least: float, most: float) -> float:
    """Return this share of the root of the `least` bonus; 0 if float32 cannot hold bonuses from `least` to `most`."""
    return share * sqrt(least) if least > 1e-30 and most < 1e30 else 0.0


def _first_beaten(
    bound: Float64s, squares: NDArray[Any], slack: Float64s, unit: float, best: Float64s, sure: int
) -> int:
    """Return the first pick from number `sure` on that some row's bound beats at its turn; len(best) if none does.

    bound, slack (rows,), squares (t, rows), best (t,). Before pick s a bound is at most
    bound - (√c (1 - unit) - slack)², where c is the sum of the squares before s.
    """
    if not len(bound):
        return len(best)
    fallen = np.cumsum(squares[:-1], axis=0)  # before each pick but the first
    most = bound * (1 + 4 * unit) + 2 * slack * np.sqrt(fallen[-1])
    fallen *= 1 - 4 * unit
    upper = np.subtract(most.astype(fallen.dtype), fallen, out=fallen)
    beaten = upper[sure - 1 :].max(axis=1) * (1 - 3 * TIE) > best[sure:]
    return sure + int(beaten.argmax()) if beaten.any() else len(best)
