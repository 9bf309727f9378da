"""k-medoids by FasterPAM: the k responses that all others are nearest to.

    minimise Σ over all x of min over the k chosen p of |x - p|

Schubert & Rousseeuw, "Fast and eager k-medoids clustering" (Information Systems 101, 2021), arXiv:2008.05171, from a
random start, by the authors' package kmedoids (extra `kmedoids`). The distances are Euclidean, all n² of them in
float32: 164 MB for 6,400 responses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.similarity import squared_distances
from .numerics.vectors import check_size, vectors_of


@dataclass(frozen=True)
class KMedoids:
    """k-medoids by FasterPAM (Schubert & Rousseeuw 2021), a subset method: the k that all others are nearest to.

    `max_iter`: passes of FasterPAM at most.
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()

    max_iter: int = 100

    def __post_init__(self) -> None:
        if self.max_iter < 1:
            raise HarnessError(f"kmedoids: max_iter must be >= 1, got {self.max_iter}")
        if find_spec("kmedoids") is None:
            raise HarnessError("kmedoids: needs the package kmedoids: pip install 'diversity-harness[kmedoids]'")

    def select(self, pool: Pool, k: int, rng: np.random.Generator) -> list[int]:
        """k distinct indices, ascending."""
        import kmedoids

        h = vectors_of(pool, "kmedoids")  # (n, d)
        check_size("kmedoids", k, len(h))
        distance, seed = squared_distances(h), int(rng.integers(2**31))
        np.sqrt(distance, out=distance)
        found = kmedoids.fasterpam(distance, k, max_iter=self.max_iter, random_state=seed, n_cpu=1)
        return sorted(int(index) for index in found.medoids)


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("kmedoids", "harness_selectors.kmedoids:KMedoids")
