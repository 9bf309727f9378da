"""Farthest-first traversal, the greedy max-min distance.

    d(x) = min over the picks p of |x - p|        pick the largest d

Gonzalez, "Clustering to minimize the maximum intercluster distance", Theor. Comput. Sci. 38 (1985): every prefix of k
picks has at most twice the radius of the best k centres. As "k-center greedy" it selects coresets in Sener & Savarese,
"Active Learning for Convolutional Neural Networks: A Core-Set Approach" (ICLR 2018), arXiv:1708.00489.

We differ only in cost: the same picks without n distances at each (see `nearest_pick`). What lies at distance 0, copies
of picks, comes last, by index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.nearest_pick import greedy_order
from .numerics.vectors import farthest_from_mean, vectors_of


@dataclass(frozen=True)
class KCenter:
    """Farthest-first traversal (Gonzalez 1985): each pick is the response farthest from those picked.

    `first`: "random" (one draw from the rng) or "max" (the one farthest from the pool's mean, no draw).
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()

    first: Literal["random", "max"] = "random"

    def __post_init__(self) -> None:
        if self.first not in ("random", "max"):
            raise HarnessError(f"kcenter: first must be 'random' or 'max', got {self.first!r}")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """All n indices, lazily. Ties go to the lowest index."""
        h = vectors_of(pool, "kcenter")  # (n, d)
        n = len(h)
        if n == 0:
            return iter(())
        first = int(rng.integers(n)) if self.first == "random" else farthest_from_mean(h)
        return greedy_order(h, base=np.zeros(n), weight=1.0, first=first)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """The rest, farthest first from those verified and from the picks; no draw."""
        h = vectors_of(pool, "kcenter")
        return greedy_order(h, base=np.zeros(len(h)), weight=1.0, first=verified[0], picked=verified)


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("kcenter", "harness_selectors.kcenter:KCenter")
