"""Compute the greedy elliptical order, exactly and fast.

    pick the largest bonus(h) = h Λ hᵀ        Λ⁻¹ = lam I + Σ h_iᵀ h_i over the picks, h a row (1, d)

The picks must be those of `repexp.reference_order`: each pick has the best remaining bonus, within 1e-9 of it, by
`repexp.reference_bonuses`. Bonuses closer than TIE, relatively, count as equal. The lowest index of the active set is
then picked: a different row outside it can lose such a tie.

The reference computes n quadratic forms at every pick: n d² operations a pick. Here the whole order costs about n² d,
nearly all of it in matrix products:

- A pick raises no bonus. So a bonus computed some picks ago is an upper bound on the bonus now. Picks are made
  inside a small active set, the rows with the largest bounds.
- Inside a block of picks only the Gram matrix of the active rows is touched. With Λ = F Fᵀ, G = H F and K = G Gᵀ for
  the active rows H, greedy picking is a pivoted Cholesky factorisation L Lᵀ of I + K. The pick j adds one row
  w = h Λ h_jᵀ / √(1 + bonus_j) to Lᵀ, made of row j of K and of the rows before it. Every bonus falls by w².
- After a block of picks S: V = F G_Sᵀ L⁻ᵀ, Z = (L + I)⁻¹ G_S, F ← F - V Z, G ← G - Wᵀ Z, K ← K - Wᵀ W (Andrews,
  "A square root formulation of the Kalman covariance equations", AIAA J. 6, 1968). Every bound outside the active set
  falls by |h V|². The G of a row is computed in full (h F, d² operations) only when the row joins the active set.
- While the best active bonus is above every bound outside, it is the best of all: the pick is sure. A block goes on
  after that, because the bonuses outside fall as well. h V tells how far they fell before each pick, and the block is
  cut before the first pick that some bound outside beat at its turn. About half of the 50 picks of a block are made
  like this; 2 to 5 in 100 are cut.

Precision: all decisions use float64. With F in place of Λ, a bonus b that began as b₀ has an error of about
eps √(b₀ b), not eps b₀. The bounds fall in float32, by a little less than they could (`elliptical_bounds`). A row whose
bound became too loose joins the active set, where its bonus is exact again; when many are too loose, all bounds are
renewed. Equal rows are kept once, so they tie exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm, dtrsm

from .elliptical_bounds import OutsideRows, rounding
from .vectors import TIE, Copies

Float64s = NDArray[np.float64]
Ints = NDArray[np.intp]

ACTIVE = 224  # rows in a renewed active set, those with the largest bounds
FEW = 48  # ... or fewer at first: this many, plus one for each pick so far, so that a short ranking is cheap
SLOTS = 320  # rows that the active set can hold: a row stays until a better one needs its slot
WHOLE = 640  # when at most so many rows remain, all of them become active
BLOCK = 96  # at most so many picks before F, G and K are updated
MARGIN = 0.1  # a pick that is not sure must have begun the block above outside + MARGIN (best - outside)
FALL = 1e-4  # K is computed again when the best bonus fell by this factor, as many digits have cancelled
STALE = 1e-2  # all bounds are renewed when those of joining rows are too large by this share ...
RENEW = 512  # ... but only after so many picks


def elliptical_order(
    h: NDArray[Any], lam: float, first: int | None = None, picked: Sequence[int] = ()
) -> Iterator[int]:
    """Yield all row indices except those `picked` before: the largest bonus first; for ties see the module's docstring.

    h (n, d), any float dtype, finite; it is not changed. lam: the ridge of the bonus, > 0. `first` is picked first if
    given. A block of picks is computed when its first pick is read.
    """
    copies = Copies(h)
    rows = h if len(copies.first) == len(h) else h[copies.first]
    greedy = _Greedy(rows if rows.dtype == np.float64 else rows.astype(np.float32, copy=False), lam, copies)
    if len(picked):
        greedy.begin_after(picked)
    while greedy.any_left():
        outside = greedy.activate(first)
        yield from greedy.pick(outside, first)
        first = None


class _ActiveSet:
    """The rows that picks are made from. Each has a slot: all arrays (slots, ...), float64; row -1 is an empty slot."""

    def __init__(self, slots: int, d: int) -> None:
        self.row = np.full(slots, -1)
        self.bonus = np.full(slots, -inf)  # also -inf if all copies of the row are picked
        self.g = np.zeros((slots, d))  # G = H F
        self.k = np.zeros((slots, slots))  # K = G Gᵀ, as it was before the block
        self.w = np.empty((BLOCK, slots))  # Lᵀ: a row for each pick of the block
        self.top = 0.0  # the largest bonus since K was last computed anew

    def has_bonus(self) -> NDArray[np.bool_]:
        return self.bonus > -inf

    def join(self, rows: Ints, g: Float64s) -> None:
        """Give each of the rows a slot: empty ones first, then those of the lowest bonuses."""
        slots = np.argsort(self.bonus, kind="stable")[: len(rows)]
        self.row[slots], self.g[slots], self.bonus[slots] = rows, g, _squares(g)
        cross = g @ self.g.T
        self.k[slots], self.k[:, slots] = cross, cross.T

    def restore_digits(self) -> None:
        """Compute K again if the bonuses have fallen so far that few of its digits are right."""
        best = float(self.bonus.max())
        self.top = max(self.top, best)
        if best < FALL * self.top:
            self.k, self.top = self.g @ self.g.T, best
        np.fill_diagonal(self.k, np.maximum(self.bonus, 0))

    def fall(self, slot: int, t: int) -> None:
        """Lower all bonuses by pick number t of the block, the row of this slot."""
        before, w = self.w[:t], self.w[t]
        np.subtract(self.k[slot], before[:, slot] @ before, out=w)
        w /= sqrt(1 + self.bonus[slot])
        self.bonus -= w * w

    def update(self, w: Float64s, z: Float64s, used_up: NDArray[np.bool_]) -> None:
        """Update G, K and all bonuses by the picks of a block; w (t, slots) is their part of Lᵀ, z (t, d) is Z."""
        _subtract(self.g, w, z)
        _subtract(self.k, w, w)
        self.bonus = np.where(used_up, -inf, _squares(self.g))


class _Block:
    """Picks that are not yet in F, G, K and the bounds."""

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.best: list[float] = []  # the bonus of each pick
        self.last: list[bool] = []  # whether the pick is the last copy of its row
        self.sure = 0  # number of picks that beat every bound outside as it was before the block

    def add(self, slot: int, best: float, sure: bool, last: bool) -> None:
        self.slots.append(slot)
        self.best.append(best)
        self.last.append(last)
        self.sure += sure

    def lower(self, w: Float64s) -> Float64s:
        """Return L (t, t); its part below the diagonal is in w."""
        lower = np.tril(w[: len(self.slots), self.slots].T, -1)
        np.fill_diagonal(lower, np.sqrt(1 + np.array(self.best)))
        return lower


class _Greedy:
    """The state between blocks. h (rows, d) are the distinct rows."""

    def __init__(self, h: NDArray[Any], lam: float, copies: Copies) -> None:
        self.h, self.lam, self.copies = h, lam, copies
        self.factor: Float64s | None = None  # F (d, d), Λ = F Fᵀ; None = I / √lam
        norms, error = _rounded_squares(h)
        self.bound = (norms + error) / lam  # (rows,) at least each row's bonus; -inf once all its copies are picked
        self.picks = 0
        self.renewed = 0  # the number of picks when all bounds were last renewed
        self.stale = False  # whether they should be renewed
        self.early: set[int] = set()  # indices picked before lower indices of the same row
        self.active = _ActiveSet(min(SLOTS, len(h)), h.shape[1])
        self.outside = OutsideRows(h, np.sqrt(norms + error))
        self.whole = False  # whether all remaining rows are active

    def any_left(self) -> bool:
        return bool((self.copies.head < len(self.copies.row)).any())

    def begin_after(self, picked: Sequence[int]) -> None:
        """Start from earlier picks: F from the QR factors of [√lam I; H_picked], and every bonus exact."""
        for index in picked:
            self.early.add(int(index))
            self.copies.take(int(self.copies.row[index]), int(index))
        before = self._float64(self.copies.row[np.asarray(picked)])
        d = self.h.shape[1]
        r = np.linalg.qr(np.concatenate([np.sqrt(self.lam) * np.eye(d), before]), mode="r")
        self.factor = np.ascontiguousarray(solve_triangular(r, np.eye(d)))
        self.picks = self.renewed = len(picked)
        self._make_exact(np.arange(len(self.h)))
        self.bound[self.copies.head == len(self.copies.row)] = -inf

    def activate(self, forced: int | None) -> float:
        """Renew the active set, with exact bonuses for all its rows; return the largest bound outside it.

        `forced`: an index whose row must be in the set.
        """
        if not self.whole:
            remaining = np.flatnonzero(self.copies.head < len(self.copies.row))
            if len(remaining) <= WHOLE:
                self._activate_all(remaining)
            else:
                self._renew_bounds()
                self._activate_largest(forced)
        self.active.restore_digits()
        if self.whole:
            return -inf
        outside = self.bound.copy()
        outside[self.active.row[self.active.has_bonus()]] = -inf
        return float(outside.max())

    def _activate_all(self, rows: Ints) -> None:
        self.whole = True
        self.active = _ActiveSet(len(rows), self.h.shape[1])
        self.active.join(rows, self._g(rows))

    def _renew_bounds(self) -> None:
        if self.stale and self.factor is not None:
            self.outside.renew(self.bound, self.factor, STALE / 4)
            self.renewed, self.stale = self.picks, False

    def _activate_largest(self, forced: int | None) -> None:
        active, size = self.active, min(ACTIVE, FEW + self.picks)
        if self.factor is None:  # else all rows whose bounds differ only by rounding would have to join, one by one
            border = np.partition(self.bound, -size)[-size]
            self._make_exact(np.flatnonzero(self.bound >= border * (1 - 4 * rounding(self.h.shape[1], self.h.dtype))))
        chosen = self._largest(size)
        if forced is not None:
            chosen[self.copies.row[forced]] = True
        chosen[active.row[active.has_bonus()]] = False
        joining = np.flatnonzero(chosen)
        g = self._g(joining)
        active.join(joining, g)
        if len(joining) and self.picks - self.renewed >= RENEW:
            self.stale = bool(np.median(self.bound[joining]) > (1 + STALE) * np.median(_squares(g)))
        exact = active.has_bonus()
        self.bound[active.row[exact]] = active.bonus[exact]

    def _largest(self, size: int) -> NDArray[np.bool_]:
        """Return which rows have the `size` largest bounds; of equal bounds those of the lowest indices."""
        border = np.partition(self.bound, -size)[-size]
        chosen: NDArray[np.bool_] = self.bound > border * (1 + TIE)
        tied = np.flatnonzero((self.bound >= border * (1 - TIE)) & ~chosen)
        chosen[tied[np.argsort(self.copies.head[tied])[: size - np.count_nonzero(chosen)]]] = True
        return chosen

    def _make_exact(self, rows: Ints) -> None:
        for part in np.array_split(rows, len(rows) // 256 + 1):
            self.bound[part] = _squares(self._g(part))

    def _g(self, rows: Ints) -> Float64s:
        """Return G = H F of these rows, (len(rows), d)."""
        h = self._float64(rows)
        return h / np.sqrt(self.lam) if self.factor is None else np.ascontiguousarray((self.factor.T @ h.T).T)

    def _float64(self, rows: Ints) -> Float64s:
        return np.asarray(self.h[rows], np.float64)

    def pick(self, outside: float, forced: int | None) -> Iterator[int]:
        """Yield a block of picks from the active set: the sure ones at once, the others after the bounds have fallen.

        `outside` is the largest bound outside the set; `forced`, if given, is the first pick.
        """
        active, copies, n = self.active, self.copies, len(self.copies.row)
        start, low = active.bonus.copy(), self._low(outside)
        heads = copies.head[active.row]  # of equal bonuses the lowest index is picked
        least = FALL * active.top
        block = _Block()
        self.early.update(() if forced is None else (forced,))
        while len(block.slots) < BLOCK:
            j = self._best_slot(heads, forced)
            row, best = int(active.row[j]), float(active.bonus[j])
            sure = forced is not None or best >= outside * (1 - 3 * TIE)
            if best == -inf or (best < least and forced is None) or not (sure or (block.slots and start[j] >= low)):
                break
            index = copies.take(row, forced) if sure else -1
            heads[j] = copies.head[row] if sure else self._next_copy(row, int(heads[j]))
            active.fall(j, len(block.slots))
            block.add(j, best, sure, heads[j] == n)
            if heads[j] == n:
                active.bonus[j] = -inf
            forced = None
            if sure:
                yield index
        if block.slots:
            for j in self._commit(block, start == -inf):
                yield copies.take(int(active.row[j]))

    def _low(self, outside: float) -> float:
        """Return the bonus that a pick which is not sure must have had at the start of the block.

        Rows with lower bonuses are outside the set as well, and one of them may have become better.
        """
        top = float(self.active.bonus.max())
        return outside + MARGIN * (top - outside) if -inf < outside < top else outside

    def _best_slot(self, heads: Ints, forced: int | None) -> int:
        """Return the slot of the forced index, else of the largest bonus; heads (slots,): lowest unpicked indices."""
        bonus = self.active.bonus
        if forced is not None:
            return int(np.flatnonzero(self.active.row == self.copies.row[forced])[0])
        best = int(bonus.argmax())
        tied = bonus >= bonus[best] * (1 - TIE)
        return best if np.count_nonzero(tied) == 1 else int(np.where(tied, heads, len(self.copies.row)).argmin())

    def _next_copy(self, row: int, head: int) -> int:
        """Return the lowest unpicked index of this row above `head`; n if there is none."""
        later = np.flatnonzero(self.copies.row[head + 1 :] == row) + head + 1 if self.copies.count[row] > 1 else ()
        return next((int(index) for index in later if int(index) not in self.early), len(self.copies.row))

    def _commit(self, block: _Block, used_up: NDArray[np.bool_]) -> list[int]:
        """Update F, G, K and all bounds by the picks that are right; return the slots of those that were not sure."""
        active, slots = self.active, block.slots
        lower, g = block.lower(active.w), active.g[slots]  # (t, t), (t, d)
        right, v = len(slots), None
        if not self.whole:
            v = self._v(lower, g)
            right = self.outside.fall(self.bound, v, np.array(block.best), block.sure, active.row[active.row >= 0])
        z = _solve(lower[:right, :right] + np.eye(right), g[:right])  # (t, d)
        used_up[[slot for slot, last in zip(slots[:right], block.last, strict=False) if last]] = True
        active.update(active.w[:right], z, used_up)
        filled = active.row >= 0
        self.bound[active.row[filled]] = active.bonus[filled]
        if v is not None and self.factor is not None:
            _subtract(self.factor, v[:right], z)
        self.picks += right
        return slots[block.sure : right]

    def _v(self, lower: Float64s, g: Float64s) -> Float64s:
        """Return Vᵀ (t, d) of a block of picks."""
        if self.factor is None:
            self.factor = np.eye(self.h.shape[1]) / np.sqrt(self.lam)
        return _solve(lower, g @ self.factor.T)


def _rounded_squares(h: NDArray[Any]) -> tuple[Float64s, Float64s]:
    """Return the squared length of each row (rows,), computed fast, and by how much it can be too small."""
    with np.errstate(over="ignore", under="ignore"):
        squares = _squares(h).astype(np.float64)
    if not np.isfinite(squares).all():
        squares = _squares(h.astype(np.float64))
    return squares, squares * rounding(h.shape[1], h.dtype) + h.shape[1] * float(np.finfo(h.dtype).tiny)


def _solve(lower: Float64s, right: Float64s) -> Float64s:
    """Return lower⁻¹ right. Both are C-ordered, which BLAS reads as transposed."""
    return np.asarray(dtrsm(1.0, lower.T, right.T, side=1).T)


def _subtract(target: Float64s, left: Float64s, right: Float64s) -> None:
    """target -= leftᵀ right, in place: a temporary of that size would cost more than the product. It is C-ordered."""
    dgemm(-1.0, right.T, left.T, beta=1.0, c=target.T, trans_b=True, overwrite_c=True)


def _squares(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the squared length of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
