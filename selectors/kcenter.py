"""Farthest-first traversal, the greedy max-min distance.

    d(x) = min over the picks p of |x - p|        pick the largest d

Gonzalez, "Clustering to minimize the maximum intercluster distance", Theor. Comput. Sci. 38 (1985): every prefix of k
picks has at most twice the radius of the best k centres. As "k-center greedy" it selects coresets in Sener & Savarese,
"Active Learning for Convolutional Neural Networks: A Core-Set Approach" (ICLR 2018), arXiv:1708.00489.

With `metric=tanimoto` |x - p| is 1 - x·p / (|x|² + |p|² - x·p), of bits or counts, as they were before centring. Such
a traversal is also known as MaxMin picking (Ashton et al., QSAR 21, 2002).

We differ only in cost: the same picks without n distances at each (see `nearest_pick`; Tanimoto computes them).
Responses at distance 0, copies of picks, come last, by index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from harness import Pool

from .numerics.columns import Float64s, Floats, check_parameters, farthest_from_mean, vectors_of
from .numerics.nearest_pick import greedy_order
from .numerics.similarity import Tanimoto


def reference_order(h: Floats, picked: Sequence[int]) -> list[int]:
    """Return all n indices by farthest-first traversal as in Gonzalez (1985): n distances a pick, O(n² d) in all.

    h (n, d). `picked`: the first pick, or all earlier picks; they come first. Ties go to the lowest index.
    """
    rows = h.astype(np.float64)
    distance = np.full(len(rows), np.inf)  # squared, to the nearest pick
    order: list[int] = []
    while len(order) < len(rows):
        order.append(picked[len(order)] if len(order) < len(picked) else int(distance.argmax()))
        distance = np.minimum(distance, ((rows - rows[order[-1]]) ** 2).sum(axis=1))
        distance[order[-1]] = -np.inf
    return order


def reference_distances(h: Floats, picked: Sequence[int]) -> Float64s:
    """Return the squared distance of every row to the nearest row in `picked`, at least one, (n,), in float64."""
    rows = h.astype(np.float64)
    return np.asarray(np.min([((rows - rows[p]) ** 2).sum(axis=1) for p in picked], axis=0))


@dataclass(frozen=True)
class KCenter:
    """Farthest-first traversal (Gonzalez 1985): each pick is the response farthest from those picked.

    `first`: "random" (uniform) or "max" (the response farthest from the pool's mean, no randomness). `metric`:
    "euclidean", or for bits and counts "tanimoto".
    """

    reads: ClassVar[tuple[str, ...]] = ()

    first: Literal["random", "max"] = "random"
    metric: Literal["euclidean", "tanimoto"] = "euclidean"

    def __post_init__(self) -> None:
        check_parameters("kcenter", self)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily. Copies of picks come by index; for other ties see `nearest_pick`."""
        h = vectors_of(pool, "kcenter")  # (n, d)
        if not len(h):
            return iter(())
        first = int(rng.integers(len(h))) if self.first == "random" else farthest_from_mean(h)
        return self._order(pool, first)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`, farthest first from the verified ones and the picks. No randomness."""
        return self._order(pool, verified[0], verified)

    def _order(self, pool: Pool, first: int, picked: Sequence[int] = ()) -> Iterator[int]:
        base = np.zeros(len(pool))
        if self.metric == "tanimoto":
            return Tanimoto.of(pool, "kcenter").order(base, 1.0, first, picked)
        return greedy_order(vectors_of(pool, "kcenter"), base, 1.0, first, picked)
