"""Read the columns of a pool with checks, and the small operations on vectors that several selectors share.

A missing column is refused with one line that says what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from harness import HarnessError, Pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]
    Float64s = NDArray[np.float64]
    Ints = NDArray[np.intp]

TIE = 1e-10  # scores relatively this close count as equal, and the lowest index is picked


def vectors_of(pool: Pool, selector: str) -> Floats:
    """Return the pool's vectors (n, d), in their dtype (finite: `Pool` checks that); HarnessError if it has none."""
    h = pool.embeddings
    if len(h) and not h.shape[1]:
        raise HarnessError(f"{selector}: the pool has no embeddings; it needs an embedder (--embedder hidden-mean)")
    return h


def logprobs_of(pool: Pool, selector: str) -> Float64s:
    """Return the pool's log-probabilities (n,) float64, each response's sum over its tokens.

    HarnessError if the pool has none, or one that is not finite. `selector` is the name that the message begins with.
    """
    logprobs = np.asarray(pool.logprobs, np.float64)
    finite = np.isfinite(logprobs)
    if len(logprobs) and np.isnan(logprobs).all():
        raise HarnessError(f"{selector}: the pool has no log-probabilities; it needs a pool that carries them")
    if not finite.all():
        index = finite.argmin()
        raise HarnessError(f"{selector}: the log-probability of response {index} is {logprobs[index]}; fix or drop it")
    return logprobs


def check_size(selector: str, k: int, n: int) -> None:
    """Raise HarnessError unless a pool of n responses has subsets of size k >= 1."""
    if not 1 <= k <= n:
        raise HarnessError(f"{selector}: k must be in 1..{n}, the size of the pool, got {k}")


def squared_norms(rows: Floats) -> Float64s:
    """Return the squared length of each row, in float64."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64, casting="unsafe"))


def farthest_from_mean(h: Floats) -> int:
    """Return the row farthest from the mean row, ties to the lowest: a first pick without randomness."""
    distance = squared_norms(np.subtract(h, h.mean(axis=0, dtype=np.float64), dtype=np.float64))
    return int((distance >= distance.max() * (1 - TIE)).argmax())


class Copies:
    """The indices with equal rows of h (n, d), and those not picked yet. 0 and -0 are equal.

    row    (n,) the distinct row of each index; distinct rows are numbered by their lowest index
    first  (rows,) the lowest index of each distinct row
    count  (rows,) the number of indices with this row
    head   (rows,) its lowest index not picked yet; n if all are picked
    """

    def __init__(self, h: Floats) -> None:
        self.row, self.first = _distinct(h)
        self.count: Ints = np.bincount(self.row, minlength=len(self.first))
        self.head = self.first.copy()
        shared = np.flatnonzero(self.count[self.row] > 1)
        self._unpicked: dict[int, list[int]] = {}  # the unpicked indices of each shared row, descending
        for index, row in zip(shared[::-1].tolist(), self.row[shared[::-1]].tolist(), strict=True):
            self._unpicked.setdefault(row, []).append(index)

    def take(self, row: int, index: int | None = None) -> int:
        """Mark an index of this row as picked, the lowest unpicked one unless `index` is given; return it."""
        index = int(self.head[row]) if index is None else index
        unpicked = self._unpicked.get(row, [index])
        unpicked.remove(index)
        self.head[row] = unpicked[-1] if unpicked else len(self.row)
        return index


def _distinct(h: Floats) -> tuple[Ints, Ints]:
    """Return each index's distinct row (n,), and the lowest index of each distinct row (rows,).

    Comparing 13 MB of rows takes 20 ms; showing that no two rows agree in their first 8 bytes takes 1 ms.
    """
    n, columns = len(h), 8 // h.itemsize
    every = np.arange(n)
    if h.shape[1] >= columns:
        keys = np.sort(np.ascontiguousarray(h[:, :columns] + h.dtype.type(0)).view(np.int64)[:, 0])
        if (keys[1:] != keys[:-1]).all():
            return every, every
    items = np.ascontiguousarray(h + h.dtype.type(0)).view(np.dtype((np.void, h.shape[1] * h.itemsize)))[:, 0]
    _, first, row = np.unique(items, return_index=True, return_inverse=True)
    by_index = np.argsort(first)
    number = np.empty_like(by_index)
    number[by_index] = every[: len(first)]
    return number[row], first[by_index]
