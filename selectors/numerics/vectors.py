"""What several selectors do with vectors: equal rows, ties, the largest scores, a first pick without randomness."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Float64s = NDArray[np.float64]
Ints = NDArray[np.intp]

TIE = 1e-10  # scores relatively this close count as equal


def squared_norms(rows: Floats) -> Float64s:
    """Return the squared length of each row, in float64."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64, casting="unsafe"))


def farthest_from_mean(h: Floats) -> int:
    """Return the row farthest from the mean row, ties to the lowest."""
    distance = squared_norms(np.subtract(h, h.mean(axis=0, dtype=np.float64), dtype=np.float64))
    return int((distance >= distance.max() * (1 - TIE)).argmax())


def largest(score: Float64s, size: int, place: Ints, slack: float = 0.0) -> tuple[Ints, float]:
    """Return the indices of the `size` largest scores, ascending, and the largest other score (-inf without any).

    Scores within TIE, relatively, or within `slack` of each other are equal: of them the lowest `place` (n,) counts.
    """
    if len(score) <= size:
        return np.arange(len(score)), -np.inf
    border = np.partition(score, -size)[-size]
    tie = TIE * abs(border) + slack if border > -np.inf else 0.0
    chosen = score > border + tie
    tied = np.flatnonzero((score >= border - tie) & ~chosen)
    chosen[tied[np.argsort(place[tied])[: size - np.count_nonzero(chosen)]]] = True
    return np.flatnonzero(chosen), float(score[~chosen].max())


class Copies:
    """The indices with equal rows of h (n, d), and those not picked yet. 0 and -0 are equal.

    row    (n,) the distinct row of each index; distinct rows are numbered by their lowest index
    first  (rows,) the lowest index of each distinct row
    count  (rows,) the number of indices with this row
    head   (rows,) its lowest index not picked yet; n if all are picked
    """

    def __init__(self, h: Floats) -> None:
        indices: dict[bytes, list[int]] = {}
        for index, row in enumerate(h + h.dtype.type(0)):
            indices.setdefault(row.tobytes(), []).append(index)
        self._unpicked = list(indices.values())
        self.first: Ints = np.array([some[0] for some in self._unpicked], np.intp)
        self.count: Ints = np.array([len(some) for some in self._unpicked], np.intp)
        self.row: Ints = np.empty(len(h), np.intp)
        for number, some in enumerate(self._unpicked):
            self.row[some] = number
        self.head = self.first.copy()

    def take(self, row: int, index: int | None = None) -> int:
        """Mark an index of this row as picked, the lowest unpicked one unless `index` is given; return it."""
        unpicked = self._unpicked[row]
        index = unpicked[0] if index is None else index
        unpicked.remove(index)
        self.head[row] = unpicked[0] if unpicked else len(self.row)
        return index
