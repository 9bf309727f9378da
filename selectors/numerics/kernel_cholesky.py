"""Greedy log-determinant order for a kernel that is computed as needed: a pivoted Cholesky factorisation by blocks.

    residual(x) = k(x, x) - k(x, S) (K_S + ridge I)⁻¹ k(S, x)        pick the largest: det(K_S + ridge I) grows most

With K_S + ridge I = L Lᵀ each x has a column l(x) = L⁻¹ k(S, x), and residual(x) = k(x, x) - |l(x)|². Done pick by pick
(Chen, Zhang & Zhou 2018) every l grows by one entry a pick: matrix-vector products, bound by memory. Here picks are
made inside a small active set of the largest residuals for as long as its best beats all outside, since residuals never
rise; then the block of picks is taken to the rows outside by matrix products. Each entry of l is made once: n³/3 + n² d
operations for the full order, and n²/4 entries at most are kept, those of the rows that are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular

from .vectors import squared_norms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .similarity import Gaussian
    from .vectors import Copies, Float64s, Ints

ACTIVE = 384  # rows in the active set
FEW = 32  # ... or fewer at first: this many and one more for each pick so far, so that a short ranking is cheap
TIE = 1e-10  # residuals relatively this close, or within ROUNDING, count as equal, and the lowest index is taken
ROUNDING = 1e-14
COMPACT = 0.8  # the columns are copied together when only this share of them is left


def log_determinant_order(
    kernel: Gaussian, copies: Copies, ridge: float, first: int | None, picked: Sequence[int] = ()
) -> Iterator[int]:
    """All indices: `first` if given, then always the one of the largest residual, ties to the lowest. Lazy.

    kernel: between the distinct rows. A copy of a picked row has a residual of about the ridge. What was `picked`
    before counts as picked, and is not yielded.
    """
    greedy = _Greedy(kernel, copies, ridge)
    greedy.take(picked)
    forced = first
    while len(greedy.rows):
        outside = greedy.activate(forced)
        yield from greedy.pick(outside, forced)
        forced = None


class _Greedy:
    """The state between blocks. What stands in (rows,) is of the rows left, in (m,) of those active."""

    def __init__(self, kernel: Gaussian, copies: Copies, ridge: float) -> None:
        self.kernel, self.copies, self.ridge = kernel, copies, ridge
        self.rows: Ints = np.arange(len(copies.head))  # (rows,) ascending
        self.residual = np.ones(len(self.rows))  # (rows,)
        self.columns: list[Float64s] = []  # l of each row: (rows, picks of some blocks)
        self.picks = 0
        self.active: Ints = np.empty(0, np.intp)  # (m,) which rows
        self.product = np.empty((0, 0))  # (m, m) the kernel between them, less what the picks explain

    def take(self, picked: Sequence[int]) -> None:
        """Take indices as picked, in blocks."""
        for start in range(0, len(picked), ACTIVE):
            block = picked[start : start + ACTIVE]
            rows = np.array([self.copies.row[index] for index in block], np.intp)
            product = self._explained(rows, rows)
            product[np.diag_indices(len(rows))] += self.ridge
            for row, index in zip(rows.tolist(), block, strict=True):
                self.copies.take(row, index)
            self._commit(rows, np.linalg.cholesky(product), np.empty((len(rows), 0)))

    def activate(self, forced: int | None) -> float:
        """Renew the active set and its product; returns the largest residual outside."""
        chosen, outside = self._largest()
        if forced is not None:
            chosen, outside = np.array([self.copies.row[forced]]), -np.inf
        stays = np.isin(self.active, chosen)
        kept = self.active[stays]
        joins = np.setdiff1d(chosen, kept)
        self.active = np.concatenate([kept, joins])
        new = self._explained(joins, self.active)  # (joins, m)
        corner = np.ix_(stays, stays)
        self.product = np.block([[self.product[corner], new[:, : len(kept)].T], [new]])
        return outside

    def _largest(self) -> tuple[Ints, float]:
        """The rows of the largest residuals, ties to the lowest index, and the largest residual of the others."""
        size = min(ACTIVE, FEW + self.picks)
        left = self.residual > -np.inf
        if np.count_nonzero(left) <= size:
            return self.rows[left], -np.inf
        border = np.partition(self.residual, -size)[-size]
        tie = TIE * border + ROUNDING
        chosen = self.residual > border + tie
        tied = np.flatnonzero((self.residual >= border - tie) & ~chosen)
        by_index = tied[np.argsort(self.copies.head[self.rows[tied]])]
        chosen[by_index[: size - np.count_nonzero(chosen)]] = True
        return self.rows[chosen], float(self.residual[~chosen].max())

    def pick(self, outside: float, forced: int | None) -> Iterator[int]:
        """A block of picks: from the active rows, while their best beats the largest residual outside."""
        m, copies = len(self.active), self.copies
        residual = self.residual[np.searchsorted(self.rows, self.active)]
        factor = np.empty((m, m))  # (picks, m): rows of Lᵀ
        picked: list[int] = []
        scale: list[float] = []  # the diagonal of L
        while (t := len(picked)) < m:
            best = float(residual.max())
            tie = TIE * abs(best) + ROUNDING
            if best < outside - tie or best == -np.inf:
                break
            j = int(np.where(residual >= best - tie, copies.head[self.active], len(copies.row)).argmin())
            yield copies.take(int(self.active[j]), forced)
            picked.append(j)
            scale.append(float(np.sqrt(max(residual[j], 0) + self.ridge)))
            np.divide(self.product[j] - factor[:t, j] @ factor[:t], scale[t], out=factor[t])
            residual -= factor[t] ** 2
            if copies.head[self.active[j]] == len(copies.row):
                residual[j] = -np.inf
        lower = np.tril(factor[: len(picked), picked].T, -1)
        np.fill_diagonal(lower, scale)
        self._commit(self.active[picked], lower, factor[: len(picked)])

    def _explained(self, some: Ints, others: Ints | None = None) -> Float64s:
        """The kernel between rows, less what the picks explain; `others` None = all rows left."""
        at = np.searchsorted(self.rows, some)
        to: Any = slice(None) if others is None else np.searchsorted(self.rows, others)
        product = self.kernel.block(at, to)
        for part in self.columns:
            product -= part[at] @ part[to].T
        return product

    def _commit(self, picked: Ints, lower: Float64s, factor: Float64s) -> None:
        """Take the picks (t,) to all rows; lower (t, t) is their block of L, factor (t, m) that of the active rows."""
        self.picks += len(picked)
        column = solve_triangular(lower, self._explained(picked), lower=True, check_finite=False).T  # (rows, t)
        self.residual -= squared_norms(column)
        self.columns.append(column)
        self.product -= factor.T @ factor
        left = self.copies.head[self.rows] < len(self.copies.row)
        self.residual[~left] = -np.inf
        if np.count_nonzero(left) < COMPACT * len(left) or not left.any():
            self.rows, self.residual, self.kernel = self.rows[left], self.residual[left], self.kernel.part(left)
            self.columns = [_joined(self.columns, left)]


def _joined(parts: list[Float64s], left: NDArray[np.bool_]) -> Float64s:
    """The rows left of all parts, side by side."""
    ends = np.cumsum([part.shape[1] for part in parts])
    joined = np.empty((np.count_nonzero(left), ends[-1]))
    for part, end in zip(parts, ends, strict=True):
        np.compress(left, part, axis=0, out=joined[:, end - part.shape[1] : end])
    return joined
