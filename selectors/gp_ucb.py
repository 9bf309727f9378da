"""Selectors that learn from outcomes by a Gaussian process over the vectors: GP-UCB and Thompson sampling.

    gp-ucb        argmax over the rest of μ(x) + c σ(x)                     given the outcomes of the picks so far
    gp-thompson   argmax over the rest of μ(x) + c (f(x) - μ(x)), f ~ GP    given the same
    rbf           k(x, x') = exp(-|x - x'|² / 2ℓ²)                          ℓ = `length` · distance to the nearest row
    tanimoto      k(x, x') = x·x' / (|x|² + |x'|² - x·x')                   of bits or counts, before centring

Srinivas, Krause, Kakade, Seeger, "Gaussian Process Optimization in the Bandit Setting" (ICML 2010), arXiv:0912.3995. A
pick whose outcome is not known (being verified, or an error) counts as one with the mean as its value, which lowers σ
around it: GP-BUCB (Desautels, Krause, Burdick, JMLR 2014). Thompson (1933); for Gaussian processes see Russo and Van
Roy, "Learning to Optimize via Posterior Sampling" (2014), arXiv:1301.2609; c < 1 draws from a narrower posterior
(Chapelle & Li, "An Empirical Evaluation of Thompson Sampling", NeurIPS 2011). There, picks whose outcome is not known
are left out, as in Kandasamy et al. (AISTATS 2018): the draws differ, so picks that are verified at once do too.

- Outcomes that are all 0 or 1 count as 0 and HIT: a wrong response is what is expected, and lowers only σ; a correct
  one is far above it. Around 1/2 wrong ones would push down all that is near, and where few are correct that is most
  of the pool: the tenth hit came later. Measured values are standardised by those seen.
- ℓ follows the distance of a row to its nearest other row (the median over ROWS rows): what is learnt at a pick reaches
  its neighbours, and only them. The median of all distances, as other selectors have it, found fewer of the hits that
  lie in small clusters, and on screens of molecules about as many (docs/log.md). A length fitted by marginal likelihood
  was near to ours, and found no more.

We differ: c is constant, where their β grows with log t; a draw is over at most `most` of the rest, half of them those
with the largest means, half at random, since it costs their number cubed; a response whose vector equals a picked one
waits until no other is left. Without any outcome gp-ucb's order is that of the largest deviation, after a random first
pick, and gp-thompson's is random.

A pick adds a row to the Cholesky factor of the kernel: O(n (d + m)) after m picks. The factor is kept while the pool
lives. If the picks are those of before and more, only the new rows are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg import solve_triangular

from harness import Outcome, Pool

from .numerics.columns import Copies, Float64s, Floats, Ints, check_parameters, squared_norms, vectors_of
from .numerics.similarity import Gaussian, Tanimoto, centred

HIT = 3.0  # the value of a correct response, where a wrong one has 0, in units of the prior's deviation
ROUNDING = 1e-12  # scores this close, in units of the prior's deviation, count as equal
ROWS = 256  # by which the distance to the nearest row is estimated, at even steps through the pool

Kernel = Literal["rbf", "tanimoto"]


@dataclass(frozen=True)
class GpUcb:
    """GP-UCB (Srinivas et al. 2010): the largest mean + c · deviation of a Gaussian process, given the outcomes so far.

    `c`: the weight of the deviation; `noise`: the deviation of an outcome around its mean, in units of the prior's;
    `length`: the length of the rbf kernel, in units of the distance to the nearest row; `kernel`: "rbf", or for
    bits and counts "tanimoto".
    """

    reads: ClassVar[tuple[str, ...]] = ()

    c: float = 1.0
    noise: float = 0.5
    length: float = 1.0
    kernel: Kernel = "rbf"

    def __post_init__(self) -> None:
        check_parameters("gp-ucb", self, c="> 0", noise="> 0", length="> 0")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily: the order without outcomes; O(n (d + t)) for pick t."""
        h = vectors_of(pool, "gp-ucb")
        return self._by_deviation(pool, rng, [int(rng.integers(len(h)))]) if len(h) else iter(())

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`, the largest deviation first; no outcome is known."""
        return self._by_deviation(pool, rng, verified, len(verified))

    def _by_deviation(self, pool: Pool, rng: np.random.Generator, first: Sequence[int], skip: int = 0) -> Iterator[int]:
        process = Process(pool, "gp-ucb", self.kernel, self.length, self.noise)
        for t in range(len(pool)):
            process.take(first[t] if t < len(first) else self._best(process, np.zeros(0), rng))
            if t >= skip:
                yield process.picks[t]

    def pick_after(self, pool: Pool, outcomes: Sequence[Outcome], rng: np.random.Generator) -> int:
        """Return the pick after these outcomes, ties at random; see the module's docstring for its cost."""
        if not outcomes:
            return int(rng.integers(len(vectors_of(pool, "gp-ucb"))))
        rows, values = known(outcomes)
        process = process_of(pool, "gp-ucb", self.kernel, self.length, self.noise)
        process.follow([*rows, *(outcome.index for outcome in outcomes if outcome.value is None)])
        return self._best(process, values, rng)

    def _best(self, process: Process, values: Float64s, rng: np.random.Generator) -> int:
        """Return a row of the largest mean + c · deviation; where several are so far from all picks, any of them."""
        rest = process.rest(process.picks)
        score = (process.mean(values) + self.c * np.sqrt(np.maximum(process.variance, 0)))[rest]
        return int(rng.choice(rest[score >= score.max() - ROUNDING * (np.abs(score.max()) + self.c)]))


@dataclass(frozen=True)
class GpThompson:
    """Thompson sampling: the largest value of a function drawn from a Gaussian process, given the outcomes so far.

    `c`: by how much a draw differs from the mean, in units of the posterior's deviation; `noise`, `length`, `kernel`:
    as for gp-ucb; `most`: how many of the rest a draw is over.
    """

    reads: ClassVar[tuple[str, ...]] = ()

    c: float = 0.3
    noise: float = 0.5
    length: float = 1.0
    kernel: Kernel = "rbf"
    most: int = 512

    def __post_init__(self) -> None:
        check_parameters("gp-thompson", self, c="> 0", noise="> 0", length="> 0", most=">= 1")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices in random order: that without outcomes."""
        return iter(rng.permutation(len(vectors_of(pool, "gp-thompson"))).tolist())

    def pick_after(self, pool: Pool, outcomes: Sequence[Outcome], rng: np.random.Generator) -> int:
        """Return the pick after these outcomes; as `GpUcb.pick_after`, and O(most² (m + most + d))."""
        rows, values = known(outcomes)
        process = process_of(pool, "gp-thompson", self.kernel, self.length, self.noise)
        process.follow(rows)
        rest = process.rest([outcome.index for outcome in outcomes])
        if not rows:
            return int(rng.choice(rest))
        mean = process.mean(values)
        if len(rest) > self.most:
            rest = rng.permutation(rest)  # ties of the mean
            rest = rest[np.argsort(-mean[rest], kind="stable")]
            rest = np.concatenate([rest[: self.most // 2], rng.permutation(rest[self.most // 2 :])])[: self.most]
        covariance = process.covariance(rest) + 1e-9 * np.eye(len(rest))
        drawn = np.linalg.cholesky(covariance) @ rng.standard_normal(len(rest))
        return int(rest[(mean[rest] + self.c * drawn).argmax()])


def known(outcomes: Sequence[Outcome]) -> tuple[list[int], Float64s]:
    """Return the indices with a value, and their values around 0: see the module's docstring."""
    rows = [outcome.index for outcome in outcomes if outcome.value is not None]
    given = np.array([outcome.value for outcome in outcomes if outcome.value is not None], np.float64)
    if np.isin(given, (0.0, 1.0)).all():
        return rows, HIT * given
    return rows, np.asarray((given - given.mean()) / (given.std() or 1.0))


class Process:
    """A Gaussian process over the rows of a pool, with some of them as picks.

    picks     in the order taken
    variance  (n,) of each row given the picks, 1 before the first
    """

    def __init__(self, pool: Pool, selector: str, kernel: Kernel, length: float, noise: float) -> None:
        h = vectors_of(pool, selector)
        self.settings, self.noise = (kernel, length, noise), noise
        copies = Copies(h)
        self._distinct = copies.row
        self._kernel: Gaussian | Tanimoto
        if kernel == "tanimoto":
            self._kernel = Tanimoto.of(pool, selector)
        else:
            self._kernel = Gaussian.of(h, length * nearest_distance(h[copies.first]))
        self._factor: Float64s = np.empty((16, len(h)))  # row i: (k(pick i, x) - what earlier rows explain) / pivot i
        self._pivots: list[float] = []
        self.picks: list[int] = []
        self.variance = np.ones(len(h))

    def take(self, pick: int, column: Float64s | None = None) -> None:
        """Count a row as the next pick; `column` (n,): its kernel with all rows, if that is known."""
        t = len(self.picks)
        if t == len(self._factor):
            self._factor = np.concatenate([self._factor, np.empty_like(self._factor)])
        before = self._factor[:t]
        self._pivots.append(float(np.sqrt(max(self.variance[pick], 0) + self.noise**2)))
        column = self._kernel.block([pick], slice(None))[0] if column is None else column
        self._factor[t] = (column - before[:, pick] @ before) / self._pivots[t]
        self.variance -= self._factor[t] ** 2
        self.picks.append(pick)

    def follow(self, picks: Sequence[int]) -> None:
        """Have these picks, in this order."""
        same = next((t for t, pick in enumerate(self.picks) if t == len(picks) or pick != picks[t]), len(self.picks))
        if same < len(self.picks):
            del self.picks[same:], self._pivots[same:]
            self.variance = np.ones_like(self.variance)
            for row in self._factor[:same]:
                self.variance -= row**2
        for pick, column in zip(picks[same:], self._kernel.block(picks[same:], slice(None)), strict=True):
            self.take(pick, column)

    def rest(self, picks: Sequence[int]) -> Ints:
        """Return the rows to pick from after these picks, ascending: all but them and their copies.

        A copy's value is known as well as that of the pick, but the largest mean would take it again and again. If only
        copies are left, all of them.
        """
        rest = np.setdiff1d(np.arange(len(self.variance)), picks)
        fresh = rest[~np.isin(self._distinct[rest], self._distinct[list(picks)])]
        return fresh if len(fresh) else rest

    def mean(self, values: Float64s) -> Float64s:
        """Return the mean of each row (n,), given the values of the first picks."""
        m = len(values)
        lower = np.tril(self._factor[:m, self.picks[:m]].T, -1) + np.diag(self._pivots[:m])
        weight = solve_triangular(lower, values, lower=True) if m else np.zeros(0)
        return np.asarray(weight @ self._factor[:m])

    def covariance(self, rows: Ints) -> Float64s:
        """Return the covariance of these rows given the picks."""
        explained = self._factor[: len(self.picks), rows]
        return self._kernel.block(rows, rows) - explained.T @ explained


_processes: WeakKeyDictionary[Pool, Process] = WeakKeyDictionary()


def process_of(pool: Pool, selector: str, kernel: Kernel, length: float, noise: float) -> Process:
    """Return the process of a pool, with the picks that it had when it was last asked for."""
    process = _processes.get(pool)
    if process is None or process.settings != (kernel, length, noise):
        process = _processes[pool] = Process(pool, selector, kernel, length, noise)
    return process


def nearest_distance(h: Floats) -> float:
    """Return the median distance of a row of h (n, d), which are distinct, to the nearest other; 1 for a single row."""
    rows = centred(h)
    norm = squared_norms(rows)
    some = np.arange(0, len(rows), -(-len(rows) // ROWS) or 1)
    squared = norm[some][:, None] + norm - 2 * rows[some] @ rows.T
    squared[squared <= 1e-12 * norm.max(initial=0)] = np.inf
    nearest = squared.min(axis=1, initial=np.inf)
    return float(np.sqrt(np.median(nearest[nearest < np.inf]))) if (nearest < np.inf).any() else 1.0
