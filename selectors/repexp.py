"""RepExp: order responses by the elliptical bonus of their vectors; each pick is the most novel remaining response.

    Λ₀ = I / lam                                              cov_inv, (d, d)
    bonus(h) = hᵀ Λ h
    pick the largest bonus; Λ ← Λ - Λ h hᵀ Λ / (1 + hᵀ Λ h)   for the h just picked
    so Λ⁻¹ = lam I + Σ h hᵀ over the picks

Tuyls, Foster, Krishnamurthy, Ash, "Representation-Based Exploration for Language Models" (2025), arXiv:2510.11686,
Algorithm 1: h is the mean hidden state of a response, projected to 512 dimensions, then centred per problem; lam = 1;
the first pick is uniform at random. log det(I + H_S H_Sᵀ / lam) grows by log(1 + bonus) with each pick. So this is
greedy log-determinant maximisation, the greedy MAP of a DPP with the kernel I + H Hᵀ / lam.

We differ in two ways. The algorithm as printed takes the argmax over all responses, also those picked before. Ours
takes it over those not yet picked, because the paper's samples-to-correct and its baseline are without replacement.
(The bonus of a pick falls below 1. On short vectors every other one is soon lower still: docs/paper.md counts it.) And
we compute the same picks without n quadratic forms at each: see `elliptical`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import solve_triangular

from harness import Pool

from .numerics.columns import Float64s, Floats, check_parameters, vectors_of
from .numerics.elliptical import elliptical_order


def reference_order(h: Floats, lam: float, picked: Sequence[int]) -> list[int]:
    """Return all n indices by Algorithm 1, over the rows not yet picked: all n bonuses at every pick, O(n² d²) in all.

    h (n, d). `picked`: the first pick, all earlier picks, or none; they come first.
    """
    rows = h.astype(np.float64)
    cov_inv = np.eye(h.shape[1]) / lam
    order: list[int] = []
    while len(order) < len(rows):
        bonus = ((rows @ cov_inv) * rows).sum(axis=1)
        bonus[order] = -np.inf
        order.append(picked[len(order)] if len(order) < len(picked) else int(bonus.argmax()))
        row = rows[order[-1]]
        v = cov_inv @ row
        cov_inv -= np.outer(v, v) / (1 + row @ v)
    return order


def reference_bonuses(h: Floats, lam: float, picked: Sequence[int]) -> Float64s:
    """Return the bonus of every row (n,) from its definition: hᵀ (lam I + Σ h_i h_iᵀ)⁻¹ h, summed over rows `picked`.

    With R of the QR factors of [√lam I; H_picked] it is |R⁻ᵀ h|². Forming the sum would lose half of the digits.
    """
    rows = h.astype(np.float64)
    r = np.linalg.qr(np.vstack([np.sqrt(lam) * np.eye(h.shape[1]), rows[list(picked)]]), mode="r")
    return np.asarray((solve_triangular(r, rows.T, trans="T") ** 2).sum(axis=0))


@dataclass(frozen=True)
class RepExp:
    """RepExp (Tuyls et al. 2025): each pick has the largest elliptical bonus given the earlier picks.

    `lam`: the bonus is hᵀ (lam I + Σ p pᵀ)⁻¹ h, summed over the picks p. `first`: "random" (uniform, as in the paper)
    or "max" (the largest bonus, no randomness).
    """

    reads: ClassVar[tuple[str, ...]] = ()
    bonus: ClassVar[str] = "elliptical bonus"

    lam: float = 1.0
    first: Literal["random", "max"] = "random"

    def __post_init__(self) -> None:
        check_parameters("repexp", self, lam="> 0")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily. Equal rows come by index; for other ties see `elliptical`."""
        h = vectors_of(pool, "repexp")  # (n, d)
        first = int(rng.integers(len(h))) if len(h) and self.first == "random" else None
        return elliptical_order(h, self.lam, first)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`, by their bonus given the verified ones and the picks. No randomness.

        Without any verified response it is `rank`.
        """
        if not len(verified):
            return self.rank(pool, rng)
        return elliptical_order(vectors_of(pool, "repexp"), self.lam, picked=verified)

    def bonuses(self, h: Floats) -> list[float]:
        """Return the bonus of each row of h (m, d), given the rows above: for picks in order, the bonus at their turn.

        The pivots of I + H Hᵀ / lam are 1 + bonus, because its determinant grows by that factor with each row.
        """
        rows = np.asarray(h, np.float64)
        pivots = np.diag(np.linalg.cholesky(np.eye(len(rows)) + rows @ rows.T / self.lam)) ** 2
        return [max(0.0, float(pivot) - 1) for pivot in pivots]
