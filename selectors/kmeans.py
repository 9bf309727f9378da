"""k-means: k clusters, and from each the response nearest to its centre.

    minimise Σ over x of |x - centre of x's cluster|²        by scikit-learn's KMeans, one start by D² sampling

Lloyd, "Least squares quantization in PCM" (IEEE Trans. Inf. Theory 28, 1982); seeded as in `kmeans_pp`. Only members of
a cluster can represent it, so the k indices are distinct. Equal responses are one point with a weight. Where k exceeds
the number of distinct responses, all of these are taken, and then copies by index. A cluster that ends empty is
replaced by the response farthest from its own centre.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .kmeans_pp import d2_order
from .numerics.vectors import Copies, check_size, squared_norms, vectors_of

if TYPE_CHECKING:
    from .numerics.vectors import Floats, Ints


def reference_choice(h: Floats, start: Sequence[int]) -> list[int]:
    """Return the row nearest to the centre of each cluster that Lloyd's algorithm finds from the first centres `start`.

    h (n, d); start (k,): rows. Returns k indices, ascending; ties go to the lowest. The algorithm ends when the squared
    moves of the centres sum to at most 1e-4 of the mean variance, as in scikit-learn.

    `KMeans.select` must return the same for distinct rows, if no cluster ends empty and `max_iter` rounds are enough.
    Rounding may decide otherwise between rows equally near to a centre, as the two of a cluster of two are.
    """
    rows, k = h.astype(np.float64), len(start)
    centres, shift = rows[list(start)], np.inf
    while shift > 1e-4 * rows.var(axis=0).mean():
        label = _reference_distances(rows, centres).argmin(axis=0)
        means = np.array([rows[label == c].mean(axis=0) for c in range(k)])
        shift, centres = ((means - centres) ** 2).sum(), means
    distance = _reference_distances(rows, centres)
    label = distance.argmin(axis=0)
    return sorted(int(np.where(label == c, distance[c], np.inf).argmin()) for c in range(k))


def _reference_distances(rows: Floats, centres: Floats) -> Floats:
    """Return the squared distance of every row to every centre, (k, n)."""
    return np.array([((rows - centre) ** 2).sum(axis=1) for centre in centres])


@dataclass(frozen=True)
class KMeans:
    """k-means (Lloyd 1982), a subset method: of each of k clusters the response nearest to its centre.

    `max_iter`: rounds of Lloyd's algorithm at most.
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()

    max_iter: int = 300

    def __post_init__(self) -> None:
        if self.max_iter < 1:
            raise HarnessError(f"kmeans: max_iter must be >= 1, got {self.max_iter}")

    def select(self, pool: Pool, k: int, rng: np.random.Generator) -> list[int]:
        """Return k distinct indices, ascending."""
        h = vectors_of(pool, "kmeans")  # (n, d)
        check_size("kmeans", k, len(h))
        copies = Copies(h)
        if k >= len(copies.first):
            more = np.setdiff1d(np.arange(len(h)), copies.first)[: k - len(copies.first)]
            return sorted([*copies.first.tolist(), *more.tolist()])
        rows = h[copies.first].astype(np.result_type(h, np.float32), copy=False)
        return sorted(copies.first[_nearest_to_centres(rows, copies.count, k, self.max_iter, rng)].tolist())


def _nearest_to_centres(rows: Floats, weight: Ints, k: int, max_iter: int, rng: np.random.Generator) -> Ints:
    """Return k rows, one of each cluster; rows (m, d) distinct, weight (m,), k < m; ties go to the lowest row."""
    from sklearn import cluster
    from sklearn.exceptions import ConvergenceWarning

    start = rows[list(islice(d2_order(rows, rng), k))]
    kmeans = cluster.KMeans(k, init=start, n_init=1, max_iter=max_iter, random_state=0)  # `start` fixes the result
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer clusters than k: other rows are added below
        label = kmeans.fit(rows, sample_weight=weight).labels_
    distance = squared_norms(np.subtract(rows, kmeans.cluster_centers_[label], dtype=np.float64))
    by_cluster = np.lexsort((distance, label))  # stable: equal distances stay in the order of the rows
    _, nearest = np.unique(label[by_cluster], return_index=True)
    chosen = by_cluster[nearest]
    not_chosen = np.setdiff1d(np.arange(len(rows)), chosen)
    farthest = not_chosen[np.argsort(-distance[not_chosen], kind="stable")[: k - len(chosen)]]
    return np.concatenate([chosen, farthest])


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("kmeans", "harness_selectors.kmeans:KMeans")
