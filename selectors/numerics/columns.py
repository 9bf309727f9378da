"""What selectors share: the columns of a pool, parameters, and what they do with vectors (equal rows, ties)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from harness import HarnessError, Pool

Floats = NDArray[np.floating[Any]]
Float64s = NDArray[np.float64]
Ints = NDArray[np.intp]

TIE = 1e-10  # scores relatively this close count as equal
LIKELIHOODS = ("logprob", "mean-logprob")  # scores of every pool with log-probabilities: the sum, the mean per token


class RanksAfter:
    """A ranker whose whole order is that after no picks; `rank_after` says what it is, and what it costs."""

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily."""
        return self.rank_after(pool, (), rng)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`, best first."""
        raise NotImplementedError


def vectors_of(pool: Pool, selector: str) -> Floats:
    """Return the pool's vectors (n, d), in their dtype (finite: `Pool` checks that)."""
    h = pool.embeddings
    if len(h) and not h.shape[1]:
        raise HarnessError(f"{selector}: the pool has no embeddings; it needs an embedder (--embedder hidden-mean)")
    return h


def logprobs_of(pool: Pool, selector: str, per_token: bool = False) -> Float64s:
    """Return the log-probability (n,) of each response, finite: the sum over its tokens, or their mean."""
    logprobs = np.asarray(pool.logprobs, np.float64)
    finite = np.isfinite(logprobs)
    if len(logprobs) and np.isnan(logprobs).all():
        raise HarnessError(f"{selector}: the pool has no log-probabilities; it needs a pool that carries them")
    if not finite.all():
        index = finite.argmin()
        raise HarnessError(f"{selector}: the log-probability of response {index} is {logprobs[index]}; fix or drop it")
    return logprobs / np.maximum(pool.lengths, 1) if per_token else logprobs


def column_of(name: str | None) -> str:
    """Return the column of a pool, as in a selector's `needs`, in which the score of that name is."""
    return "logprobs" if name in LIKELIHOODS else "scores"


def scores_of(pool: Pool, name: str | None, selector: str) -> Float64s:
    """Return the scores of that name (n,), the larger the better, NaN where unknown; None: the pool's only ones."""
    if name in LIKELIHOODS:
        return logprobs_of(pool, selector, per_token=name == "mean-logprob")
    if not pool.scores:
        raise HarnessError(
            f"{selector}: the pool has no scores: give them in the pool file or make them by --scorer (docs/pools.md), "
            "or take the log-probability as the score (by=logprob)"
        )
    names = ", ".join(pool.scores)
    if name is None and len(pool.scores) > 1:
        raise HarnessError(f"{selector}: the pool has several scores: say by=NAME, one of {names}")
    if name is not None and name not in pool.scores:
        raise HarnessError(f"{selector}: the pool has no score {name!r}; it has {names}")
    return np.asarray(pool.scores[next(iter(pool.scores)) if name is None else name], np.float64)


def standardised(scores: Float64s) -> Float64s:
    """Return the scores (n,) minus their mean, over their standard deviation; unknown ones count as the lowest known.

    All are 0 if they are equal, or none is known.
    """
    known = scores[~np.isnan(scores)]
    filled = np.where(np.isnan(scores), known.min(initial=np.inf), scores) if len(known) else np.zeros(len(scores))
    centred = filled - filled.mean() if len(filled) else filled
    largest = np.abs(centred).max(initial=0)
    if not largest > 1e-12 * np.abs(filled).max(initial=0):
        return np.zeros(len(scores))
    centred /= largest  # so that no square overflows
    return np.asarray(centred / np.sqrt((centred**2).mean()))


def check_size(selector: str, k: int, n: int) -> None:
    """Raise HarnessError unless a pool of n responses has subsets of size k >= 1."""
    if not 1 <= k <= n:
        raise HarnessError(f"{selector}: k must be in 1..{n}, the size of the pool, got {k}")


def check_parameters(selector: str, component: Any, **rules: str) -> None:
    """Raise HarnessError unless each Literal field has one of its values, and each number keeps its rule.

    A rule is "> 0" or ">= 1" (and finite), or "in [0, 1]". None keeps it: it is the default where it is allowed.
    """
    for name, hint in get_type_hints(type(component)).items():
        value, allowed = getattr(component, name), [repr(each) for each in get_args(hint)]
        if get_origin(hint) is Literal and repr(value) not in allowed:
            names = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
            raise HarnessError(f"{selector}: {name} must be {names}, got {value!r}")
    for name, rule in rules.items():
        value, (sign, bound) = getattr(component, name), rule.split(maxsplit=1)
        if value is None:
            continue
        if sign == "in":
            kept = 0 <= value <= 1
        else:
            kept = (value > float(bound) if sign == ">" else value >= float(bound)) and value < np.inf
        if not kept:
            rule += " and finite" if value == np.inf else ""
            raise HarnessError(f"{selector}: {name} must be {rule}, got {value}")


# Vectors.


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
