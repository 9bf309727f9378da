"""The greedy elliptical order, exact and fast: each pick is the row with the largest h Λ hᵀ, Λ⁻¹ = lam I + Σ h_iᵀ h_i.

The textbook loop renews n quadratic forms at every pick: n d² a pick. This one gives the same picks for about n² d
in all, nearly all of it in matrix products. What it rests on:

- Bonuses never rise, so a bonus that was right some picks ago bounds today's from above. Picks are made inside a small
  active set of the largest bonuses, for as long as its best beats every bound outside: a block of some 25 picks.
- Inside a block nothing of size d x d is touched. With Λ = F Fᵀ and G = H F for the active rows, greedy picking is a
  pivoted Cholesky factorisation L Lᵀ of I + G Gᵀ: one row w of the factor a pick, made of G g_j and the rows before,
  w = h Λ h_jᵀ / √(1 + bonus_j), and every bonus falls by w².
- A block of picks S ends with V = F G_Sᵀ L⁻ᵀ, Z = (L + I)⁻¹ G_S, F ← F − V Z, G ← G − Wᵀ Z (Andrews, "A square root
  formulation of the Kalman covariance equations", AIAA J. 6, 1968), and every bound outside falls by |h V|². A row's G
  is computed anew (h F, d²) only when it joins the active set, which it does about one and a half times.

Precision: what decides is float64, and with F instead of Λ a bonus b that began as b₀ is off by about eps √(b₀ b), not
eps b₀. The bounds fall in float32, by so much less that they stay bounds whatever the rounding; a bound that became too
loose lets its row join the active set, and is exact again. Equal rows are kept once and so tie exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm

Float64s = NDArray[np.float64]
Ints = NDArray[np.intp]

ACTIVE = 256  # the number of largest bounds that are made active; a row stays while among the largest 2 * ACTIVE
FEW = 64  # ... or fewer at first: this many and one more for each pick so far, so that a short ranking is cheap
TIE = 1e-10  # bonuses relatively this close count as equal, and the lowest index is taken
FALL = 1e-4  # a block ends when its best bonus fell by this factor: what is left then are cancelled digits
LOOSE = 1e-2  # float32 may loosen |h V| by this share of the root of the best bonus; else that block falls in float64
COMPACT = 0.9  # the rows outside are copied together when only this share of them is left


def elliptical_order(h: NDArray[Any], lam: float, first: int | None) -> Iterator[int]:
    """All n row indices, greedily, ties to the lowest; `first` is picked first if given.

    h (n, d), any float dtype, finite; not changed. Lazy: a block of picks is worked out when its first is pulled.
    """
    greedy = _Greedy(*_distinct(h), lam)
    forced = None if first is None else greedy.copies.move_up(first)
    while greedy.copies.left.any():
        outside = greedy.activate(forced)
        yield from greedy.pick(outside, forced)
        forced = None


@dataclass
class _Copies:
    """Which indices share a row: those of row r are members[start[r]:][:left[r]], the next to be picked first."""

    members: Ints  # (n,)
    start: Ints  # (rows,)
    left: Ints  # (rows,)

    def pop(self, row: int) -> int:
        index = self.members[self.start[row]]
        self.start[row] += 1
        self.left[row] -= 1
        return int(index)

    def move_up(self, index: int) -> int:
        """Make the index the next of its row; returns the row."""
        at = int(np.flatnonzero(self.members == index)[0])
        row = int(np.searchsorted(self.start, at, side="right")) - 1
        head = self.start[row]
        self.members[head : at + 1] = np.roll(self.members[head : at + 1], 1)
        return row


def _distinct(h: NDArray[Any]) -> tuple[Float64s, _Copies]:
    """The distinct rows (rows, min(rows, d)), rotated into their span if they are fewer than d, and who shares them."""
    members = np.arange(len(h))
    copies = _Copies(members, members.copy(), np.ones_like(members))
    rows = h
    if len(np.unique(_items(h[:, :8]))) < len(h):  # else a few columns tell all rows apart, at a tenth of the cost
        _, index, inverse, left = np.unique(_items(h), return_index=True, return_inverse=True, return_counts=True)
        copies = _Copies(np.argsort(inverse, kind="stable"), np.cumsum(left) - left, left)
        rows = h[index]
    rows = np.asarray(rows, np.float64)
    if len(rows) < rows.shape[1]:
        rows = np.ascontiguousarray(np.asarray(np.linalg.qr(rows.T, mode="r")).T)
    return rows, copies


def _items(h: NDArray[Any]) -> NDArray[np.void]:
    """Each row as one item, (n,)."""
    return np.ascontiguousarray(h).view(np.dtype((np.void, h.shape[1] * h.itemsize)))[:, 0]


class _Greedy:
    """The state between blocks."""

    def __init__(self, h: Float64s, copies: _Copies, lam: float) -> None:
        rows, d = h.shape
        self.h, self.copies = h, copies
        self.factor = np.eye(d) / np.sqrt(lam)  # F (d, d): Λ = F Fᵀ
        self.bound = _squares(h) / lam  # (rows,) at least each row's bonus; -inf once used up
        self.picks = 0
        self.active: Ints = np.empty(0, np.intp)  # (m,)
        self.g: Float64s = np.empty((0, d))  # (m, d) = h[active] F
        self.exact = np.zeros(rows, np.bool_)  # whose bound is the bonus itself
        self.outside = _Outside(h)

    def activate(self, forced: int | None) -> float:
        """Renew the active set, with exact bonuses for all in it; returns the largest bound outside."""
        chosen = self._largest()
        if forced is not None:
            chosen[forced] = True
        stays = chosen[self.active]
        chosen[self.active] = False
        joins = np.flatnonzero(chosen)
        g = self.h[joins] @ self.factor
        self.bound[joins] = _squares(g)
        self.active = np.concatenate([self.active[stays], joins])
        self.g = np.concatenate([self.g[stays], g])
        rest = self.bound.copy()
        rest[self.active] = -np.inf
        outside = float(rest.max())
        if self.exact[
            joins
        ].all():  # bounds that kept the last active set from a pick were exact: no more to be learned
            outside = min(outside, float(self.bound[self.active].max()))
        self.exact[joins] = True
        return outside

    def _largest(self) -> NDArray[np.bool_]:
        """Which rows shall be active: the `size` largest bounds, and those active now among the 2 * size largest."""
        rows, size = len(self.bound), min(ACTIVE, FEW + self.picks)
        if np.count_nonzero(self.copies.left) <= 2 * size:
            return np.asarray(self.copies.left > 0)
        stay, enter = np.partition(self.bound, [rows - 2 * size, rows - size])[[rows - 2 * size, rows - size]]
        chosen: NDArray[np.bool_] = self.bound > enter * (1 + TIE)
        tied = np.flatnonzero((self.bound >= enter * (1 - TIE)) & ~chosen)
        heads = self.copies.members[self.copies.start[tied]]
        chosen[tied[np.argsort(heads)[: size - np.count_nonzero(chosen)]]] = True
        chosen[self.active[self.bound[self.active] >= stay]] = True
        return chosen

    def pick(self, outside: float, forced: int | None) -> Iterator[int]:
        """A block of picks: from the active set, while its best bonus beats the largest bound outside."""
        m, copies = len(self.active), self.copies
        bonus = _squares(self.g)
        heads = copies.members[copies.start[self.active]]  # of equal bonuses the lowest index is taken
        w = np.empty((m, m))  # (picks, m): the rows of Lᵀ
        picked: list[int] = []
        scale: list[float] = []  # the diagonal of L
        least = max(outside * (1 - 3 * TIE), FALL * float(bonus.max()))
        while (t := len(picked)) < m:
            best = float(bonus.max())
            if t == 0 and forced is not None:
                j = int(np.flatnonzero(self.active == forced)[0])
            elif best < least or best == -np.inf:
                break
            else:
                j = int(np.where(bonus >= best * (1 - TIE), heads, len(copies.members)).argmin())
            row = int(self.active[j])
            yield copies.pop(row)
            picked.append(j)
            scale.append(float(np.sqrt(1 + bonus[j])))
            np.divide(self.g @ self.g[j] - w[:t, j] @ w[:t], scale[t], out=w[t])
            bonus -= w[t] ** 2
            if copies.left[row]:
                heads[j] = copies.members[copies.start[row]]
            else:
                bonus[j] = -np.inf
        if picked:
            self._commit(np.array(picked), np.array(scale), w[: len(picked)])

    def _commit(self, picked: Ints, scale: Float64s, w: Float64s) -> None:
        """Take the picks (t,) into F, G and all bounds; scale (t,), w (t, m)."""
        self.picks += len(picked)
        lower = np.tril(w[:, picked].T, -1)
        np.fill_diagonal(lower, scale)
        g_picked = self.g[picked]  # (t, d)
        v = _solve(lower, g_picked @ self.factor.T)  # (t, d) = Vᵀ
        z = _solve(lower + np.eye(len(picked)), g_picked)  # (t, d)
        _subtract(self.factor, v, z)
        _subtract(self.g, w, z)
        bonus = np.where(self.copies.left[self.active] > 0, _squares(self.g), -np.inf)
        self.bound[self.active] = bonus
        self.outside.fall(self.bound, v, best=float(bonus.max()))
        self.bound[self.active] = bonus
        self.exact[:] = False
        self.exact[self.active] = True


class _Outside:
    """The rows as float32, for the falling bounds; copied together now and then as picked ones drop out."""

    def __init__(self, h: Float64s) -> None:
        self.h = h
        self.rows = np.arange(len(h))
        self.norm = np.sqrt(_squares(h))
        self.size = max(float(self.norm.max()), np.finfo(np.float64).tiny)
        self.single = np.empty(h.shape, np.float32)  # h / size, so that no product leaves the range of float32
        np.divide(h, self.size, out=self.single, casting="same_kind")

    def fall(self, bound: Float64s, v: Float64s, best: float) -> None:
        """Lower the bounds by |h V|², or by less where rounding leaves that in doubt; v (t, d) = Vᵀ."""
        here = bound[self.rows]
        alive = here > -np.inf
        if np.count_nonzero(alive) < COMPACT * len(alive):
            self.rows, self.single, here = self.rows[alive], self.single[alive], here[alive]
        h: NDArray[Any] = self.single
        scale = self.size
        if best < 1e-30 or _rounding(h) * scale * np.linalg.norm(v) > LOOSE * np.sqrt(best):
            h, scale = self.h[self.rows], 1.0
        w = h @ (scale * v).astype(h.dtype).T  # (rows, t)
        unit = _rounding(h)
        fall = np.sqrt(_squares(w).astype(np.float64)) * (1 - unit) - unit * np.linalg.norm(v) * self.norm[self.rows]
        bound[self.rows] = here - np.maximum(fall, 0) ** 2


def _rounding(h: NDArray[Any]) -> float:
    """An inner product of length d errs by at most this times the two norms (d units, and one for each factor)."""
    eps = float(np.finfo(h.dtype).eps)
    return (h.shape[1] + 3) * eps / 2


def _solve(lower: Float64s, right: Float64s) -> Float64s:
    return np.ascontiguousarray(solve_triangular(lower, right, lower=True, check_finite=False))


def _subtract(from_: Float64s, left: Float64s, right: Float64s) -> None:
    """from_ -= leftᵀ right, in place: a temporary of that size would cost more than the product. from_ is C-ordered."""
    dgemm(-1.0, right.T, left.T, beta=1.0, c=from_.T, trans_b=True, overwrite_c=True)


def _squares(rows: NDArray[Any]) -> NDArray[Any]:
    """The squared norm of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
