"""Greedy MAP of a quality-diversity DPP: each pick adds most to the log-determinant of a kernel weighted by a score.

    L(x, y) = q(x) · cos(x, y) · q(y)        q(x) = exp(theta · score(x) / 2)
    pick the x with the largest log det(L_{S+x} + ridge I) - log det(L_S + ridge I)

Kulesza & Taskar, "Determinantal Point Processes for Machine Learning" (2012), arXiv:1207.6083, section 3.1: quality
times similarity, log-linear in the features of x (section 4.1.1), here the score alone. Greedy MAP as Chen, Zhang &
Zhou 2018, arXiv:1709.05135. Up to the rank of L a pick adds theta · score(x) + log of what the picks leave of x in
cos(x, x): a score that is one standard deviation higher is worth e times as much novelty (theta = 1).

Scores are standardised in each problem's pool, an unknown one counts as the lowest known. q is divided by its largest
value, relative to which is the ridge, 1e-6. As in `dpp-map`, the ridge orders the rest once L has no rank left.
theta = 0 is `dpp-map:kernel=cosine,first=max` but for the first pick. Since L = H Hᵀ for H of rows q(x) x / |x|, the
order is that of `elliptical`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.elliptical import elliptical_order
from .numerics.scores import column_of, scores_of, standardised
from .numerics.similarity import unit_rows
from .numerics.vectors import vectors_of

RIDGE = 1e-6


@dataclass(frozen=True)
class ScoreDPP:
    """Greedy DPP MAP with a score as quality (Kulesza & Taskar 2012): high scores, and unlike each other.

    `theta`: how much the score counts, standardised in the pool; 0 not at all. `by`: the score's name, or "logprob" or
    "mean-logprob"; none is the pool's only score.
    """

    reads: ClassVar[tuple[str, ...]] = ()

    theta: float = 1.0
    by: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.theta < np.inf:
            raise HarnessError(f"score-dpp: theta must be >= 0 and finite, got {self.theta}")

    @property
    def needs(self) -> tuple[str, ...]:
        """The vectors, and the column with the score."""
        return ("embeddings", column_of(self.by))

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily, the highest score first. No randomness; for ties see `elliptical`."""
        return self.rank_after(pool, (), rng)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`, by what each adds to the log-determinant of verified ones and picks."""
        score = standardised(scores_of(pool, self.by, "score-dpp"))
        rows = unit_rows(vectors_of(pool, "score-dpp"))
        if not len(rows):
            return iter(())
        quality = np.exp(self.theta * (score - score.max()) / 2)  # (n,)
        first = None if verified else int(score.argmax())
        return elliptical_order(quality[:, None] * rows, RIDGE, first, picked=verified)


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("score-dpp", "harness_selectors.score_dpp:ScoreDPP")
