"""What selectors read of a pool, checked, and what several of them ask of its vectors.

A column that is missing or not finite is refused with one clear line.
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


def vectors_of(pool: Pool, selector: str) -> Floats:
    """The pool's vectors (n, d), finite, in their own dtype; a HarnessError names the selector and the response."""
    h = pool.embeddings
    if len(h) and not h.shape[1]:
        raise HarnessError(f"{selector}: the pool has no embeddings; it needs an embedder (--embedder hidden-mean)")
    finite = np.isfinite(h).all(axis=1)  # (n,)
    if not finite.all():
        raise HarnessError(
            f"{selector}: the embedding of response {finite.argmin()} holds NaN or infinity; mend or drop it"
        )
    return h


def logprobs_of(pool: Pool, selector: str) -> Float64s:
    """The pool's log-probabilities (n,) float64, finite: the sum over each response's tokens."""
    logprobs = np.asarray(pool.logprobs, np.float64)
    finite = np.isfinite(logprobs)
    if len(logprobs) and np.isnan(logprobs).all():
        raise HarnessError(f"{selector}: the pool has no log-probabilities; it needs a pool that carries them")
    if not finite.all():
        at = finite.argmin()
        raise HarnessError(f"{selector}: the log-probability of response {at} is {logprobs[at]}; mend or drop it")
    return logprobs


def check_size(selector: str, k: int, n: int) -> None:
    """Refuse a subset of a size that the pool does not have."""
    if not 1 <= k <= n:
        raise HarnessError(f"{selector}: k must be in 1..{n}, the size of the pool, got {k}")


def squared_norms(rows: Floats) -> Float64s:
    """The squared length of each row, in float64."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64, casting="unsafe"))


def farthest_from_mean(h: Floats) -> int:
    """The row farthest from the mean row: a first pick that depends on no order and no draw. Ties to the lowest."""
    distance = squared_norms(np.subtract(h, h.mean(axis=0, dtype=np.float64), dtype=np.float64))
    return int((distance >= distance.max() * (1 - 1e-10)).argmax())


class Copies:
    """The indices that share each distinct row: `head` (rows,) is the lowest not taken yet, n where none is left."""

    def __init__(self, h: Floats) -> None:
        seen: dict[bytes, int] = {}
        self.row = [seen.setdefault(row.tobytes(), len(seen)) for row in h + h.dtype.type(0)]  # of each index; -0 is 0
        self._left: list[list[int]] = [[] for _ in seen]
        for index in reversed(range(len(h))):
            self._left[self.row[index]].append(index)
        self.first: Ints = np.array([left[-1] for left in self._left], np.intp)
        self.head = self.first.copy()
        self.count: Ints = np.array([len(left) for left in self._left], np.intp)

    def take(self, row: int, index: int | None = None) -> int:
        """Take an index of the row, the lowest unless one is given, and return it."""
        left = self._left[row]
        index = left[-1] if index is None else index
        left.remove(index)
        self.head[row] = left[-1] if left else len(self.row)
        return index
