"""RepExp: order responses by the elliptical bonus of their representations: each pick is the most novel one left.

    Λ₀ = I / lam                                              cov_inv, (d, d)
    bonus(h) = hᵀ Λ h
    pick the largest bonus; Λ ← Λ − Λ h hᵀ Λ / (1 + hᵀ Λ h)   for the h just picked
    so Λ⁻¹ = lam I + Σ h hᵀ over the picks

Tuyls, Foster, Krishnamurthy, Ash, "Representation-Based Exploration for Language Models" (2025), arXiv:2510.11686,
Algorithm 1: h is the mean hidden state of a response, projected to 512 dimensions, then centred per problem; lam = 1;
the first pick is uniform at random. log det(I + H_S H_Sᵀ / lam) grows by log(1 + bonus) with each pick, so this is
greedy log-determinant maximisation: the greedy MAP of a DPP with the kernel I + H Hᵀ / lam.

Two differences. The algorithm as printed takes the argmax over all responses, those picked before included: ours is
over those not yet picked, since the paper's samples-to-correct and its baseline are without replacement (a pick's bonus
falls below 1, so the two differ only where every other bonus is lower still). And the same picks are found without
renewing n quadratic forms at each (see `elliptical`; for many pools at once on a GPU `elliptical_batch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.elliptical import elliptical_order
from .numerics.vectors import vectors_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

MANY = 16  # pools at once on a GPU: 16 of 6,400 x 512 with 5 trials take 0.6 GB


@dataclass(frozen=True)
class RepExp:
    """RepExp (Tuyls et al. 2025): each pick has the largest elliptical bonus given the picks before.

    `first`: "random" (the paper's, one draw from the rng) or "max" (no draw). `device`: a torch device, e.g. cuda,
    ranks many pools there at once; none is this machine's CPU, one pool after the other.
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()
    bonus: ClassVar[str] = "elliptical bonus"

    lam: float = 1.0
    first: Literal["random", "max"] = "random"
    device: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.lam < np.inf:
            raise HarnessError(f"repexp: lam must be > 0{' and finite' * (self.lam > 0)}, got {self.lam}")
        if self.first not in ("random", "max"):
            raise HarnessError(f"repexp: first must be 'random' or 'max', got {self.first!r}")
        if self.device:
            from .numerics.elliptical_batch import torch_device

            torch_device(self.device)  # refused now rather than after the pool is drawn

    @property
    def many(self) -> int:
        """How many pools `rank_many` takes best at once."""
        return MANY if self.device else 1

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """All n indices, lazily. Ties go to the lowest index."""
        if self.device:
            return self.rank_many([pool], [[rng]])[0][0]
        h = vectors_of(pool, "repexp")  # (n, d)
        n = len(h)
        if n == 0:
            return iter(())
        first = int(rng.integers(n)) if self.first == "random" else None
        return elliptical_order(h, self.lam, first)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """The order of the rest, given the picks `verified`: the covariance starts from them, and nothing is drawn."""
        if not len(verified):
            return self.rank(pool, rng)
        return elliptical_order(vectors_of(pool, "repexp"), self.lam, picked=verified)

    def rank_many(
        self, pools: Sequence[Pool], rngs: Sequence[Sequence[np.random.Generator]]
    ) -> list[list[Iterator[int]]]:
        """An order of each pool for each of its rngs, all worked out together on the device."""
        from .numerics.elliptical_batch import BatchedOrders, longest_rows, torch_device

        device = torch_device(self.device or "cpu")
        orders: list[list[Iterator[int]]] = [[] for _ in pools]
        shapes = [vectors_of(pool, "repexp").shape for pool in pools]
        for shape in dict.fromkeys(shapes):
            places = [place for place, other in enumerate(shapes) if other == shape]
            h = np.stack([pools[place].embeddings for place in places])
            drawn = [[int(rng.integers(shape[0])) for rng in rngs[place]] for place in places if self.first == "random"]
            first = np.array(drawn) if drawn else longest_rows(h, len(rngs[places[0]]))
            batch = BatchedOrders(h, self.lam, first, device)
            for row, place in enumerate(places):
                orders[place] = [batch.order(row, trial) for trial in range(first.shape[1])]
        return orders

    def bonuses(self, h: NDArray[np.floating]) -> list[float]:
        """The bonus of each row of h (m, d) given the rows above it: of picks in their order, what each was picked for.

        The pivots of I + H Hᵀ / lam are 1 + bonus, since its determinant grows by that factor with each row.
        """
        rows = np.asarray(h, np.float64)
        pivots = np.diag(np.linalg.cholesky(np.eye(len(rows)) + rows @ rows.T / self.lam)) ** 2
        return [max(0.0, float(pivot) - 1) for pivot in pivots]


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("repexp", "harness_selectors.repexp:RepExp")
