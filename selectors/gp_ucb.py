"""Selectors that learn from outcomes by a Gaussian process over the vectors: GP-UCB and Thompson sampling.

    gp-ucb        argmax over the rest of μ(x) + c σ(x)                 given the outcomes of the picks so far
    gp-thompson   argmax over the rest of f(x), f ~ GP                  given the same
    k(x, x') = exp(-|x - x'|² / 2ℓ²)                                    ℓ = `length` times the pool's median distance

Srinivas, Krause, Kakade, Seeger, "Gaussian Process Optimization in the Bandit Setting" (ICML 2010), arXiv:0912.3995. A
pick whose outcome is not known (being verified, or an error) counts as one with the mean as its value, which lowers σ
around it: GP-BUCB (Desautels, Krause, Burdick, JMLR 2014). Thompson (1933); for Gaussian processes see Russo and Van
Roy, "Learning to Optimize via Posterior Sampling" (2014), arXiv:1301.2609. There, picks whose outcome is not known are
left out, as in Kandasamy et al. (AISTATS 2018): the draws differ, so picks that are verified at once do too.

Measured values are standardised by those seen. Outcomes that are all 0 or 1 are centred at 1/2, so that a wrong
response lowers what is expected near it, also as long as none is correct.

We differ: c is constant, where their β grows with log t; a draw is over at most `most` of the rest, taken at random,
since it costs their number cubed; a response whose vector equals a picked one waits until no other is left; nothing is
fitted but the values (scikit-learn's regressor): a few dozen outcomes do not fix a kernel's parameters. Without any
outcome gp-ucb's order is that of the largest deviation, after a random first pick, and gp-thompson's is random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness import Outcome, Pool

from .numerics.columns import Copies, Float64s, Floats, check_parameters, squared_norms, vectors_of

ROWS = 256  # by which the median distance is estimated, at even steps through the pool


@dataclass(frozen=True)
class GpUcb:
    """GP-UCB (Srinivas et al. 2010): the largest mean + c · deviation of a Gaussian process, given the outcomes so far.

    `c`: the weight of the deviation; `noise`: the deviation of an outcome around its mean, in units of the outcomes'
    spread; `length`: the kernel's length in units of the pool's median distance.
    """

    reads: ClassVar[tuple[str, ...]] = ()

    c: float = 1.0
    noise: float = 0.1
    length: float = 1.0

    def __post_init__(self) -> None:
        check_parameters("gp-ucb", self, c="> 0", noise="> 0", length="> 0")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily: the order without outcomes; O(n (d + t)) for pick t."""
        h = vectors_of(pool, "gp-ucb")
        return self._by_deviation(h, [int(rng.integers(len(h)))]) if len(h) else iter(())

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`, the largest deviation first; no outcome is known."""
        return self._by_deviation(vectors_of(pool, "gp-ucb"), verified, len(verified))

    def pick_after(self, pool: Pool, outcomes: Sequence[Outcome], rng: np.random.Generator) -> int:
        """Return the pick after these outcomes, ties to the lowest index; O(m³ + n m (d + m)) for m outcomes."""
        h = vectors_of(pool, "gp-ucb")
        if not outcomes:
            return int(rng.integers(len(h)))
        rows, values = known(outcomes)
        unknown = [outcome.index for outcome in outcomes if outcome.value is None]
        if not rows:
            return next(self._by_deviation(h, unknown, len(unknown)))
        process = fitted(h, rows, values, length_scale(h, self.length), self.noise)
        if unknown:
            values = np.append(values, process.predict(h[unknown]))
            process = fitted(h, [*rows, *unknown], values, length_scale(h, self.length), self.noise)
        rest = candidates(h, outcomes)
        mean, deviation = process.predict(h[rest], return_std=True)
        return int(rest[np.argmax(mean + self.c * deviation)])

    def _by_deviation(self, h: Floats, first: Sequence[int], skip: int = 0) -> Iterator[int]:
        """Yield `first` without its first `skip`, then the row of the largest deviation given all before.

        Ties go to the lowest index. A Cholesky decomposition of the kernel, one row a pick, with the largest pivot.
        """
        rows, scale = np.asarray(h, np.float64), length_scale(h, self.length)
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
            factors.append(column / np.sqrt(variance[pick] + self.noise**2))
            variance = variance - factors[-1] ** 2


@dataclass(frozen=True)
class GpThompson:
    """Thompson sampling: the largest value of a function drawn from a Gaussian process, given the outcomes so far.

    `noise`, `length`: as for gp-ucb; `most`: how many of the rest a draw is over.
    """

    reads: ClassVar[tuple[str, ...]] = ()

    noise: float = 0.1
    length: float = 1.0
    most: int = 512

    def __post_init__(self) -> None:
        check_parameters("gp-thompson", self, noise="> 0", length="> 0", most=">= 1")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices in random order: that without outcomes."""
        return iter(rng.permutation(len(vectors_of(pool, "gp-thompson"))).tolist())

    def pick_after(self, pool: Pool, outcomes: Sequence[Outcome], rng: np.random.Generator) -> int:
        """Return the pick after these outcomes; O(m³ + most³) for m outcomes."""
        h = vectors_of(pool, "gp-thompson")
        rest = candidates(h, outcomes)
        rows, values = known(outcomes)
        if not rows:
            return int(rng.choice(rest))
        if len(rest) > self.most:
            rest = np.sort(rng.choice(rest, self.most, replace=False))
        process = fitted(h, rows, values, length_scale(h, self.length), self.noise)
        drawn = process.sample_y(h[rest], random_state=int(rng.integers(2**31)))[:, 0]
        return int(rest[np.argmax(drawn)])


def candidates(h: Floats, outcomes: Sequence[Outcome]) -> Any:
    """Return the indices of h to pick from, ascending: those in no outcome whose row is no copy of a picked one.

    A copy's value is known as well as that of the picked row, but the largest mean would take it again and again. If
    only copies are left, all of them.
    """
    picked = [outcome.index for outcome in outcomes]
    rest = np.setdiff1d(np.arange(len(h)), picked)
    row = Copies(h).row
    fresh = rest[~np.isin(row[rest], row[picked])]
    return fresh if len(fresh) else rest


def length_scale(h: Floats, length: float) -> float:
    """Return ℓ; `length` itself if half of the rows or more are equal."""
    rows = np.asarray(h[:: -(-len(h) // ROWS)], np.float64)
    squared = squared_norms(rows)
    distances = np.maximum(squared[:, None] + squared - 2 * rows @ rows.T, 0)[np.triu_indices(len(rows), 1)]
    median = float(np.sqrt(np.median(distances))) if len(distances) else 0.0
    return length * median if median > 1e-6 * np.sqrt(squared.max(initial=0)) else length


def known(outcomes: Sequence[Outcome]) -> tuple[list[int], Float64s]:
    """Return the indices with a value, and their standardised values."""
    rows = [outcome.index for outcome in outcomes if outcome.value is not None]
    return rows, standardised([outcome.value for outcome in outcomes if outcome.value is not None])


def standardised(values: Sequence[float]) -> Float64s:
    """Return the values around 0 with a spread of about 1: see the module's docstring."""
    given = np.asarray(values, np.float64)
    if np.isin(given, (0.0, 1.0)).all():
        return 2 * given - 1
    return np.asarray((given - given.mean()) / (given.std() or 1.0))


def fitted(h: Floats, rows: Sequence[int], values: Any, scale: float, noise: float) -> Any:
    """Return the process given these `values` of the rows of h; `noise` is their standard deviation."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    kernel = RBF(scale, "fixed")
    return GaussianProcessRegressor(kernel, alpha=noise**2, optimizer=None).fit(h[list(rows)], values)
