"""k-means and its kin: `kmeans-pp` ranks by D² sampling; `kmeans` and `kmedoids` choose k responses.

    kmeans-pp   P(x) = D(x)² / Σ D²        D(x) = min over the picks p of |x - p|; the first pick is uniform
    kmeans      minimise Σ over x of |x - centre of x's cluster|²; of each cluster the response nearest to its centre
    kmedoids    minimise Σ over x of min over the k chosen p of |x - p|

D² sampling: Arthur & Vassilvitskii, "k-means++: the advantages of careful seeding" (SODA 2007), where it seeds k-means.
Here it continues until all n are ranked. When all remaining responses are at distance 0 (copies of picks), they come in
random order. This is plain D² sampling, as in the paper: scikit-learn's `kmeans_plusplus` keeps the best of several
samples. We differ only in cost. D² never rises. So a block of proposals is sampled by the distances at the start of the
block, and each is accepted with the probability (D² now) / (D² then), which gives the same law as sampling by D² now.

k-means: Lloyd, "Least squares quantization in PCM" (IEEE Trans. Inf. Theory 28, 1982), by scikit-learn's KMeans, one
start by D² sampling. Only members of a cluster can represent it, so the k indices are distinct. Equal responses are one
point with a weight. Where k exceeds the number of distinct responses, all of these are taken, and then copies by index.
A cluster that ends empty is replaced by the response farthest from its own centre.

k-medoids: Schubert & Rousseeuw, "Fast and eager k-medoids clustering" (Information Systems 101, 2021),
arXiv:2008.05171, FasterPAM from a random start, by the authors' package kmedoids (extra `kmedoids`). The distances are
Euclidean, or with `metric=tanimoto` 1 - x·y / (|x|² + |y|² - x·y) of bits or counts, as they were before centring. All
n² are kept in float32: 164 MB for 6,400 responses.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Literal

import numpy as np

from harness import Pool

from .numerics.columns import Copies, Float64s, Floats, check_parameters, check_size, squared_norms, vectors_of
from .numerics.nearest_pick import NearestPick
from .numerics.similarity import Tanimoto, squared_distances, symmetric_matrix

BLOCK = 256  # proposals at a time; fewer while the distances fall fast, and when few responses remain


def reference_chances(h: Floats, picked: Sequence[int]) -> Float64s:
    """Return the probability of each row to be the next pick, (n,), from its definition, O(n k d) for k picks.

    It is uniform before the first pick, and over the rows not picked if all distances are 0.
    """
    rows = h.astype(np.float64)
    weight = np.ones(len(rows))
    if len(picked):
        weight = np.min([((rows - rows[p]) ** 2).sum(axis=1) for p in picked], axis=0)  # D²
    if not weight.any():
        weight[np.setdiff1d(np.arange(len(rows)), picked)] = 1
    return np.asarray(weight / weight.sum())


def reference_order(h: Floats, rng: np.random.Generator) -> list[int]:
    """Return all n indices by D² sampling as in the paper, one by one.

    `d2_order` must yield each order with the same probability. It uses the rng in another way, so orders for one seed
    differ.
    """
    order: list[int] = []
    while len(order) < len(h):
        order.append(int(rng.choice(len(h), p=reference_chances(h, order))))
    return order


@dataclass(frozen=True)
class KMeansPP:
    """D² sampling (Arthur & Vassilvitskii 2007): random picks; the farther from earlier picks, the more probable."""

    reads: ClassVar[tuple[str, ...]] = ()

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily."""
        h = vectors_of(pool, "kmeans-pp")  # (n, d)
        return d2_order(h, rng) if len(h) else iter(())

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified` by D² sampling that starts from the verified ones as its picks."""
        return d2_order(vectors_of(pool, "kmeans-pp"), rng, picked=verified)


def d2_order(h: Floats, rng: np.random.Generator, picked: Sequence[int] = ()) -> Iterator[int]:
    """Yield all n indices except those `picked` before, by D² sampling; h (n, d) finite, n >= 1.

    If any were `picked` before, they replace the uniform first pick.
    """
    nearest = NearestPick(h)
    block = [] if picked else [int(rng.integers(len(h)))]
    yield from block
    nearest.take(picked or block)
    picks = len(picked) or 1
    while (weight := np.where(nearest.unpicked, nearest.distance, 0.0)).any():  # (n,)
        size = min(BLOCK, 1 + picks // 2, 1 + (len(h) - picks) // 4)
        total = weight.cumsum()
        proposed = np.searchsorted(total, rng.random(size) * total[-1], side="right")
        limit = rng.random(size) * weight[proposed]  # a proposal is accepted if its D² now is above its limit
        at = nearest.at(proposed)
        too_near = nearest.near(at, at, limit)  # (size, size): whether D² of one to the other is at most its limit
        one, other = np.nonzero(too_near)
        too_near[one, other] = nearest.between(proposed[one], proposed[other]) <= limit[one]
        accepted = np.ones(size, np.bool_)
        for i in range(size):
            if accepted[i]:
                accepted[i + 1 :] &= ~too_near[i + 1 :, i]
        block = proposed[accepted].tolist()
        yield from block
        nearest.take(block)
        picks += len(block)
    yield from rng.permutation(np.flatnonzero(nearest.unpicked)).tolist()


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


@dataclass(frozen=True)
class KMeans:
    """k-means (Lloyd 1982), a subset method: of each of k clusters the response nearest to its centre.

    `max_iter`: rounds of Lloyd's algorithm at most.
    """

    reads: ClassVar[tuple[str, ...]] = ()

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

    `max_iter`: passes of FasterPAM at most. PAM ends when no swap of a chosen row for another lowers the sum.
    `metric`: "euclidean", or for bits and counts "tanimoto".
    """

    reads: ClassVar[tuple[str, ...]] = ()
    libraries: ClassVar[tuple[str, ...]] = ("kmedoids",)

    max_iter: int = 100
    metric: Literal["euclidean", "tanimoto"] = "euclidean"

    def __post_init__(self) -> None:
        check_parameters("kmedoids", self, max_iter=">= 1")

    def select(self, pool: Pool, k: int, rng: np.random.Generator) -> list[int]:
        """Return k distinct indices, ascending."""
        import kmedoids

        h = vectors_of(pool, "kmedoids")  # (n, d)
        check_size("kmedoids", k, len(h))
        seed = int(rng.integers(2**31))
        if self.metric == "tanimoto":
            distance = 1 - symmetric_matrix(len(h), Tanimoto.of(pool, "kmedoids").block)
        else:
            distance = np.sqrt(squared_distances(h))
        clustering = kmedoids.fasterpam(distance, k, max_iter=self.max_iter, random_state=seed, n_cpu=1)
        return sorted(int(index) for index in clustering.medoids)
