"""The greedy elliptical order, exact and fast: each pick is the row with the largest h Λ hᵀ, Λ⁻¹ = lam I + Σ h_iᵀ h_i.

The textbook loop renews n quadratic forms at every pick: n d² a pick. This one gives the same picks for about n² d
in all, nearly all of it in matrix products. What it rests on:

- Bonuses never rise, so a bonus that was right some picks ago bounds today's from above. Picks are made inside a small
  active set of the largest bounds.
- Inside a block of picks only the active rows' Gram matrix is touched. With Λ = F Fᵀ, G = H F and K = G Gᵀ for the
  active rows, greedy picking is a pivoted Cholesky factorisation L Lᵀ of I + K: one row w of the factor a pick, made of
  row j of K and the rows before, w = h Λ h_jᵀ / √(1 + bonus_j), and every bonus falls by w².
- A block of picks S ends with V = F G_Sᵀ L⁻ᵀ, Z = (L + I)⁻¹ G_S, F ← F − V Z, G ← G − Wᵀ Z, K ← K − Wᵀ W (Andrews,
  "A square root formulation of the Kalman covariance equations", AIAA J. 6, 1968), and every bound outside falls by
  |h V|². A row's G is computed anew (h F, d²) only when it joins the active set, once or twice.
- While the best active bonus beats every bound outside, it is the best of all. A block goes on after that, for the
  bonuses outside fall as well: h V tells how they fell pick by pick, and the block is cut before the first pick that
  some bound outside beat at its turn. Of some 50 picks a block about half are made like this; 2 to 5 in 100 are cut.

Precision: what decides is float64, and with F instead of Λ a bonus b that began as b₀ is off by about eps √(b₀ b), not
eps b₀. The bounds fall in float32, by so much less that they stay bounds whatever the rounding. A bound that became too
loose lets its row join the active set, and is exact again; when many have, all are computed anew. Equal rows are kept
once and so tie exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm, dtrsm

from .vectors import Copies

Float64s = NDArray[np.float64]
Ints = NDArray[np.intp]

ACTIVE = 224  # so many of the largest bounds are made active
FEW = 48  # ... or fewer at first: this many and one more for each pick so far, so that a short ranking is cheap
SEATS = 320  # a row stays active until its seat is needed for a better one
WHOLE = 640  # when so few rows are left, all are made active for good
BLOCK = 96  # picks at most before they are taken into F, G and K
MARGIN = 0.1  # unsure picks end before a row that began so low between the largest bound outside (0) and the best (1)
TIE = 1e-10  # bonuses relatively this close count as equal, and the lowest index is taken
FALL = 1e-4  # K is computed anew when the best bonus fell by this factor: what is left then are cancelled digits
LOOSE = 1e-2  # float32 may loosen |h V| by this share of the root of the best bonus; else that block falls in float64
STALE = 1e-2  # when the bounds of joining rows prove to be this much too large, relatively, all are computed anew ...
RENEW = 512  # ... but not before so many picks
CHUNK = 64  # float32 sums up so many dimensions at a time, for its rounding grows with the length of a sum
LASTING = 16  # after so many falls the rows are copied as columns, which are quicker to multiply
COMPACT = 0.9  # the rows outside are copied together when only this share of them is left


def elliptical_order(
    h: NDArray[Any], lam: float, first: int | None = None, picked: Sequence[int] = ()
) -> Iterator[int]:
    """All row indices but those `picked` before, greedily, ties to the lowest; `first` is picked first if given.

    h (n, d), any float dtype, finite; not changed. Lazy: a block of picks is worked out when its first is pulled.
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


class _Active:
    """The rows that picks are made from, each in a seat; all (seats, ...), float64. An empty seat has row -1."""

    def __init__(self, seats: int, d: int) -> None:
        self.row = np.full(seats, -1)
        self.bonus = np.full(seats, -inf)  # -inf also where the row is used up
        self.g = np.zeros((seats, d))  # G = H F
        self.k = np.zeros((seats, seats))  # K = G Gᵀ
        self.w = np.empty((BLOCK, seats))  # Lᵀ of the picks since K was right
        self.top = 0.0  # the largest bonus since K was last computed anew

    def seated(self) -> NDArray[np.bool_]:
        return self.bonus > -inf

    def join(self, rows: Ints, g: Float64s) -> None:
        """Give the rows a seat each: empty ones, then those of the lowest bonuses."""
        seats = np.argsort(self.bonus, kind="stable")[: len(rows)]
        self.row[seats], self.g[seats], self.bonus[seats] = rows, g, _squares(g)
        cross = g @ self.g.T
        self.k[seats], self.k[:, seats] = cross, cross.T

    def mend(self) -> None:
        """Compute K anew where little is left of the digits that it had."""
        best = float(self.bonus.max())
        self.top = max(self.top, best)
        if best < FALL * self.top:
            self.k, self.top = self.g @ self.g.T, best
        np.fill_diagonal(self.k, np.maximum(self.bonus, 0))

    def fall(self, seat: int, t: int) -> None:
        """Lower the bonuses by the block's pick number t, this seat."""
        before, w = self.w[:t], self.w[t]
        np.subtract(self.k[seat], before[:, seat] @ before, out=w)
        w /= sqrt(1 + self.bonus[seat])
        self.bonus -= w * w


class _Block:
    """Picks that are not yet taken into F, G, K and the bounds."""

    def __init__(self) -> None:
        self.seats: list[int] = []
        self.best: list[float] = []  # the bonus of each
        self.last: list[bool] = []  # whether it uses its row up
        self.sure = 0  # so many beat every bound outside as it was before the block

    def add(self, seat: int, best: float, sure: bool, last: bool) -> None:
        self.seats.append(seat)
        self.best.append(best)
        self.last.append(last)
        self.sure += sure

    def lower(self, w: Float64s) -> Float64s:
        """L (t, t), whose lower part is in w."""
        lower = np.tril(w[: len(self.seats), self.seats].T, -1)
        np.fill_diagonal(lower, np.sqrt(1 + np.array(self.best)))
        return lower


class _Greedy:
    """The state between blocks. h (rows, d) are the distinct rows."""

    def __init__(self, h: NDArray[Any], lam: float, copies: Copies) -> None:
        self.h, self.lam, self.copies = h, lam, copies
        self.factor: Float64s | None = None  # F (d, d), Λ = F Fᵀ; None = I / √lam
        norms, error = _rounded_squares(h)
        self.bound = (norms + error) / lam  # (rows,) at least each row's bonus; -inf once used up
        self.picks = 0
        self.renewed = 0  # the picks when all bounds were computed anew
        self.stale = False  # whether they should be
        self.early: set[int] = set()  # indices taken before lower ones of their row
        self.active = _Active(min(SEATS, len(h)), h.shape[1])
        self.outside = _Outside(h, np.sqrt(norms + error))
        self.whole = False  # whether all rows that are left are active

    def any_left(self) -> bool:
        return bool((self.copies.head < len(self.copies.row)).any())

    def begin_after(self, picked: Sequence[int]) -> None:
        """Take picks made before: F from the QR factors of [√lam I; H_picked], and every bonus exact."""
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
        """Renew the active set, with exact bonuses for all in it; returns the largest bound outside."""
        if not self.whole:
            left = np.flatnonzero(self.copies.head < len(self.copies.row))
            if len(left) <= WHOLE:
                self._seat_all(left)
            else:
                self._renew_bounds()
                self._seat_largest(forced)
        self.active.mend()
        if self.whole:
            return -inf
        rest = self.bound.copy()
        rest[self.active.row[self.active.seated()]] = -inf
        return float(rest.max())

    def _seat_all(self, left: Ints) -> None:
        self.whole = True
        self.active = _Active(len(left), self.h.shape[1])
        self.active.join(left, self._g(left))

    def _renew_bounds(self) -> None:
        if self.stale and self.factor is not None:
            self.outside.renew(self.bound, self.factor)
            self.renewed, self.stale = self.picks, False

    def _seat_largest(self, forced: int | None) -> None:
        active, size = self.active, min(ACTIVE, FEW + self.picks)
        if self.factor is None:  # bounds that rounding alone sets apart would all have to join, one after the other
            enter = np.partition(self.bound, -size)[-size]
            self._make_exact(np.flatnonzero(self.bound >= enter * (1 - 4 * _rounding(self.h.shape[1], self.h.dtype))))
        chosen = self._largest(size)
        if forced is not None:
            chosen[self.copies.row[forced]] = True
        chosen[active.row[active.seated()]] = False
        joins = np.flatnonzero(chosen)
        g = self._g(joins)
        active.join(joins, g)
        if len(joins) and self.picks - self.renewed >= RENEW:
            self.stale = bool(np.median(self.bound[joins]) > (1 + STALE) * np.median(_squares(g)))
        seated = active.seated()
        self.bound[active.row[seated]] = active.bonus[seated]

    def _largest(self, size: int) -> NDArray[np.bool_]:
        """Which rows have the `size` largest bounds; of equal ones those of the lowest indices."""
        enter = np.partition(self.bound, -size)[-size]
        chosen: NDArray[np.bool_] = self.bound > enter * (1 + TIE)
        tied = np.flatnonzero((self.bound >= enter * (1 - TIE)) & ~chosen)
        chosen[tied[np.argsort(self.copies.head[tied])[: size - np.count_nonzero(chosen)]]] = True
        return chosen

    def _make_exact(self, rows: Ints) -> None:
        for part in np.array_split(rows, len(rows) // 256 + 1):
            self.bound[part] = _squares(self._g(part))

    def _g(self, rows: Ints) -> Float64s:
        h = self._float64(rows)
        return h / np.sqrt(self.lam) if self.factor is None else np.ascontiguousarray((self.factor.T @ h.T).T)

    def _float64(self, rows: Ints) -> Float64s:
        return np.asarray(self.h[rows], np.float64)

    def pick(self, outside: float, forced: int | None) -> Iterator[int]:
        """A block of picks from the active set: the sure ones at once, the others when the bounds have fallen."""
        active, copies, none = self.active, self.copies, len(self.copies.row)
        start, low = active.bonus.copy(), self._low(outside)
        heads = copies.head[active.row]  # of equal bonuses the lowest index is taken
        least = FALL * active.top
        block = _Block()
        self.early.update(() if forced is None else (forced,))
        while len(block.seats) < BLOCK:
            j = self._best_seat(heads, forced)
            row, best = int(active.row[j]), float(active.bonus[j])
            sure = forced is not None or best >= outside * (1 - 3 * TIE)
            if best == -inf or (best < least and forced is None) or not (sure or (block.seats and start[j] >= low)):
                break
            index = copies.take(row, forced) if sure else -1
            heads[j] = copies.head[row] if sure else self._following(row, int(heads[j]))
            active.fall(j, len(block.seats))
            block.add(j, best, sure, heads[j] == none)
            if heads[j] == none:
                active.bonus[j] = -inf
            forced = None
            if sure:
                yield index
        if block.seats:
            for j in self._commit(block, start == -inf):
                yield copies.take(int(active.row[j]))

    def _low(self, outside: float) -> float:
        """A row that began lower is no unsure pick: of its like some are outside, and may have become better."""
        top = float(self.active.bonus.max())
        return outside + MARGIN * (top - outside) if -inf < outside < top else outside

    def _best_seat(self, heads: Ints, forced: int | None) -> int:
        bonus = self.active.bonus
        if forced is not None:
            return int(np.flatnonzero(self.active.row == self.copies.row[forced])[0])
        best = int(bonus.argmax())
        tied = bonus >= bonus[best] * (1 - TIE)
        return best if np.count_nonzero(tied) == 1 else int(np.where(tied, heads, len(self.copies.row)).argmin())

    def _following(self, row: int, head: int) -> int:
        """The row's lowest index left after its lowest, head; n if there is none."""
        later = np.flatnonzero(self.copies.row[head + 1 :] == row) + head + 1 if self.copies.count[row] > 1 else ()
        return next((int(index) for index in later if int(index) not in self.early), len(self.copies.row))

    def _commit(self, block: _Block, used_up: NDArray[np.bool_]) -> list[int]:
        """Take the picks that stand into F, G, K and all bounds; returns the seats of those not sure before."""
        active, seats = self.active, block.seats
        lower, g = block.lower(active.w), active.g[seats]  # (t, t), (t, d)
        v = None if self.whole else self._v(lower, g)
        kept = len(seats) if v is None else self.outside.fall(self.bound, v, block, active.row[active.row >= 0])
        z = _solve(lower[:kept, :kept] + np.eye(kept), g[:kept])  # (t, d)
        used_up[[seat for seat, last in zip(seats[:kept], block.last, strict=False) if last]] = True
        self._renew_active(active.w[:kept], z, used_up)
        if v is not None:
            _subtract(self.factor, v[:kept], z)
        self.picks += kept
        return seats[block.sure : kept]

    def _v(self, lower: Float64s, g: Float64s) -> Float64s:
        """Vᵀ (t, d) of picks."""
        if self.factor is None:
            self.factor = np.eye(self.h.shape[1]) / np.sqrt(self.lam)
        return _solve(lower, g @ self.factor.T)

    def _renew_active(self, w: Float64s, z: Float64s, used_up: NDArray[np.bool_]) -> None:
        active = self.active
        _subtract(active.g, w, z)
        _subtract(active.k, w, w)
        active.bonus = np.where(used_up, -inf, _squares(active.g))
        occupied = active.row >= 0
        self.bound[active.row[occupied]] = active.bonus[occupied]


class _Outside:
    """The rows as float32 columns, for the falling bounds; copied together now and then as picked ones drop out."""

    def __init__(self, h: NDArray[Any], norm: Float64s) -> None:
        self.h, self.norm = h, norm
        self.rows = np.arange(len(h))
        self.longest = float(norm.max())
        self.size = 1.0 if h.dtype == np.float32 and 1e-9 < self.longest < 1e9 else self.longest
        self.falls = 0
        self.columns: dict[type, NDArray[Any]] = {}  # (d, len(self.rows)) by dtype; as float32 h / size

    def fall(self, bound: Float64s, v: Float64s, block: _Block, active: Ints) -> int:
        """Lower the bounds by |h V|², or by less where rounding leaves that in doubt; v (t, d) = Vᵀ.

        Returns how many of the block's picks stand: up to the first that a bound beats which is not of an active row.
        """
        self._keep_what_is_left(bound)
        here, best = bound[self.rows], np.array(block.best)
        length = float(np.linalg.norm(v))
        squares, unit = self._squared_products(v, length, _share(LOOSE, best[-1], here.max()))
        loose = unit * length * self.norm[self.rows]
        kept = len(v)
        if block.sure < kept:
            rivals = here > best[-1]
            rivals[np.isin(self.rows, active)] = False
            kept = _first_beaten(here[rivals], squares[:, rivals], loose[rivals], unit, best, block.sure)
        fall = np.sqrt(squares[:kept].sum(axis=0).astype(np.float64)) * (1 - unit) - loose
        bound[self.rows] = here - np.maximum(fall, 0) ** 2
        return kept

    def renew(self, bound: Float64s, factor: Float64s) -> None:
        """Lower the bounds to |h F|², or to a little more where rounding leaves that in doubt."""
        self._keep_what_is_left(bound)
        length = float(np.linalg.norm(factor))
        total, unit, best = np.zeros(len(self.rows)), 0.0, bound.max()
        for i in range(0, len(factor), 128):
            squares, rounding = self._squared_products(factor.T[i : i + 128], length, _share(STALE / 4, best, best))
            total += squares.sum(axis=0)
            unit = max(unit, rounding)
        root = np.sqrt(total) * (1 + unit) + unit * length * self.norm[self.rows]
        bound[self.rows] = np.minimum(bound[self.rows], root**2)

    def _keep_what_is_left(self, bound: Float64s) -> None:
        left = bound[self.rows] > -inf
        self.falls += 1
        if self.falls == LASTING:
            self.columns.clear()
        if np.count_nonzero(left) < COMPACT * len(left):
            self.rows = self.rows[left]
            self.columns = {dtype: np.compress(left, h, axis=1) for dtype, h in self.columns.items()}

    def _squared_products(self, v: Float64s, length: float, tolerance: float) -> tuple[NDArray[Any], float]:
        """(v hᵀ)² (t, rows), and the rounding of v hᵀ in units of `length` |h|; in float32 if the tolerance allows."""
        dtype: type = np.float32
        unit = self._unit(len(v), dtype)
        if unit * self.longest * length > tolerance:
            dtype, unit = np.float64, self._unit(len(v), np.float64)
        h, size = self._columns(dtype)
        v = (size * v).astype(dtype)
        products = v[:, :CHUNK] @ h[:CHUNK]
        for i in range(CHUNK, len(h), CHUNK):
            products += v[:, i : i + CHUNK] @ h[i : i + CHUNK]
        return np.multiply(products, products, out=products), unit

    def _columns(self, dtype: type) -> tuple[NDArray[Any], float]:
        """The rows as columns, and what they were divided by."""
        size = self.size if dtype is np.float32 else 1.0
        if dtype not in self.columns:
            rows = self.h if len(self.rows) == len(self.h) else self.h[self.rows]
            columns = np.asarray(rows if size == 1 else rows / size, dtype).T
            self.columns[dtype] = columns if self.falls < LASTING else np.ascontiguousarray(columns)
        return self.columns[dtype], size

    def _unit(self, t: int, dtype: type) -> float:
        """Rounding of the products, and of sums of t squares; sums over d run over chunks and then over their sums."""
        d = self.h.shape[1]
        return _rounding(max(min(d, CHUNK) + d // CHUNK + 1, t), dtype)


def _share(share: float, least: float, most: float) -> float:
    """This share of the root of the least bonus; nothing where float32 could not hold the bonuses."""
    return share * sqrt(least) if least > 1e-30 and most < 1e30 else 0.0


def _first_beaten(
    bound: Float64s, squares: NDArray[Any], loose: Float64s, unit: float, best: Float64s, sure: int
) -> int:
    """The first pick from number `sure` on that a bound beats at its turn; all (rows,), squares (t, rows), best (t,).

    Before pick s a bound is at most bound - (√c (1 - unit) - loose)², c the sum of the squares before.
    """
    if not len(bound):
        return len(best)
    fallen = np.cumsum(squares[:-1], axis=0)  # before each pick but the first
    most = bound * (1 + 4 * unit) + 2 * loose * np.sqrt(fallen[-1])
    fallen *= 1 - 4 * unit
    rest = np.subtract(most.astype(fallen.dtype), fallen, out=fallen)
    beaten = rest[sure - 1 :].max(axis=1) * (1 - 3 * TIE) > best[sure:]
    return sure + int(beaten.argmax()) if beaten.any() else len(best)


def _rounding(terms: int, dtype: Any) -> float:
    """An inner product of so many terms errs by at most this times the two norms (and one unit for each factor)."""
    return (terms + 3) * float(np.finfo(dtype).eps) / 2


def _rounded_squares(h: NDArray[Any]) -> tuple[Float64s, Float64s]:
    """The squared norm of each row (rows,), quickly, and by how much it can be too small."""
    with np.errstate(over="ignore", under="ignore"):
        squares = _squares(h).astype(np.float64)
    if not np.isfinite(squares).all():
        squares = _squares(h.astype(np.float64))
    return squares, squares * _rounding(h.shape[1], h.dtype) + h.shape[1] * float(np.finfo(h.dtype).tiny)


def _solve(lower: Float64s, right: Float64s) -> Float64s:
    """lower⁻¹ right. Both are C-ordered, which BLAS reads as transposed."""
    return np.asarray(dtrsm(1.0, lower.T, right.T, side=1).T)


def _subtract(from_: Float64s, left: Float64s, right: Float64s) -> None:
    """from_ -= leftᵀ right, in place: a temporary of that size would cost more than the product. from_ is C-ordered."""
    dgemm(-1.0, right.T, left.T, beta=1.0, c=from_.T, trans_b=True, overwrite_c=True)


def _squares(rows: NDArray[Any]) -> NDArray[Any]:
    """The squared norm of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
