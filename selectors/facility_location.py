"""Facility location: each pick makes the picks represent the whole pool as well as possible.

    f(S) = Σ over all x of max over p in S of s(x, p)        pick the largest f(S + x) - f(S)

Greedy picks reach 1 - 1/e of the best f for every k (Nemhauser et al. 1978; Krause & Golovin, "Submodular function
maximization", 2014); as a way to choose representatives: Mirzasoleiman et al., "Distributed submodular maximization"
(NeurIPS 2013), arXiv:1411.0541. Similarities s >= 0:

    cosine      (1 + cos(x, p)) / 2
    rbf         exp(-|x - p|² / (2 bandwidth²)); the bandwidth is the median distance unless given
    euclidean   the largest |x - y|² of the pool minus |x - p|²; as in apricot

All n² similarities are kept in float32 (164 MB for 6,400 responses) and computed before the first pick; the gains are
float64. We differ only in cost. Lazy greedy (Minoux 1978) evaluates again the gains that may be the largest, some 10 to
20 a pick. But a pick changes the terms of some 7 responses on average, so that it costs less to keep all gains up to
date (see `facility_gains`). Copies of a pick gain nothing and come last, by index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.facility_gains import coverage_order
from .numerics.similarity import (
    Gaussian,
    check_bandwidth,
    reference_cosines,
    reference_gaussian,
    squared_distances,
    symmetric_matrix,
    unit_rows,
)
from .numerics.vectors import Copies, vectors_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .numerics.vectors import Float64s, Floats


def reference_similarities(h: Floats, similarity: str) -> Float64s:
    """Return s(x, p) of all pairs of rows of h, (n, n), by the formulas of the module's docstring.

    `similarity`: "cosine", "rbf" (the bandwidth is the median distance) or "euclidean".
    """
    if similarity == "cosine":
        return (1 + reference_cosines(h)) / 2
    if similarity == "rbf":
        return reference_gaussian(h)
    rows = h.astype(np.float64)
    distance = np.array([((rows - row) ** 2).sum(axis=1) for row in rows])
    return np.asarray(distance.max() - distance)


def reference_gains(similarity: Float64s, picked: Sequence[int]) -> Float64s:
    """Return f(S + x) - f(S) for every x, (n,), where S is `picked`; similarity (n, n).

    f(S) is the sum over all rows of the largest similarity to a row in S.
    """
    best = similarity[list(picked)].max(axis=0, initial=0)  # each row's similarity to its best pick
    return np.asarray(np.maximum(similarity - best[:, None], 0).sum(axis=0))


def reference_order(similarity: Float64s, picks: int) -> list[int]:
    """Return the first `picks` indices, each with the largest remaining gain: n² terms at every pick.

    `facility_gains.coverage_order` must pick the same. Its similarities are float32: gains that differ by less than
    1e-6 of the largest, or 3e-7 of the largest possible sum, may come in another order.
    """
    order: list[int] = []
    while len(order) < picks:
        gain = reference_gains(similarity, order)
        gain[order] = -np.inf
        order.append(int(gain.argmax()))
    return order


@dataclass(frozen=True)
class FacilityLocation:
    """Facility location (Mirzasoleiman et al. 2013): each pick makes the picks represent the whole pool best.

    `similarity`: "cosine", "rbf" (with `bandwidth`; none is the median distance) or "euclidean".
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()

    similarity: Literal["cosine", "rbf", "euclidean"] = "cosine"
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.similarity not in ("cosine", "rbf", "euclidean"):
            names = "'cosine', 'rbf' or 'euclidean'"
            raise HarnessError(f"facility-location: similarity must be {names}, got {self.similarity!r}")
        check_bandwidth("facility-location", self.bandwidth)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily. No randomness; ties go to the most central response, then the lowest index."""
        return self._order(vectors_of(pool, "facility-location"))

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`; verified ones count as picks, and their copies come last."""
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
        """Return all similarities (n, n), symmetric; equal to `reference_similarities` up to rounding to float32."""
        if self.similarity == "rbf":
            return symmetric_matrix(len(h), Gaussian.of(h, self.bandwidth).block)
        if self.similarity == "cosine":
            unit = unit_rows(h)
            return symmetric_matrix(len(h), lambda a, b: (1 + unit[a] @ unit[b].T) / 2)
        distance = squared_distances(h)
        nearness: NDArray[np.float32] = np.subtract(distance.max(), distance, out=distance)
        return nearness


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("facility-location", "harness_selectors.facility_location:FacilityLocation")
