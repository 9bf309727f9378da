"""Compute the greedy log-determinant order for a kernel, as needed: a pivoted Cholesky factorisation by blocks.

    residual(x) = k(x, x) - k(x, S) (K_S + ridge I)⁻¹ k(S, x)        pick the largest: det(K_S + ridge I) grows most

The picks must be those of `dpp_map.reference_order`: each pick's residual is the largest remaining one, by
`dpp_map.reference_residuals`, within 1e-7 of it and 1e-12. Of equal residuals the lowest index of the active set is
picked: a different row outside it can lose such a tie.

With K_S + ridge I = L Lᵀ each x has a column l(x) = L⁻¹ k(S, x), and residual(x) = k(x, x) - |l(x)|². The reference
(Chen, Zhang & Zhou 2018) adds one entry to every l at every pick: matrix-vector products, limited by memory. Here picks
are made inside a small active set of the largest residuals while its best is above all outside, because residuals never
rise. Then matrix products bring the block of picks to the rows outside. Each entry of l is computed once: n³/3 + n² d
operations for the full order. At most n²/4 entries are stored, those of the remaining rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular

from .vectors import TIE, squared_norms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .similarity import Gaussian
    from .vectors import Copies, Float64s, Ints

ACTIVE = 384  # rows in the active set
FEW = 32  # ... or fewer at first: this many, plus one for each pick so far, so that a short ranking is cheap
ROUNDING = 1e-14  # residuals within this, or relatively within TIE, count as equal
COMPACT = 0.8  # when only this share of the rows remains, the columns are copied without the others


def log_determinant_order(
    kernel: Gaussian, copies: Copies, ridge: float, first: int | None, picked: Sequence[int] = ()
) -> Iterator[int]:
    """Yield all indices not `picked` before: `first` if given, then always that of the largest residual.

    kernel: between the distinct rows of `copies`. Ties go to the lowest index of the active set. A copy of a picked row
    has a residual of about the ridge. The indices `picked` before count as picks.
    """
    greedy = _Greedy(kernel, copies, ridge)
    greedy.take(picked)
    forced = first
    while len(greedy.rows):
        outside = greedy.activate(forced)
        yield from greedy.pick(outside, forced)
        forced = None


class _Greedy:
    """The state between blocks. Arrays (rows,) belong to the remaining rows, arrays (m,) to the active ones."""

    def __init__(self, kernel: Gaussian, copies: Copies, ridge: float) -> None:
        self.kernel, self.copies, self.ridge = kernel, copies, ridge
        self.rows: Ints = np.arange(len(copies.head))  # (rows,) ascending
        self.residual = np.ones(len(self.rows))  # (rows,)
        self.columns: list[Float64s] = []  # l of each row: (rows, picks of some blocks)
        self.picks = 0
        self.active: Ints = np.empty(0, np.intp)  # (m,) which rows
        self.product = np.empty((0, 0))  # (m, m) the kernel between them, minus what the picks explain

    def take(self, picked: Sequence[int]) -> None:
        """Count these indices as picks, in blocks."""
        for start in range(0, len(picked), ACTIVE):
            block = picked[start : start + ACTIVE]
            rows = np.array([self.copies.row[index] for index in block], np.intp)
            product = self._explained(rows, rows)
            product[np.diag_indices(len(rows))] += self.ridge
            for row, index in zip(rows.tolist(), block, strict=True):
                self.copies.take(row, index)
            self._commit(rows, np.asarray(np.linalg.cholesky(product), np.float64), np.empty((len(rows), 0)))

    def activate(self, forced: int | None) -> float:
        """Renew the active set and its product; return the largest residual outside.

        With a `forced` index its row alone is active.
        """
        chosen, outside = self._largest()
        if forced is not None:
            chosen, outside = np.array([self.copies.row[forced]]), -np.inf
        stays = np.isin(self.active, chosen)
        staying = self.active[stays]
        joining = np.setdiff1d(chosen, staying)
        self.active = np.concatenate([staying, joining])
        new = self._explained(joining, self.active)  # (joining, m)
        corner = np.ix_(stays, stays)
        self.product = np.block([[self.product[corner], new[:, : len(staying)].T], [new]])
        return outside

    def _largest(self) -> tuple[Ints, float]:
        """Return the rows of the largest residuals, ties to the lowest index, and the largest other residual."""
        size = min(ACTIVE, FEW + self.picks)
        remaining = self.residual > -np.inf
        if np.count_nonzero(remaining) <= size:
            return self.rows[remaining], -np.inf
        border = np.partition(self.residual, -size)[-size]
        tie = TIE * border + ROUNDING
        chosen = self.residual > border + tie
        tied = np.flatnonzero((self.residual >= border - tie) & ~chosen)
        by_index = tied[np.argsort(self.copies.head[self.rows[tied]])]
        chosen[by_index[: size - np.count_nonzero(chosen)]] = True
        return self.rows[chosen], float(self.residual[~chosen].max())

    def pick(self, outside: float, forced: int | None) -> Iterator[int]:
        """Yield a block of picks from the active rows, while the best of them beats the largest residual outside."""
        m, copies = len(self.active), self.copies
        residual = self.residual[np.searchsorted(self.rows, self.active)]
        factor = np.empty((m, m))  # (picks, m): rows of Lᵀ
        picked: list[int] = []
        diagonal: list[float] = []  # of L
        while (t := len(picked)) < m:
            best = float(residual.max())
            tie = TIE * abs(best) + ROUNDING
            if best < outside - tie or best == -np.inf:
                break
            j = int(np.where(residual >= best - tie, copies.head[self.active], len(copies.row)).argmin())
            yield copies.take(int(self.active[j]), forced)
            picked.append(j)
            diagonal.append(float(np.sqrt(max(residual[j], 0) + self.ridge)))
            np.divide(self.product[j] - factor[:t, j] @ factor[:t], diagonal[t], out=factor[t])
            residual -= factor[t] ** 2
            if copies.head[self.active[j]] == len(copies.row):
                residual[j] = -np.inf
        lower = np.tril(factor[: len(picked), picked].T, -1)
        np.fill_diagonal(lower, diagonal)
        self._commit(self.active[picked], lower, factor[: len(picked)])

    def _explained(self, left: Ints, right: Ints | None = None) -> Float64s:
        """Return the kernel between rows minus what the picks explain of it; `right` None: all remaining rows."""
        left_places = np.searchsorted(self.rows, left)
        right_places: Any = slice(None) if right is None else np.searchsorted(self.rows, right)
        product = self.kernel.block(left_places, right_places)
        for part in self.columns:
            product -= part[left_places] @ part[right_places].T
        return product

    def _commit(self, picked: Ints, lower: Float64s, factor: Float64s) -> None:
        """Update all rows by the picks (t,); lower (t, t) is their block of L, factor (t, m) the active rows' block."""
        self.picks += len(picked)
        column = solve_triangular(lower, self._explained(picked), lower=True, check_finite=False).T  # (rows, t)
        self.residual -= squared_norms(column)
        self.columns.append(column)
        self.product -= factor.T @ factor
        remaining = self.copies.head[self.rows] < len(self.copies.row)
        self.residual[~remaining] = -np.inf
        if np.count_nonzero(remaining) < COMPACT * len(remaining) or not remaining.any():
            self.rows, self.residual = self.rows[remaining], self.residual[remaining]
            self.kernel = self.kernel.part(remaining)
            self.columns = [_joined(self.columns, remaining)]


def _joined(parts: list[Float64s], rows: NDArray[np.bool_]) -> Float64s:
    """Return the given rows of all parts, side by side."""
    ends = np.cumsum([part.shape[1] for part in parts])
    joined = np.empty((np.count_nonzero(rows), ends[-1]))
    for part, end in zip(parts, ends, strict=True):
        np.compress(rows, part, axis=0, out=joined[:, end - part.shape[1] : end])
    return joined
