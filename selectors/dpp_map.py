"""Greedy MAP of a determinantal point process: each pick adds most to the log-determinant of the kernel.

    pick the x with the largest log det(K_{S+x} + ridge I) - log det(K_S + ridge I)

Chen, Zhang & Zhou, "Fast greedy MAP inference for determinantal point process to improve recommendation diversity"
(NeurIPS 2018), arXiv:1709.05135. Kernels:

    rbf         exp(-|x - y|² / (2 bandwidth²)); the bandwidth is the median distance unless given (see `similarity`)
    cosine      x·y / (|x| |y|); a zero vector is unlike all others
    tanimoto    x·y / (|x|² + |y|² - x·y) of bits or counts, as they were before centring (see `similarity`)
    score-dpp   q(x) · cos(x, y) · q(y)        q(x) = exp(theta · score(x) / 2)

`score-dpp` is quality times similarity, log-linear in the features of x, here the score alone: Kulesza & Taskar,
"Determinantal Point Processes for Machine Learning" (2012), arXiv:1207.6083, sections 3.1 and 4.1.1. A pick adds theta
· score(x) + log of what the picks leave of x in cos(x, x): a score that is one standard deviation higher is worth e
times as much novelty (theta = 1). Scores are standardised in each problem's pool, an unknown one counts as the lowest
known. q is divided by its largest value, relative to which is the ridge.

There is no linear kernel: greedy MAP with I + H Hᵀ / lam *is* RepExp, pick for pick. The cosine kernel is RepExp on
vectors of length 1, as lam goes to 0; score-dpp's is on vectors of length q.

We differ in the ridge, 1e-6. Chen et al. stop where K has no rank left (cosine: after d picks); K + ridge I orders all
n. Up to the rank of K, the picks are theirs. After it each pick has the largest kernel bonus, which is RepExp's with
lam = ridge, and copies of picks come last. We also differ in cost, see `elliptical`; rbf and tanimoto store n²/4
float64 (82 MB for 6,400 responses).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from harness import Pool

from .numerics.columns import (
    Copies,
    Float64s,
    RanksAfter,
    check_parameters,
    column_of,
    farthest_from_mean,
    scores_of,
    standardised,
    vectors_of,
)
from .numerics.elliptical import Explained, determinant_order, elliptical_order
from .numerics.similarity import Gaussian, Tanimoto, unit_rows

RIDGE = 1e-6


def reference_order(kernel: Float64s, ridge: float, picked: Sequence[int]) -> list[int]:
    """Return all n indices by Chen et al. 2018, Algorithm 1, on kernel + ridge I and to the last row: O(n³).

    kernel (n, n). `picked`: the first pick, or all earlier picks; they come first.
    """
    n = len(kernel)
    kernel = kernel + ridge * np.eye(n)
    factor = np.empty((n, 0))  # c_i of the paper, one row each
    gain = kernel.diagonal().copy()  # d_i² of the paper; the logarithm of it is what the row adds
    order: list[int] = []
    while len(order) < n:
        j = picked[len(order)] if len(order) < len(picked) else int(gain.argmax())
        order.append(j)
        e = (kernel[j] - factor @ factor[j]) / np.sqrt(gain[j])
        factor = np.column_stack([factor, e])
        gain -= e**2
        gain[j] = -np.inf
    return order


def reference_residuals(kernel: Float64s, ridge: float, picked: Sequence[int]) -> Float64s:
    """Return k(x, x) - k(x, S) (K_S + ridge I)⁻¹ k(S, x) for every x, (n,), where S is `picked`.

    Plus the ridge, it is the factor by which x multiplies the determinant. For an x in S it is that of a copy of x.
    """
    some = list(picked)
    explained = np.linalg.solve(kernel[np.ix_(some, some)] + ridge * np.eye(len(some)), kernel[some])
    return np.asarray(kernel.diagonal() - (kernel[some] * explained).sum(axis=0))


@dataclass(frozen=True)
class DPPMap:
    """Greedy DPP MAP (Chen et al. 2018): each pick adds most to the log-determinant of the kernel.

    `kernel`: "rbf" (with `bandwidth`; none is the median distance), "cosine", or for bits and counts
    "tanimoto". `ridge`: added to its diagonal.
    `first`: "random" (uniform) or "max" (the response farthest from the pool's mean, no randomness).
    """

    reads: ClassVar[tuple[str, ...]] = ()

    kernel: Literal["rbf", "cosine", "tanimoto"] = "rbf"
    bandwidth: float | None = None
    ridge: float = RIDGE
    first: Literal["random", "max"] = "random"

    def __post_init__(self) -> None:
        check_parameters("dpp-map", self, ridge=">= 1e-10", bandwidth="> 0")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily. Equal rows come by index; other ties as in `elliptical`."""
        h = vectors_of(pool, "dpp-map")  # (n, d)
        if not len(h):
            return iter(())
        first = int(rng.integers(len(h))) if self.first == "random" else farthest_from_mean(h)
        return self._order(pool, first)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`, by what each adds to the log-determinant of verified ones and picks."""
        return self._order(pool, None, verified)

    def _order(self, pool: Pool, first: int | None, picked: Sequence[int] = ()) -> Iterator[int]:
        h = vectors_of(pool, "dpp-map")  # (n, d)
        if self.kernel == "cosine":
            yield from elliptical_order(unit_rows(h), self.ridge, first, picked)
            return
        copies = Copies(h)
        is_tanimoto, rows = self.kernel == "tanimoto", copies.first
        kernel = Tanimoto.of(pool, "dpp-map", rows) if is_tanimoto else Gaussian.of(h[rows], self.bandwidth)
        yield from determinant_order(Explained(kernel, self.ridge), copies, first, picked)


@dataclass(frozen=True)
class ScoreDPP(RanksAfter):
    """Greedy DPP MAP with a score as quality (Kulesza & Taskar 2012): high scores, and unlike each other.

    `theta`: how much the score counts, standardised in the pool; 0 not at all. `by`: the score's name, or "logprob" or
    "mean-logprob"; none is the pool's only score.
    """

    reads: ClassVar[tuple[str, ...]] = ()

    theta: float = 1.0
    by: str | None = None

    def __post_init__(self) -> None:
        check_parameters("score-dpp", self, theta=">= 0")

    @property
    def needs(self) -> tuple[str, ...]:
        """The vectors, and the column with the score."""
        return ("embeddings", column_of(self.by))

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`, by what each adds to the log-determinant of verified ones and picks."""
        score = standardised(scores_of(pool, self.by, "score-dpp"))
        rows = unit_rows(vectors_of(pool, "score-dpp"))
        if not len(rows):
            return iter(())
        quality = np.exp(self.theta * (score - score.max()) / 2)  # (n,)
        first = None if verified else int(score.argmax())
        return elliptical_order(quality[:, None] * rows, RIDGE, first, picked=verified)
