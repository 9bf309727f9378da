"""Similarities between rows: cosine, Tanimoto, and the Gaussian kernel with the median distance as its bandwidth.

Tanimoto, for bits and counts: x·y / (|x|² + |y|² - x·y); a zero row has 0 with other rows and 1 with zero rows. On bits
it is the share of the bits of either row that both have. For counts the field has two forms of it: this one, and
Σ min / Σ max (MinMax; Ralaivola et al., "Graph kernels for chemical informatics", Neural Networks 18, 2005). We take
the first, as GAUCHE does (Griffiths et al. 2022, arXiv:2212.04450): it costs one matrix product, MinMax n² d minima.
Both are positive definite (Tripp et al. 2023, arXiv:2306.14809).

Cosine: x·y / (|x| |y|); a zero row has 0 with other rows and 1 with zero rows. Gaussian: exp(-|x - y|² / (2
bandwidth²)); the median is that of the distances between two distinct rows (Garreau, Jitkrittum & Kanagawa 2017,
arXiv:1707.07269). Both are exact to 1e-9 for rows that are not almost equal, and `symmetric_matrix` up to rounding to
float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import HarnessError, Pool

from .columns import TIE, Float64s, Floats, squared_norms, vectors_of

SAMPLE = 1024  # the median is taken over at most so many rows
CHUNK = 256  # rows of a matrix computed at a time
CANCELLED = 1e4  # if |x|² + |y|² - 2 x·y is smaller than |x|² by this factor, slow but exact differences replace it


def unit_rows(h: Floats) -> Float64s:
    """Return the rows (n, d) in float64 at length 1, so that a·b is the cosine and |a - b|² = 2 - 2 cosine.

    Zero rows get one more dimension.
    """
    length = np.abs(h).max(axis=1, initial=0).astype(np.float64)  # (n,)
    zero = length == 0
    unit = h / np.where(zero, 1.0, length)[:, None]  # so that no square overflows
    unit /= np.sqrt(squared_norms(unit) + zero)[:, None]
    return np.column_stack([unit, zero]) if zero.any() else unit


@dataclass(frozen=True)
class Gaussian:
    """The Gaussian kernel between rows of h, computed by blocks."""

    rows: Float64s  # (n, d), centred and in units of √2 bandwidth
    norm: Float64s  # (n,) squared

    @classmethod
    def of(cls, h: Floats, bandwidth: float | None) -> Gaussian:
        """Return the kernel on the rows of h, which are distinct; None is the median distance."""
        rows = centred(h)
        rows /= np.sqrt(2) * (median_distance(rows) if bandwidth is None else bandwidth)
        return cls(rows, squared_norms(rows))

    def part(self, rows: Any) -> Gaussian:
        """Return the kernel between some of the rows."""
        return Gaussian(self.rows[rows], self.norm[rows])

    def block(self, left: Any, right: Any) -> Float64s:
        """Return the kernel (a, b) between the rows with the indices `left` (a,) and `right` (b,)."""
        if self.norm.max(initial=0) > CANCELLED:
            from scipy.spatial.distance import cdist

            return np.asarray(np.exp(-cdist(self.rows[left], self.rows[right], "sqeuclidean")))
        power = self.rows[left] @ self.rows[right].T
        power *= 2
        power -= self.norm[left][:, None]
        power -= self.norm[right]
        return np.asarray(np.exp(np.minimum(power, 0, out=power), out=power))


@dataclass(frozen=True)
class Tanimoto:
    """The Tanimoto kernel between rows of bits or counts, computed by blocks; as `Gaussian`."""

    rows: Float64s  # (n, d), >= 0
    norm: Float64s  # (n,) squared

    @classmethod
    def of(cls, pool: Pool, selector: str, rows: Any = slice(None)) -> Tanimoto:
        """Return the kernel on these rows of a pool, before their mean was subtracted.

        HarnessError if one has an entry below 0: it is no row of bits or counts.
        """
        vectors_of(pool, selector)
        h = pool.uncentred[rows]
        whole = np.rint(h)
        h = np.where(np.abs(h - whole) <= 1e-5 * np.abs(h).max(initial=0), whole, h)  # adding the mean again rounds
        least = h.min(axis=1, initial=0)  # (n,)
        if least.min(initial=0) < 0:
            row = np.arange(len(pool))[rows][least.argmin()]
            raise HarnessError(
                f"{selector}: tanimoto is for bits and counts, but the vector of response {row} has the entry "
                f"{least.min():.3g}: take another similarity, or if the vectors were projected, a larger --dim"
            )
        return cls(h.astype(np.float64), squared_norms(h))

    def part(self, rows: Any) -> Tanimoto:
        """Return the kernel between some of the rows."""
        return Tanimoto(self.rows[rows], self.norm[rows])

    def block(self, left: Any, right: Any) -> Float64s:
        """Return the kernel (a, b) between the rows with the indices `left` (a,) and `right` (b,)."""
        product = self.rows[left] @ self.rows[right].T
        union = self.norm[left][:, None] + self.norm[right] - product
        return np.asarray(np.divide(product, union, out=np.ones_like(product), where=union > 0))

    def order(self, base: Float64s, weight: float, first: int, picked: Sequence[int] = ()) -> Iterator[int]:
        """Yield all n indices: `first`, then the largest base + weight · (1 - the largest similarity to a pick).

        O(n d) a pick; as `nearest_pick.greedy_order`, ties to the lowest index.
        """
        distance, remaining = np.ones(len(self.rows)), np.ones(len(self.rows), np.bool_)
        for t in range(len(self.rows)):
            score = np.where(remaining, base + weight * distance, -np.inf)
            best = score.max()
            pick = int((score >= best - TIE * abs(best)).argmax()) if t or len(picked) else first
            if t < len(picked):
                pick = picked[t]
            else:
                yield pick
            remaining[pick] = False
            distance = np.minimum(distance, 1 - self.block(slice(None), [pick])[:, 0])


def symmetric_matrix(n: int, block: Callable[[Any, Any], Float64s]) -> NDArray[np.float32]:
    """Return a symmetric matrix (n, n) in float32; block(rows, columns), with two slices, computes one part of it."""
    matrix = np.empty((n, n), np.float32)
    for start in range(0, n, CHUNK):  # on and above the diagonal; the rest is the mirror image
        rows, columns = slice(start, start + CHUNK), slice(start, n)
        matrix[rows, columns] = block(rows, columns)
        matrix[columns, rows] = matrix[rows, columns].T
    return matrix


def squared_distances(h: Floats) -> NDArray[np.float32]:
    """Return the squared distances (n, n) between the rows of h, in float32."""
    rows = centred(h)
    norm = squared_norms(rows)
    matrix = symmetric_matrix(len(h), lambda a, b: norm[a][:, None] + norm[b] - 2 * (rows[a] @ rows[b].T))
    np.fill_diagonal(matrix, 0)
    return np.maximum(matrix, 0, out=matrix)


def centred(h: Floats) -> Float64s:
    """Return the rows of h minus their mean, in float64."""
    return np.asarray(np.subtract(h, h.mean(axis=0, dtype=np.float64), dtype=np.float64))


def median_distance(rows: Float64s) -> float:
    """Return the median distance between two rows, which are centred and distinct; 1 for a single row.

    Of more than 1,024 rows only 1,024 are used, evenly spaced in the order of their distance from the mean: no
    randomness, and independent of the order of the rows.
    """
    by_radius = np.argsort(squared_norms(rows), kind="stable")
    sample = rows[by_radius[np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(np.intp)]]
    if len(sample) < 2:
        return 1.0
    pairs, norm = np.triu_indices(len(sample), 1), squared_norms(sample)
    median = np.median((norm[:, None] + norm - 2 * sample @ sample.T)[pairs])
    if median * CANCELLED < norm.max():
        from scipy.spatial.distance import pdist

        median = np.median(pdist(sample, "sqeuclidean"))
    return float(np.sqrt(median)) or 1.0
