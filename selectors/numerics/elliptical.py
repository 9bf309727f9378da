"""Greedy log-determinant orders, exactly, and in blocks of picks: most of the work is in matrix products.

    residual(x) = k(x, x) - k(x, S) (K_S + ridge I)⁻¹ k(S, x)        pick the largest: det(K_S + ridge I) grows most

For k(x, y) = x·y / lam and a ridge of 1 the residual is RepExp's bonus h Λ hᵀ with Λ⁻¹ = lam I + Σ h_iᵀ h_i over the
picks, h a row (1, d). The picks are those of `repexp.reference_order`, each with the best bonus left by
`reference_bonuses`, within 1e-9 of it; for the Gaussian kernel those of `dpp_map.reference_order`, within 1e-7 and
1e-12 of the largest residual. Residuals closer than TIE, relatively, count as equal. The lowest index of the active set
is then picked: a different row outside it can lose such a tie.

A pick raises no residual. So picks are sure as long as they come from a small active set, the rows of the largest
residuals, and beat the best that any row outside had at the beginning of the block. Inside, greedy picking is a pivoted
Cholesky factorisation L Lᵀ of ridge I + K', with K' (m, m) what the picks before leave of the kernel: pick j adds a row
w = K'_j / √(ridge + residual_j), less what earlier rows explain, and every residual falls by w². After a block S all
rows are brought up to date:

- `Linear`: Λ = F Fᵀ, G = H F, K' = G Gᵀ. V = F G_Sᵀ L⁻ᵀ and F ← F - V (L + I)⁻¹ G_S (Andrews, "A square root
  formulation of the Kalman covariance equations", AIAA J. 6, 1968). Every bonus falls by |h V|². With F in place of Λ a
  bonus b that began as b₀ has an error of about eps √(b₀ b), not eps b₀; all are computed anew once the best has fallen
  by `fall`.
- `Explained`: each row keeps its entries l(x) = L⁻¹ k(S, x) (Chen, Zhang & Zhou 2018), each computed once. At most n²/4
  are stored, those of the remaining rows.

All is float64. Equal rows are kept once, so they tie exactly. A full order costs about 2 n² d, or n³/3 + n² d.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, sqrt
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from .columns import TIE, Copies, Float64s, Floats, Ints, largest, squared_norms
from .similarity import Gaussian, Tanimoto

ACTIVE = 256  # rows in an active set
FEW = 64  # ... or fewer at first: this many, plus one for each pick so far, so that a short ranking is cheap
BLOCK = 64  # at most so many picks before all residuals are updated,
WHOLE = 512  # or so many where all rows are active, as they are when so few are left
COMPACT = 0.9  # when only this share of the rows can still be picked, the others are dropped


class Linear:
    """What the picks leave of the kernel h·h / lam, by the factor F of Λ (d, d)."""

    ridge, slack = 1.0, 0.0  # `slack`: residuals within this, or relatively within TIE, count as equal
    fall = 1e-4

    def __init__(self, rows: Floats, lam: float) -> None:
        self.rows = np.asarray(rows, np.float64)
        self.scale = 1 / sqrt(lam)
        self.f: Float64s | None = None  # I / √lam at first, which costs nothing to multiply with
        self.g = self.rows[:0]  # G of the active rows

    def residuals(self) -> Float64s:
        """The residual of each row, computed anew."""
        return squared_norms(self._times(self.rows))

    def between(self, active: Ints) -> Float64s:
        """K' of these rows."""
        self.g = self._times(self.rows[active])
        return self.g @ self.g.T

    def explain(self, active: Ints, slots: list[int], lower: Floats) -> Float64s:
        """Count active[slots] as picks, whose L is `lower`; return by how much the residual of each row falls."""
        g = self.g[slots]
        v = solve_triangular(lower, g * self.scale if self.f is None else g @ self.f.T, lower=True, check_finite=False)
        change = v.T @ solve_triangular(lower + np.eye(len(g)), g, lower=True, check_finite=False)
        self.f = (np.eye(len(change)) * self.scale if self.f is None else self.f) - change
        return squared_norms(self.rows @ v.T)

    def keep(self, rows: Any) -> None:
        """Drop all rows but these."""
        self.rows = self.rows[rows]

    def _times(self, rows: Float64s) -> Float64s:
        return rows * self.scale if self.f is None else rows @ self.f


class Explained:
    """What the picks leave of another kernel, by the entries of each row, (rows, picks) in parts; as `Linear`."""

    slack, fall = 1e-14, 0.0

    def __init__(self, kernel: Gaussian | Tanimoto, ridge: float) -> None:
        self.kernel, self.ridge = kernel, ridge
        self.parts: list[Float64s] = []

    def residuals(self) -> Float64s:
        return 1 - sum((squared_norms(part) for part in self.parts), np.zeros(len(self.kernel.rows)))

    def between(self, active: Ints, others: Any = None) -> Float64s:
        others = active if others is None else others
        product = self.kernel.block(active, others)
        for part in self.parts:
            product -= part[active] @ part[others].T
        return product

    def explain(self, active: Ints, slots: list[int], lower: Floats) -> Float64s:
        left = self.between(active[slots], slice(None))
        self.parts.append(solve_triangular(lower, left, lower=True, check_finite=False).T)
        return squared_norms(self.parts[-1])

    def keep(self, rows: Any) -> None:
        self.kernel = self.kernel.part(rows)
        self.parts = [np.hstack([part[rows] for part in self.parts])]


def elliptical_order(h: Floats, lam: float, first: int | None = None, picked: Sequence[int] = ()) -> Iterator[int]:
    """Yield the order of h (n, d), any float dtype, finite, by the bonus; lam > 0. As `determinant_order`."""
    copies = Copies(h)
    yield from determinant_order(Linear(h[copies.first], lam), copies, first, picked)


def determinant_order(
    left: Linear | Explained, copies: Copies, first: int | None = None, picked: Sequence[int] = ()
) -> Iterator[int]:
    """Yield all indices except those `picked` before: the largest residual first; for ties see the module's docstring.

    `left` has the distinct rows of `copies`. `first` is picked first if given. A pick is computed when it is read.
    """
    n = len(copies.row)
    for start in range(0, len(picked), BLOCK):
        block = copies.row[list(picked[start : start + BLOCK])]
        lower = np.linalg.cholesky(left.ridge * np.eye(len(block)) + left.between(block))
        left.explain(block, list(range(len(block))), lower)
    for index in picked:
        copies.take(int(copies.row[index]), index)
    kind = np.arange(len(copies.first))  # the distinct row of each row of `left`, of which some are dropped
    residual = np.where(copies.head < n, left.residuals(), -inf)
    top, made = residual.max(initial=-inf), 0
    while residual.max(initial=-inf) > -inf:
        remaining = residual > -inf
        if np.count_nonzero(remaining) < COMPACT * len(remaining):
            kind, residual = kind[remaining], residual[remaining]
            left.keep(remaining)
        if residual.max() < left.fall * top:
            residual = np.where(residual > -inf, left.residuals(), -inf)
            top = residual.max()
        size = min(ACTIVE, FEW + made) if len(residual) > WHOLE else WHOLE
        active, outside = largest(residual, size, copies.head[kind], left.slack)
        if first is not None:
            active = np.union1d(active, np.searchsorted(kind, copies.row[first]))
        k = left.between(active)
        best = residual[active]
        least = max(outside * (1 - 3 * TIE) - left.slack, left.fall * best.max() if left.fall else -inf)
        heads = copies.head[kind[active]]
        slots: list[int] = []
        most = BLOCK if outside > -inf else min(WHOLE, int(copies.count.sum()) - made)
        lower, w = np.zeros((most, most)), np.empty((most, len(active)))
        while (t := len(slots)) < most:
            j = int(best.argmax())
            tie = TIE * abs(best[j]) + left.slack
            if first is not None:
                j = int(np.flatnonzero(kind[active] == copies.row[first])[0])
            elif np.count_nonzero(tied := best >= best[j] - tie) > 1:
                j = int(np.where(tied, heads, n).argmin())
            if best[j] == -inf or (slots and best[j] < least):
                break
            row = int(kind[active[j]])
            yield copies.take(row, first)
            made, first, heads[j] = made + 1, None, copies.head[row]
            slots.append(j)
            lower[t, :t], lower[t, t] = w[:t, j], sqrt(left.ridge + max(best[j], 0))
            w[t] = (k[j] - lower[t, :t] @ w[:t]) / lower[t, t]
            best -= w[t] ** 2
            if heads[j] == n:
                best[j] = -inf
        if max(outside, best.max()) == -inf:
            return
        residual -= left.explain(active, slots, lower[:t, :t])
        residual[active] = best
