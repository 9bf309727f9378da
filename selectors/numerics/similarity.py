"""Similarities between rows: the cosine, and the Gaussian kernel with its width by the median heuristic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import HarnessError

from .vectors import squared_norms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .vectors import Float64s, Floats

SAMPLE = 1024  # rows that the median is taken over
CHUNK = 256  # rows of a matrix made at a time
CANCELLED = (
    1e4  # |x|² + |y|² - 2 x·y has lost its digits where it is less by this factor; differences are slow and exact
)


def unit_rows(h: Floats) -> Float64s:
    """The rows (n, d) in float64 at length 1, so that a·b is the cosine and |a - b|² = 2 - 2 cosine.

    Zero rows get a dimension of their own: their cosine is 0 with all other rows and 1 among themselves.
    """
    largest = np.abs(h).max(axis=1, initial=0).astype(np.float64)  # (n,)
    zero = largest == 0
    unit = h / np.where(zero, 1.0, largest)[:, None]  # so that no square leaves the range
    unit /= np.sqrt(squared_norms(unit) + zero)[:, None]
    return np.column_stack([unit, zero]) if zero.any() else unit


@dataclass(frozen=True)
class Gaussian:
    """exp(-|x - y|² / (2 bandwidth²)) between rows of h."""

    rows: Float64s  # (n, d), centred and in units of √2 bandwidth
    norm: Float64s  # (n,) squared

    @classmethod
    def of(cls, h: Floats, bandwidth: float | None) -> Gaussian:
        """The kernel on the rows of h, which differ; None is the median heuristic."""
        rows = centred(h)
        rows /= np.sqrt(2) * (median_distance(rows) if bandwidth is None else bandwidth)
        return cls(rows, squared_norms(rows))

    def part(self, rows: Any) -> Gaussian:
        """The kernel between some of the rows."""
        return Gaussian(self.rows[rows], self.norm[rows])

    def block(self, some: Any, others: Any) -> Float64s:
        """Between some rows (a,) and others (b,): (a, b)."""
        if self.norm.max(initial=0) > CANCELLED:
            from scipy.spatial.distance import cdist

            return np.asarray(np.exp(-cdist(self.rows[some], self.rows[others], "sqeuclidean")))
        power = self.rows[some] @ self.rows[others].T
        power *= 2
        power -= self.norm[some][:, None]
        power -= self.norm[others]
        return np.asarray(np.exp(np.minimum(power, 0, out=power), out=power))


def check_bandwidth(selector: str, bandwidth: float | None) -> None:
    """Refuse a bandwidth that is no length."""
    if bandwidth is not None and not 0 < bandwidth < np.inf:
        raise HarnessError(f"{selector}: bandwidth must be > 0 and finite, or none (the median), got {bandwidth}")


def symmetric_matrix(n: int, block: Callable[[Any, Any], Float64s]) -> NDArray[np.float32]:
    """(n, n) in float32: block(rows, columns) for all blocks above the diagonal, and their mirror images."""
    matrix = np.empty((n, n), np.float32)
    for start in range(0, n, CHUNK):
        rows, columns = slice(start, start + CHUNK), slice(start, n)
        matrix[rows, columns] = block(rows, columns)
        matrix[columns, rows] = matrix[rows, columns].T
    return matrix


def squared_distances(h: Floats) -> NDArray[np.float32]:
    """(n, n) in float32, of the rows of h."""
    rows = centred(h)
    norm = squared_norms(rows)
    matrix = symmetric_matrix(len(h), lambda a, b: norm[a][:, None] + norm[b] - 2 * (rows[a] @ rows[b].T))
    np.fill_diagonal(matrix, 0)
    return np.maximum(matrix, 0, out=matrix)


def centred(h: Floats) -> Float64s:
    """h less its mean row, in float64."""
    return np.asarray(np.subtract(h, h.mean(axis=0, dtype=np.float64), dtype=np.float64))


def median_distance(rows: Float64s) -> float:
    """The median distance between two of the rows, which are centred and differ; 1 for a single row.

    The median heuristic (Garreau, Jitkrittum & Kanagawa 2017, arXiv:1707.07269). Of more than 1,024 rows it takes that
    many, evenly spaced in the order of their distance from the mean: a choice that depends on no order and no draw.
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
