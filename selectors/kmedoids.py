"""k-medoids by FasterPAM: k responses such that every response is near one of them.

    minimise Σ over all x of min over the k chosen p of |x - p|

Schubert & Rousseeuw, "Fast and eager k-medoids clustering" (Information Systems 101, 2021), arXiv:2008.05171, from a
random start, by the authors' package kmedoids (extra `kmedoids`). The distances are Euclidean, all n² of them in
float32: 164 MB for 6,400 responses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.similarity import squared_distances
from .numerics.vectors import check_size, vectors_of

if TYPE_CHECKING:
    from .numerics.vectors import Floats


def reference_swap_gain(h: Floats, chosen: Sequence[int]) -> float:
    """Return by how much the best swap of a chosen row for another lowers the sum; <= 0 if none does. 1 <= k < n.

    h (n, d); `chosen` holds k indices. The sum is that of each row's distance to the nearest chosen row.

    PAM ends when no swap lowers the sum. So for the choice of `KMedoids.select` this must be at most the rounding of n
    float32 distances, if it ends within `max_iter` passes. The local minimum that it reaches depends on the start.
    """
    rows = h.astype(np.float64)
    distance = np.array([np.sqrt(((rows - row) ** 2).sum(axis=1)) for row in rows])  # (n, n)
    others = set(range(len(rows))) - set(chosen)
    swaps = [[new if p == old else p for p in chosen] for old in chosen for new in others]
    sums = [distance[:, swapped].min(axis=1).sum() for swapped in swaps]
    return float(distance[:, list(chosen)].min(axis=1).sum() - min(sums))


@dataclass(frozen=True)
class KMedoids:
    """k-medoids by FasterPAM (Schubert & Rousseeuw 2021), a subset method: every response is near one of the k.

    `max_iter`: passes of FasterPAM at most.
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()
    libraries: ClassVar[tuple[str, ...]] = ("kmedoids",)

    max_iter: int = 100

    def __post_init__(self) -> None:
        if self.max_iter < 1:
            raise HarnessError(f"kmedoids: max_iter must be >= 1, got {self.max_iter}")

    def select(self, pool: Pool, k: int, rng: np.random.Generator) -> list[int]:
        """Return k distinct indices, ascending."""
        import kmedoids

        h = vectors_of(pool, "kmedoids")  # (n, d)
        check_size("kmedoids", k, len(h))
        distance, seed = squared_distances(h), int(rng.integers(2**31))
        np.sqrt(distance, out=distance)
        clustering = kmedoids.fasterpam(distance, k, max_iter=self.max_iter, random_state=seed, n_cpu=1)
        return sorted(int(index) for index in clustering.medoids)


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("kmedoids", "harness_selectors.kmedoids:KMedoids")
