"""The greedy elliptical order, exactly, and in blocks of picks: most of the work is in matrix products.

    pick the largest bonus(h) = h Λ hᵀ        Λ⁻¹ = lam I + Σ h_iᵀ h_i over the picks, h a row (1, d)

The picks are those of `repexp.reference_order`: each has the best remaining bonus, within 1e-9 of it, by
`repexp.reference_bonuses`. Bonuses closer than TIE, relatively, count as equal. The lowest index of the active set
is then picked: a different row outside it can lose such a tie.

A pick raises no bonus. So picks are sure as long as they come from a small active set, the rows of the largest bonuses,
and beat the best bonus that any row outside had at the beginning of the block.

- With Λ = F Fᵀ, G = H F and K = G Gᵀ for the active rows H, greedy picking is a pivoted Cholesky factorisation L Lᵀ of
  I + K. The pick j adds one row w = h Λ h_jᵀ / √(1 + bonus_j) to Lᵀ, made of row j of K and of the rows before it.
  Every bonus falls by w².
- After a block of picks S: V = F G_Sᵀ L⁻ᵀ and F ← F - V (L + I)⁻¹ G_S (Andrews, "A square root formulation of the
  Kalman covariance equations", AIAA J. 6, 1968). Every bonus outside falls by |h V|².

All is float64. With F in place of Λ a bonus b that began as b₀ has an error of about eps √(b₀ b), not eps b₀. What is
subtracted loses digits as bonuses fall, so all bonuses are computed anew from F once the best has fallen by FALL.
Equal rows are kept once, so they tie exactly. The whole order costs about 2 n² d operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from .vectors import TIE, Copies

if TYPE_CHECKING:
    from .vectors import Float64s, Floats

ACTIVE = 256  # rows in an active set
FEW = 64  # ... or fewer at first: this many, plus one for each pick so far, so that a short ranking is cheap
BLOCK = 64  # at most so many picks before all bonuses are updated,
WHOLE = 512  # or so many where all rows are active
FALL = 1e-4  # bonuses are computed anew when the best one fell by this factor
COMPACT = 0.9  # when only this share of the rows can still be picked, the others are dropped


def elliptical_order(h: Floats, lam: float, first: int | None = None, picked: Sequence[int] = ()) -> Iterator[int]:
    """Yield all row indices except those `picked` before: the largest bonus first; for ties see the module's docstring.

    h (n, d), any float dtype, finite; it is not changed. lam: the ridge of the bonus, > 0. `first` is picked first if
    given. A pick is computed when it is read.
    """
    copies, (n, d) = Copies(h), h.shape
    rows = np.asarray(h if len(copies.first) == n else h[copies.first], np.float64)
    kind = np.arange(len(rows))  # the distinct row of each of `rows`, of which some are dropped
    factor = _Factor(d, lam)
    for index in picked:
        copies.take(int(copies.row[index]), index)
    for start in range(0, len(picked), BLOCK):
        g = factor.times(rows[copies.row[list(picked[start : start + BLOCK])]])
        factor.fall(g, np.linalg.cholesky(np.eye(len(g)) + g @ g.T))
    bonus = factor.bonuses(rows)
    bonus[copies.head == n] = -inf  # all copies are picked
    top, made = bonus.max(initial=-inf), 0
    while bonus.max(initial=-inf) > -inf:
        left = bonus > -inf
        if np.count_nonzero(left) < COMPACT * len(left):
            kind, rows, bonus = kind[left], rows[left], bonus[left]
        if bonus.max() < FALL * top:
            bonus = np.where(bonus > -inf, factor.bonuses(rows), -inf)
            top = bonus.max()
        size, outside, active = min(ACTIVE, FEW + made), -inf, np.arange(len(rows))
        if size < len(rows):
            border = np.partition(bonus, -size)[-size]
            chosen = bonus > border * (1 + TIE)
            tied = np.flatnonzero((bonus >= border * (1 - TIE)) & ~chosen)
            chosen[tied[np.argsort(copies.head[kind[tied]])[: size - np.count_nonzero(chosen)]]] = True
            active, outside = np.flatnonzero(chosen), bonus[~chosen].max()
        if first is not None:
            active = np.union1d(active, np.searchsorted(kind, copies.row[first]))
        g = factor.times(rows[active])
        k = g @ g.T
        best = np.where(bonus[active] > -inf, np.diag(k), -inf)  # the bonuses of the active rows
        least = max(outside * (1 - 3 * TIE), FALL * best.max())
        heads = copies.head[kind[active]]
        slots: list[int] = []
        most = BLOCK if outside > -inf else min(WHOLE, int(copies.count.sum()) - made)
        lower, w = np.zeros((most, most)), np.empty((most, len(active)))
        while (t := len(slots)) < most:
            j = int(best.argmax())
            if first is not None:
                j = int(np.flatnonzero(kind[active] == copies.row[first])[0])
            elif np.count_nonzero(tied := best >= best[j] * (1 - TIE)) > 1:
                j = int(np.where(tied, heads, n).argmin())
            if best[j] == -inf or (slots and best[j] < least):
                break
            row = int(kind[active[j]])
            yield copies.take(row, first)
            made, first, heads[j] = made + 1, None, copies.head[row]
            slots.append(j)
            lower[t, :t], lower[t, t] = w[:t, j], sqrt(1 + best[j])
            w[t] = (k[j] - lower[t, :t] @ w[:t]) / lower[t, t]
            best -= w[t] ** 2
            if heads[j] == n:
                best[j] = -inf
        if max(outside, best.max()) > -inf:
            bonus -= _squares(rows @ factor.fall(g[slots], lower[:t, :t]))
            bonus[active] = best
        else:
            return


class _Factor:
    """F (d, d), with Λ = F Fᵀ; I / √lam at first, which costs nothing to multiply with."""

    def __init__(self, d: int, lam: float) -> None:
        self.scale, self.f = 1 / sqrt(lam), np.eye(d) / sqrt(lam)
        self.is_first = True

    def times(self, rows: Float64s) -> Float64s:
        """G = H F of these rows."""
        return rows * self.scale if self.is_first else rows @ self.f

    def bonuses(self, rows: Float64s) -> Float64s:
        """The bonus of each of these rows."""
        return _squares(rows) * self.scale**2 if self.is_first else _squares(rows @ self.f)

    def fall(self, g: Float64s, lower: Floats) -> Float64s:
        """Update F by a block of picks, whose rows of G are g (t, d) and whose L is lower (t, t); return V (d, t)."""
        self.is_first = False
        v = solve_triangular(lower, g @ self.f.T, lower=True, check_finite=False)
        self.f -= v.T @ solve_triangular(lower + np.eye(len(g)), g, lower=True, check_finite=False)
        return np.asarray(v).T


def _squares(rows: Float64s) -> Float64s:
    """The squared length of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
