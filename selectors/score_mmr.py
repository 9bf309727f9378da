"""Maximal marginal relevance by a score: each pick has a high score, and is dissimilar to the earlier picks.

    value(x) = lam · score(x) - (1 - lam) · max over the picks p of cos(x, p)        pick the largest

Carbonell & Goldstein, "The use of MMR, diversity-based reranking for reordering documents and producing summaries"
(SIGIR 1998), with a score in the place of the relevance to a query. Scores have no natural scale, so they are
standardised in each problem's pool: mean 0, standard deviation 1. An unknown score counts as the lowest known one.

The first pick has the highest score. A zero vector has the cosine 0 with all others. lam = 1 orders by the score alone.
`mmr` is the same with the rank of the log-probability as its score. The picks are found as kcenter's are, since
-cos = |x - p|² / 2 - 1 (see `nearest_pick`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import HarnessError, Pool, hookimpl

from .numerics.nearest_pick import greedy_order
from .numerics.scores import column_of, scores_of, standardised
from .numerics.similarity import unit_rows
from .numerics.vectors import vectors_of

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ScoreMMR:
    """Maximal marginal relevance (Carbonell & Goldstein 1998): high scores, dissimilar to the earlier picks.

    `lam` in [0, 1]: the weight of the score, standardised in the pool. `by`: the score's name, or "logprob" or
    "mean-logprob"; none is the pool's only score.
    """

    reads: ClassVar[tuple[str, ...]] = ()

    lam: float = 0.5
    by: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.lam <= 1:
            raise HarnessError(f"score-mmr: lam must be in [0, 1], got {self.lam}")

    @property
    def needs(self) -> tuple[str, ...]:
        """The vectors, and the column with the score."""
        return ("embeddings", column_of(self.by))

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily. No randomness; for ties see `nearest_pick`."""
        return self.rank_after(pool, (), rng)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`: of high scores in the whole pool, unlike verified ones and picks."""
        score = standardised(scores_of(pool, self.by, "score-mmr"))
        rows = unit_rows(vectors_of(pool, "score-mmr"))
        if not len(rows):
            return iter(())
        return greedy_order(rows, self.lam * score, (1 - self.lam) / 2, int(score.argmax()), verified)


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("score-mmr", "harness_selectors.score_mmr:ScoreMMR")
