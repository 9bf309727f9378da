"""Subset methods by clusters: `kmeans`, of each of k clusters the response nearest to its centre, and `kmedoids`.

    kmeans      minimise Σ over x of |x - centre of x's cluster|²        by scikit-learn's KMeans, one start by D²
    kmedoids    minimise Σ over x of min over the k chosen p of |x - p|  by FasterPAM, from a random start

Lloyd, "Least squares quantization in PCM" (IEEE Trans. Inf. Theory 28, 1982); seeded as in `kmeans_pp`. Only members of
a cluster can represent it, so the k indices are distinct. Equal responses are one point with a weight. Where k exceeds
the number of distinct responses, all of these are taken, and then copies by index. A cluster that ends empty is
replaced by the response farthest from its own centre.

Schubert & Rousseeuw, "Fast and eager k-medoids clustering" (Information Systems 101, 2021), arXiv:2008.05171, by the
authors' package kmedoids (extra `kmedoids`). The distances are Euclidean, all n² of them in float32: 164 MB for 6,400
responses.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np

from harness import Pool

from .kmeans_pp import d2_order
from .numerics.columns import check_parameters, check_size, vectors_of
from .numerics.similarity import squared_distances
from .numerics.vectors import Copies, Floats, squared_norms


def reference_choice(h: Floats, start: Sequence[int]) -> list[int]:
    """Return the row nearest to the centre of each cluster that Lloyd's algorithm finds from the first centres `start`.

    h (n, d); start (k,): rows. Returns k indices, ascending; ties go to the lowest. The algorithm ends when the squared
    moves of the centres sum to at most 1e-4 of the mean variance, as in scikit-learn.

    `KMeans.select` must return the same for distinct rows, if no cluster ends empty and `max_iter` rounds are enough.
    Rounding may decide otherwise between rows equally near to a centre, as the two of a cluster of two are.
    """

    def distances(centres: Floats) -> Floats:
        return np.array([((rows - centre) ** 2).sum(axis=1) for centre in centres])  # (k, n), squared

    rows, k = h.astype(np.float64), len(start)
    centres, shift = rows[list(start)], np.inf
    while shift > 1e-4 * rows.var(axis=0).mean():
        label = distances(centres).argmin(axis=0)
        means = np.array([rows[label == c].mean(axis=0) for c in range(k)])
        shift, centres = ((means - centres) ** 2).sum(), means
    distance = distances(centres)
    label = distance.argmin(axis=0)
    return sorted(int(np.where(label == c, distance[c], np.inf).argmin()) for c in range(k))


def reference_swap_gain(h: Floats, chosen: Sequence[int]) -> float:
    """Return by how much the best swap of a chosen row for another lowers k-medoids' sum; <= 0 if none does.

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
class KMeans:
    """k-means (Lloyd 1982), a subset method: of each of k clusters the response nearest to its centre.

    `max_iter`: rounds of Lloyd's algorithm at most.
    """

    max_iter: int = 300

    def __post_init__(self) -> None:
        check_parameters("kmeans", self, max_iter=">= 1")

    def select(self, pool: Pool, k: int, rng: np.random.Generator) -> list[int]:
        """Return k distinct indices, ascending; ties go to the lowest."""
        from sklearn import cluster
        from sklearn.exceptions import ConvergenceWarning

        h = vectors_of(pool, "kmeans")  # (n, d)
        check_size("kmeans", k, len(h))
        copies = Copies(h)
        if k >= len(copies.first):
            more = np.setdiff1d(np.arange(len(h)), copies.first)[: k - len(copies.first)]
            return sorted([*copies.first.tolist(), *more.tolist()])
        rows = h[copies.first].astype(np.result_type(h, np.float32), copy=False)  # (m, d) distinct
        start = rows[list(islice(d2_order(rows, rng), k))]
        kmeans = cluster.KMeans(k, init=start, n_init=1, max_iter=self.max_iter, random_state=0)  # fixed by `start`
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer clusters than k: other rows are added below
            label = kmeans.fit(rows, sample_weight=copies.count).labels_
        distance = squared_norms(np.subtract(rows, kmeans.cluster_centers_[label], dtype=np.float64))
        by_cluster = np.lexsort((distance, label))  # stable: equal distances stay in the order of the rows
        chosen = by_cluster[np.unique(label[by_cluster], return_index=True)[1]]  # the nearest of each
        others = np.setdiff1d(np.arange(len(rows)), chosen)
        farthest = others[np.argsort(-distance[others], kind="stable")[: k - len(chosen)]]
        return sorted(copies.first[np.concatenate([chosen, farthest])].tolist())


@dataclass(frozen=True)
class KMedoids:
    """k-medoids by FasterPAM (Schubert & Rousseeuw 2021), a subset method: every response is near one of the k.

    `max_iter`: passes of FasterPAM at most.
    """

    libraries: ClassVar[tuple[str, ...]] = ("kmedoids",)

    max_iter: int = 100

    def __post_init__(self) -> None:
        check_parameters("kmedoids", self, max_iter=">= 1")

    def select(self, pool: Pool, k: int, rng: np.random.Generator) -> list[int]:
        """Return k distinct indices, ascending."""
        import kmedoids

        h = vectors_of(pool, "kmedoids")  # (n, d)
        check_size("kmedoids", k, len(h))
        distance, seed = squared_distances(h), int(rng.integers(2**31))
        np.sqrt(distance, out=distance)
        clustering = kmedoids.fasterpam(distance, k, max_iter=self.max_iter, random_state=seed, n_cpu=1)
        return sorted(int(index) for index in clustering.medoids)
