"""Facility location: each pick lets the picks stand for the whole pool best.

    f(S) = Σ over all x of max over p in S of s(x, p)        pick the largest f(S + x) - f(S)

Greedy picks reach 1 - 1/e of the best f for every k (Nemhauser et al. 1978; Krause & Golovin, "Submodular function
maximization", 2014); as a way to choose representatives: Mirzasoleiman et al., "Distributed submodular maximization"
(NeurIPS 2013), arXiv:1411.0541. Similarities s >= 0:

    cosine      (1 + cos(x, p)) / 2
    rbf         exp(-|x - p|² / (2 bandwidth²)); the bandwidth is the median distance unless given
    euclidean   the largest |x - y|² of the pool, less |x - p|²; as in apricot

All n² similarities are kept, in float32: 164 MB for 6,400 responses, and they must be there before the first pick; the
gains are float64. We differ in cost only. The lazy greedy way (Minoux 1978) evaluates again the gains that may be the
best, some 10 to 20 a pick; a pick changes the sum's terms of some 7 responses on the average, so all gains are kept up
for less (see `facility_gains`). Copies of a pick gain nothing and come last, by index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.facility_gains import coverage_order
from .numerics.similarity import Gaussian, check_bandwidth, squared_distances, symmetric_matrix, unit_rows
from .numerics.vectors import Copies, vectors_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .numerics.vectors import Floats


@dataclass(frozen=True)
class FacilityLocation:
    """Facility location (Mirzasoleiman et al. 2013): each pick lets the picks stand for the whole pool best.

    `similarity`: "cosine", "rbf" (with `bandwidth`; none is the median distance) or "euclidean".
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()

    similarity: Literal["cosine", "rbf", "euclidean"] = "cosine"
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.similarity not in ("cosine", "rbf", "euclidean"):
            known = "'cosine', 'rbf' or 'euclidean'"
            raise HarnessError(f"facility-location: similarity must be {known}, got {self.similarity!r}")
        check_bandwidth("facility-location", self.bandwidth)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """All n indices, lazily; no draw. Ties go to the lowest index."""
        return self._order(vectors_of(pool, "facility-location"))

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """The rest; those verified stand for the pool already, and their copies come last."""
        return self._order(vectors_of(pool, "facility-location"), verified)

    def _order(self, h: Floats, verified: Sequence[int] = ()) -> Iterator[int]:
        copies = Copies(h)
        picked = list(dict.fromkeys(copies.row[index] for index in verified))
        order: list[int] = []
        if len(h):
            similarity, weight = self._similarities(h[copies.first]), copies.count.astype(np.float64)
            for row in coverage_order(similarity, weight, picked):
                order.append(copies.take(row))
                yield order[-1]
        yield from np.setdiff1d(np.arange(len(h)), [*verified, *order]).tolist()

    def _similarities(self, h: Floats) -> NDArray[np.float32]:
        """(n, n) float32, symmetric."""
        if self.similarity == "rbf":
            return symmetric_matrix(len(h), Gaussian.of(h, self.bandwidth).block)
        if self.similarity == "cosine":
            unit = unit_rows(h)
            return symmetric_matrix(len(h), lambda a, b: (1 + unit[a] @ unit[b].T) / 2)
        distance = squared_distances(h)
        return np.subtract(distance.max(), distance, out=distance)


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("facility-location", "harness_selectors.facility_location:FacilityLocation")
