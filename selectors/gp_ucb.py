"""GP-UCB (Srinivas et al. 2010): each pick has the largest mean + c · deviation of a Gaussian process over the vectors.

    pick  argmax over the rest of μ(x) + c σ(x)          given the outcomes of the picks so far

Srinivas, Krause, Kakade, Seeger, "Gaussian Process Optimization in the Bandit Setting" (ICML 2010), arXiv:0912.3995. A
pick whose outcome is not known (being verified, or an error) counts as one with the mean as its value, which lowers σ
around it: GP-BUCB (Desautels, Krause, Burdick, JMLR 2014).

We differ: c is constant, where their β grows with log t; the kernel's length is the pool's median distance, not fitted
(see `numerics.gaussian_process`); a response whose vector equals a picked one waits until no other is left. Without any
outcome the order is that of the largest deviation, after a random first pick. It learns: in tables it has a mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import Outcome, Pool, hookimpl

from .numerics.gaussian_process import candidates, check_parameters, fitted, known, length_scale
from .numerics.vectors import squared_norms, vectors_of

if TYPE_CHECKING:
    from .numerics.vectors import Float64s, Floats


@dataclass(frozen=True)
class GpUcb:
    """GP-UCB (Srinivas et al. 2010): the largest mean + c · deviation of a Gaussian process, given the outcomes so far.

    `c`: the weight of the deviation; `noise`: the deviation of an outcome around its mean, in units of the outcomes'
    spread; `length`: the kernel's length in units of the pool's median distance.
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()

    c: float = 1.0
    noise: float = 0.1
    length: float = 1.0

    def __post_init__(self) -> None:
        check_parameters("gp-ucb", c=self.c, noise=self.noise, length=self.length)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily: the order without outcomes; O(n (d + t)) for pick t."""
        h = vectors_of(pool, "gp-ucb")
        first = [int(rng.integers(len(h)))] if len(h) else []
        return _by_deviation(h, length_scale(h, self.length), self.noise, first)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`, the largest deviation first; no outcome is known."""
        h = vectors_of(pool, "gp-ucb")
        return _by_deviation(h, length_scale(h, self.length), self.noise, verified, len(verified))

    def pick_after(self, pool: Pool, outcomes: Sequence[Outcome], rng: np.random.Generator) -> int:
        """Return the pick after these outcomes, ties to the lowest index; O(m³ + n m (d + m)) for m outcomes."""
        h = vectors_of(pool, "gp-ucb")
        if not outcomes:
            return int(rng.integers(len(h)))
        rows, values, unknown = known(outcomes)
        scale = length_scale(h, self.length)
        if not rows:
            return next(_by_deviation(h, scale, self.noise, unknown, len(unknown)))
        process = fitted(h, rows, values, scale, self.noise)
        if unknown:
            values = np.append(values, process.predict(h[unknown]))
            process = fitted(h, [*rows, *unknown], values, scale, self.noise)
        rest = candidates(h, outcomes)
        mean, deviation = process.predict(h[rest], return_std=True)
        return int(rest[np.argmax(mean + self.c * deviation)])


def _by_deviation(h: Floats, scale: float, noise: float, first: Sequence[int], skip: int = 0) -> Iterator[int]:
    """Yield `first` without its first `skip`, then the row of the largest deviation given all before.

    Ties go to the lowest index. A Cholesky decomposition of the kernel, one row a pick, with the largest pivot.
    """
    rows = np.asarray(h, np.float64)
    squared, variance = squared_norms(rows), np.ones(len(rows))
    factors: list[Float64s] = []  # t rows of (n,)
    picked = np.zeros(len(rows), bool)
    for t in range(len(rows)):
        pick = first[t] if t < len(first) else int(np.argmax(np.where(picked, -np.inf, variance)))
        picked[pick] = True
        if t >= skip:
            yield pick
        distance = np.maximum(squared + squared[pick] - 2 * rows @ rows[pick], 0)
        column = np.exp(-distance / (2 * scale**2)) - sum(factor * factor[pick] for factor in factors)
        factors.append(column / np.sqrt(variance[pick] + noise**2))
        variance = variance - factors[-1] ** 2


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("gp-ucb", "harness_selectors.gp_ucb:GpUcb")
