"""Facility location: each pick makes the picks represent the whole pool as well as possible.

    f(S) = Σ over all x of max over p in S of s(x, p)        pick the largest f(S + x) - f(S)

Greedy picks reach 1 - 1/e of the best f for every k (Nemhauser et al. 1978; Krause & Golovin, "Submodular function
maximization", 2014); as a way to choose representatives: Mirzasoleiman et al., "Distributed submodular maximization"
(NeurIPS 2013), arXiv:1411.0541. Similarities s >= 0:

    cosine      (1 + cos(x, p)) / 2
    rbf         exp(-|x - p|² / (2 bandwidth²)); the bandwidth is the median distance unless given
    euclidean   the largest |x - y|² of the pool minus |x - p|²; as in apricot
    tanimoto    x·p / (|x|² + |p|² - x·p) of bits or counts, as they were before centring (see `similarity`)

All n² similarities are kept in float32 (164 MB for 6,400 responses) and computed before the first pick; the gains are
float64. We differ only in cost. Lazy greedy (Minoux 1978) evaluates again the gains that may be the largest, some 10 to
20 a pick. But a pick changes the terms of some 7 responses on average, so it costs less to keep all gains up to date:
each falls by what those responses no longer contribute. Copies of a pick gain nothing and come last, by index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from harness import Pool

from .numerics.columns import TIE, Copies, Float64s, Ints, RanksAfter, check_parameters, vectors_of
from .numerics.similarity import Gaussian, Tanimoto, squared_distances, symmetric_matrix, unit_rows

FALL = 1e-3  # all gains are computed again when the largest fell by this factor, as many digits have cancelled
CHUNK = 128  # rows of similarities processed together


def reference_gains(similarity: Float64s, picked: Sequence[int]) -> Float64s:
    """Return f(S + x) - f(S) for every x, (n,), where S is `picked`; similarity (n, n)."""
    best = similarity[list(picked)].max(axis=0, initial=0)  # each row's similarity to its best pick
    return np.asarray(np.maximum(similarity - best[:, None], 0).sum(axis=0))


def reference_order(similarity: Float64s, picks: int) -> list[int]:
    """Return the first `picks` indices, each with the largest remaining gain: n² terms at every pick.

    `coverage_order` must pick the same. Its similarities are float32: gains that differ by less than 1e-6 of the
    largest, or 3e-7 of the largest possible sum, may come in another order.
    """
    order: list[int] = []
    while len(order) < picks:
        gain = reference_gains(similarity, order)
        gain[order] = -np.inf
        order.append(int(gain.argmax()))
    return order


def coverage_order(similarity: NDArray[np.float32], weight: Float64s, picked: Sequence[int] = ()) -> Iterator[int]:
    """Yield all n columns except those `picked` before: the largest gain first; when no gain remains, by index.

    similarity (n, n), symmetric, >= 0; weight (n,): how often each row counts. Late in the order ties are common: two
    rows that are each other's nearest gain the same. A tie goes to the most central column, the one with the largest
    gain as a first pick; then to the lowest index.
    """

    def gains(upper: NDArray[np.float32] | None, rows: Ints) -> Float64s:
        """The gain of every column from these rows; with `upper` (n,) at most up to that similarity."""
        gain = np.zeros(len(weight))
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            reached = similarity[part] if upper is None else np.minimum(similarity[part], upper[part][:, None])
            more = np.subtract(reached, covered[part, None], dtype=np.float64)
            gain += weight[part] @ np.maximum(more, 0, out=more)
        return gain

    every = np.arange(len(weight))
    covered = np.zeros(len(weight), np.float32)
    remaining = np.ones(len(weight), np.bool_)
    central = gain = gains(None, every)
    if len(picked):
        remaining[picked] = False
        covered = similarity[picked].max(axis=0)
        gain = gains(None, every)
    gain, renewed = gain.copy(), float(gain.max())
    while remaining.any():
        gain[~remaining] = -np.inf
        best = float(gain.max())
        if best < FALL * renewed:
            gain = np.where(remaining, gains(None, every), -np.inf)
            best = renewed = float(gain.max())
        if best <= 0:
            break
        tied = np.flatnonzero(gain >= best * (1 - TIE))
        pick = int(tied[(central[tied] >= central[tied].max() * (1 - TIE)).argmax()])
        remaining[pick] = False
        yield pick
        better = np.flatnonzero(similarity[pick] > covered)
        gain -= gains(similarity[pick], better)
        covered[better] = similarity[pick, better]
    yield from np.flatnonzero(remaining).tolist()


@dataclass(frozen=True)
class FacilityLocation(RanksAfter):
    """Facility location (Mirzasoleiman et al. 2013): each pick makes the picks represent the whole pool best.

    `similarity`: "cosine", "rbf" (with `bandwidth`; none is the median distance), "euclidean", or
    for bits and counts "tanimoto".
    """

    reads: ClassVar[tuple[str, ...]] = ()

    similarity: Literal["cosine", "rbf", "euclidean", "tanimoto"] = "cosine"
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        check_parameters("facility-location", self, bandwidth="> 0")

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Yield the indices not in `verified`; verified ones count as picks, and their copies come last."""
        h = vectors_of(pool, "facility-location")
        copies, order = Copies(h), list(verified)
        if len(h):
            picked = list(dict.fromkeys(copies.row[order]))
            similarity, weight = self.similarities(pool, copies.first), copies.count.astype(np.float64)
            for row in coverage_order(similarity, weight, picked):
                order.append(copies.take(row))
                yield order[-1]
        yield from np.setdiff1d(np.arange(len(h)), order).tolist()

    def similarities(self, pool: Pool, rows: Ints) -> NDArray[np.float32]:
        """Return s(x, p) of all pairs of these rows (m,) of the pool: (m, m), symmetric."""
        if self.similarity == "tanimoto":
            return symmetric_matrix(len(rows), Tanimoto.of(pool, "facility-location", rows).block)
        h = pool.embeddings[rows]
        if self.similarity == "rbf":
            return symmetric_matrix(len(h), Gaussian.of(h, self.bandwidth).block)
        if self.similarity == "cosine":
            unit = unit_rows(h)
            return symmetric_matrix(len(h), lambda a, b: (1 + unit[a] @ unit[b].T) / 2)
        distance = squared_distances(h)
        return np.asarray(np.subtract(distance.max(), distance, out=distance))
