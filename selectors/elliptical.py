"""The greedy elliptical order, exact and fast: each pick is the row with the largest h Λ hᵀ, Λ⁻¹ = lam I + Σ h_iᵀ h_i.

The textbook loop renews n quadratic forms at every pick: n d² a pick. This one gives the same picks for about n² d
in all, nearly all of it in matrix products. What it rests on:

- Bonuses never rise, so a bonus that was right some picks ago bounds today's from above. Picks are made inside a small
  active set of the largest bounds, for as long as its best beats every bound outside: a block of some 25 picks.
- Inside a block only the active rows' Gram matrix is touched. With Λ = F Fᵀ, G = H F and K = G Gᵀ for the active rows,
  greedy picking is a pivoted Cholesky factorisation L Lᵀ of I + K: one row w of the factor a pick, made of row j of K
  and the rows before, w = h Λ h_jᵀ / √(1 + bonus_j), and every bonus falls by w².
- A block of picks S ends with V = F G_Sᵀ L⁻ᵀ, Z = (L + I)⁻¹ G_S, F ← F − V Z, G ← G − Wᵀ Z, K ← K − Wᵀ W (Andrews,
  "A square root formulation of the Kalman covariance equations", AIAA J. 6, 1968), and every bound outside falls by
  |h V|². A row's G is computed anew (h F, d²) only when it joins the active set, two to three times.

Precision: what decides is float64, and with F instead of Λ a bonus b that began as b₀ is off by about eps √(b₀ b), not
eps b₀. The bounds fall in float32, by so much less that they stay bounds whatever the rounding; a bound that became too
loose lets its row join the active set, and is exact again. Equal rows are kept once and so tie exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm

from .vectors import Copies

Float64s = NDArray[np.float64]
Ints = NDArray[np.intp]

ACTIVE = 224  # so many of the largest bounds are made active
FEW = 48  # ... or fewer at first: this many and one more for each pick so far, so that a short ranking is cheap
SEATS = 320  # a row stays active until its seat is needed for a better one
WHOLE = 640  # when so few rows are left, all are made active for good
BLOCK = 96  # picks at most before they are taken into F, G and K
TIE = 1e-10  # bonuses relatively this close count as equal, and the lowest index is taken
FALL = 1e-4  # K is computed anew when the best bonus fell by this factor: what is left then are cancelled digits
LOOSE = 1e-2  # float32 may loosen |h V| by this share of the root of the best bonus; else that block falls in float64
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
        self.bonus = np.full(seats, -np.inf)  # -inf also where the row is used up
        self.g = np.zeros((seats, d))  # G = H F
        self.k = np.zeros((seats, seats))  # K = G Gᵀ
        self.w = np.empty((BLOCK, seats))  # Lᵀ of the picks since K was right
        self.top = 0.0  # the largest bonus since K was last computed anew

    def seated(self) -> NDArray[np.bool_]:
        return self.bonus > -np.inf

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


class _Greedy:
    """The state between blocks. h (rows, d) are the distinct rows."""

    def __init__(self, h: NDArray[Any], lam: float, copies: Copies) -> None:
        self.h, self.lam, self.copies = h, lam, copies
        self.factor: Float64s | None = None  # F (d, d), Λ = F Fᵀ; None = I / √lam
        norms, error = _rounded_squares(h)
        self.bound = (norms + error) / lam  # (rows,) at least each row's bonus; -inf once used up
        self.picks = 0
        self.active = _Active(min(SEATS, len(h)), h.shape[1])
        self.outside = _Outside(h, np.sqrt(norms + error))
        self.whole = False  # whether all rows that are left are active

    def any_left(self) -> bool:
        return bool((self.copies.head < len(self.copies.row)).any())

    def begin_after(self, picked: Sequence[int]) -> None:
        """Take picks made before: F from the QR factors of [√lam I; H_picked], and every bonus exact."""
        for index in picked:
            self.copies.take(int(self.copies.row[index]), int(index))
        before = self._float64(self.copies.row[np.asarray(picked)])
        d = self.h.shape[1]
        r = np.linalg.qr(np.concatenate([np.sqrt(self.lam) * np.eye(d), before]), mode="r")
        self.factor = np.ascontiguousarray(solve_triangular(r, np.eye(d)))
        self.picks = len(picked)
        self._make_exact(np.arange(len(self.h)))
        self.bound[self.copies.head == len(self.copies.row)] = -np.inf

    def activate(self, forced: int | None) -> float:
        """Renew the active set, with exact bonuses for all in it; returns the largest bound outside."""
        if not self.whole:
            left = np.flatnonzero(self.copies.head < len(self.copies.row))
            if len(left) <= WHOLE:
                self._seat_all(left)
            else:
                self._seat_largest(forced)
        self.active.mend()
        if self.whole:
            return -np.inf
        rest = self.bound.copy()
        rest[self.active.row[self.active.seated()]] = -np.inf
        return float(rest.max())

    def _seat_all(self, left: Ints) -> None:
        self.whole = True
        self.active = _Active(len(left), self.h.shape[1])
        self.active.join(left, self._g(left))

    def _seat_largest(self, forced: int | None) -> None:
        active, size = self.active, min(ACTIVE, FEW + self.picks)
        if self.factor is None:  # bounds that rounding alone sets apart would all have to join, one after the other
            enter = np.partition(self.bound, -size)[-size]
            self._make_exact(np.flatnonzero(self.bound >= enter * (1 - 4 * _rounding(self.h))))
        chosen = self._largest(size)
        if forced is not None:
            chosen[self.copies.row[forced]] = True
        chosen[active.row[active.seated()]] = False
        joins = np.flatnonzero(chosen)
        active.join(joins, self._g(joins))
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
        return h / np.sqrt(self.lam) if self.factor is None else h @ self.factor

    def _float64(self, rows: Ints) -> Float64s:
        return np.asarray(self.h[rows], np.float64)

    def pick(self, outside: float, forced: int | None) -> Iterator[int]:
        """A block of picks: from the active set, while its best bonus beats the largest bound outside."""
        active, copies, n = self.active, self.copies, len(self.copies.row)
        bonus, k, w = active.bonus, active.k, active.w
        heads = copies.head[active.row]  # of equal bonuses the lowest index is taken
        least = max(outside * (1 - 3 * TIE), FALL * active.top)
        picked: list[int] = []  # seats
        scale: list[float] = []  # the diagonal of L
        for t in range(len(w)):
            best = bonus.max()
            if t == 0 and forced is not None:
                j = int(np.flatnonzero(active.row == copies.row[forced])[0])
            elif best < least or best == -np.inf:
                break
            else:
                j = int(np.where(bonus >= best * (1 - TIE), heads, n).argmin())
            row = int(active.row[j])
            yield copies.take(row, forced if t == 0 else None)
            picked.append(j)
            scale.append(float(np.sqrt(1 + bonus[j])))
            np.subtract(k[j], w[:t, j] @ w[:t], out=w[t])
            w[t] /= scale[t]
            bonus -= w[t] * w[t]
            heads[j] = copies.head[row]
            if heads[j] == n:
                bonus[j] = -np.inf
        if picked:
            self._commit(np.array(picked), np.array(scale), w[: len(picked)])

    def _commit(self, picked: Ints, scale: Float64s, w: Float64s) -> None:
        """Take the picks (t,) into F, G, K and all bounds; scale (t,), w (t, seats)."""
        self.picks += len(picked)
        active, used_up = self.active, ~self.active.seated()
        lower = np.tril(w[:, picked].T, -1)
        np.fill_diagonal(lower, scale)
        g_picked = active.g[picked]  # (t, d)
        z = _solve(lower + np.eye(len(picked)), g_picked)  # (t, d)
        _subtract(active.g, w, z)
        _subtract(active.k, w, w)
        active.bonus = np.where(used_up, -np.inf, _squares(active.g))
        if self.whole:
            return
        if self.factor is None:
            self.factor = np.eye(self.h.shape[1]) / np.sqrt(self.lam)
        v = _solve(lower, g_picked @ self.factor.T)  # (t, d) = Vᵀ
        _subtract(self.factor, v, z)
        self.outside.fall(self.bound, v, best=float(active.bonus.max()))
        occupied = active.row >= 0
        self.bound[active.row[occupied]] = active.bonus[occupied]


class _Outside:
    """The rows as float32, for the falling bounds; copied together now and then as picked ones drop out."""

    def __init__(self, h: NDArray[Any], norm: Float64s) -> None:
        self.h, self.norm = h, norm
        self.rows = np.arange(len(h))
        self.longest = float(norm.max())
        self.size = 1.0 if h.dtype == np.float32 and 1e-9 < self.longest < 1e9 else self.longest
        self.single: NDArray[np.float32] | None = None  # (len(self.rows), d): h / size, in the range of float32

    def fall(self, bound: Float64s, v: Float64s, best: float) -> None:
        """Lower the bounds by |h V|², or by less where rounding leaves that in doubt; v (t, d) = Vᵀ."""
        here = bound[self.rows]
        alive = here > -np.inf
        if self.single is None:
            self.single = self.h if self.size == 1 else (self.h / self.size).astype(np.float32)
        if np.count_nonzero(alive) < COMPACT * len(alive):
            self.rows, self.single, here = self.rows[alive], self.single[alive], here[alive]
        h: NDArray[Any] = self.single
        scale = self.size
        if best < 1e-30 or _rounding(h) * self.longest * np.linalg.norm(v) > LOOSE * np.sqrt(best):
            h, scale = self.h[self.rows].astype(np.float64), 1.0
        w = h @ (scale * v).astype(h.dtype).T  # (rows, t)
        unit = _rounding(h)
        fall = np.sqrt(_squares(w).astype(np.float64)) * (1 - unit) - unit * np.linalg.norm(v) * self.norm[self.rows]
        bound[self.rows] = here - np.maximum(fall, 0) ** 2


def _rounding(h: NDArray[Any]) -> float:
    """An inner product of length d errs by at most this times the two norms (d units, and one for each factor)."""
    eps = float(np.finfo(h.dtype).eps)
    return (h.shape[1] + 3) * eps / 2


def _rounded_squares(h: NDArray[Any]) -> tuple[Float64s, Float64s]:
    """The squared norm of each row (rows,), quickly, and by how much it can be too small."""
    with np.errstate(over="ignore", under="ignore"):
        squares = _squares(h).astype(np.float64)
    if not np.isfinite(squares).all():
        squares = _squares(h.astype(np.float64))
    return squares, squares * _rounding(h) + h.shape[1] * float(np.finfo(h.dtype).tiny)


def _solve(lower: Float64s, right: Float64s) -> Float64s:
    return np.ascontiguousarray(solve_triangular(lower, right, lower=True, check_finite=False))


def _subtract(from_: Float64s, left: Float64s, right: Float64s) -> None:
    """from_ -= leftᵀ right, in place: a temporary of that size would cost more than the product. from_ is C-ordered."""
    dgemm(-1.0, right.T, left.T, beta=1.0, c=from_.T, trans_b=True, overwrite_c=True)


def _squares(rows: NDArray[Any]) -> NDArray[Any]:
    """The squared norm of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
