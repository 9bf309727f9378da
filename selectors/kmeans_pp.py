"""D² sampling, the seeding of k-means++: random picks, with probability ∝ the squared distance from earlier picks.

    P(x) = D(x)² / Σ D²        D(x) = min over the picks p of |x - p|;  the first pick is uniform

Arthur & Vassilvitskii, "k-means++: the advantages of careful seeding" (SODA 2007), where it seeds k-means. Here it
continues until all n are ranked. When all remaining responses are at distance 0 (copies of picks), they come in random
order. This is plain D² sampling, as in the paper: scikit-learn's `kmeans_plusplus` keeps the best of several samples.

We differ only in cost. D² never rises. So a block of proposals is sampled by the distances at the start of the block,
and each is accepted with the probability (D² now) / (D² then), which gives the same law as sampling by D² now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness import Pool

from .numerics.columns import vectors_of
from .numerics.nearest_pick import NearestPick
from .numerics.vectors import Float64s, Floats

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
