"""Maximal marginal relevance: each pick is good, and dissimilar to the earlier picks.

    score(x) = alpha · quality(x) - (1 - alpha) · max over the picks p of cos(x, p)        pick the largest

Carbonell & Goldstein, "The use of MMR, diversity-based reranking for reordering documents and producing summaries"
(SIGIR 1998), with `alpha` for their λ. We replace the relevance to a query by the quality of a response:

    mmr         its log-probability, per token unless `quality=logprob`. Log-probabilities have no natural scale, and a
                few garbled responses are far below all others. So the quality is the rank in the pool, from 0 (least
                likely) to 1; equal ones share their mean rank
    score-mmr   a score, standardised in each problem's pool: mean 0, standard deviation 1. An unknown score counts as
                the lowest known one. `lam` is alpha

The first pick is the best response. A zero vector has the cosine 0 with all others. alpha = 1 orders by quality, alpha
= 0 is farthest-first on the unit sphere. There -cos = |x - p|² / 2 - 1, so the picks are found as kcenter's are (see
`nearest_pick`, also for ties).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from harness import Pool

from .numerics.columns import (
    Float64s,
    RanksAfter,
    check_parameters,
    column_of,
    logprobs_of,
    scores_of,
    standardised,
    vectors_of,
)
from .numerics.nearest_pick import greedy_order
from .numerics.similarity import Tanimoto, unit_rows


def reference_quality(logprob: Float64s) -> Float64s:
    """Return for each response the share of the pool that is less likely, plus half of that equally likely, (n,)."""
    return np.array([(logprob < value).mean() + (logprob == value).mean() / 2 for value in logprob])


def reference_scores(cosine: Float64s, quality: Float64s, alpha: float, picked: Sequence[int]) -> Float64s:
    """Return every response's score (n,); cosine (n, n), quality (n,). Before the first pick the cosine counts as 0."""
    likeness = cosine[list(picked)].max(axis=0) if len(picked) else np.zeros(len(quality))
    return np.asarray(alpha * quality - (1 - alpha) * likeness)


def reference_order(cosine: Float64s, quality: Float64s, alpha: float, picked: Sequence[int] = ()) -> list[int]:
    """Return all n indices, `picked` first, then always the largest score: all scores anew at every pick, O(n³)."""
    order = list(picked)
    while len(order) < len(quality):
        score = reference_scores(cosine, quality, alpha, order)
        score[order] = -np.inf
        order.append(int(score.argmax()))
    return order


Similarity = Literal["cosine", "tanimoto"]


def _order(
    selector: MMR | ScoreMMR, pool: Pool, quality: Float64s, alpha: float, picked: Sequence[int]
) -> Iterator[int]:
    """Return the indices not in `picked`, which count as picks, lazily; without any, the best comes first."""
    name = "mmr" if isinstance(selector, MMR) else "score-mmr"
    h = vectors_of(pool, name)  # (n, d)
    if not len(h):
        return iter(())
    first = int(quality.argmax()) if alpha or name == "score-mmr" else 0
    if selector.similarity == "tanimoto":
        return Tanimoto.of(pool, name).order(alpha * quality, 1 - alpha, first, picked)
    return greedy_order(unit_rows(h), alpha * quality, (1 - alpha) / 2, first, picked)


@dataclass(frozen=True)
class MMR(RanksAfter):
    """Maximal marginal relevance (Carbonell & Goldstein 1998): likely responses, dissimilar to the earlier picks.

    `alpha` in [0, 1]: the weight of a response's quality, its rank in the pool (0 to 1) by log-probability. `quality`:
    "mean-logprob" ranks by the mean over the tokens, "logprob" by their sum. `similarity`: "cosine",
    or for bits and counts "tanimoto".
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings", "logprobs")
    reads: ClassVar[tuple[str, ...]] = ()

    alpha: float = 0.5
    quality: Literal["mean-logprob", "logprob"] = "mean-logprob"
    similarity: Similarity = "cosine"

    def __post_init__(self) -> None:
        check_parameters("mmr", self, alpha="in [0, 1]")

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`: likely ones in the whole pool, unlike verified ones and picks."""
        logprob = logprobs_of(pool, "mmr", per_token=self.quality == "mean-logprob")
        _, rank, count = np.unique(logprob, return_inverse=True, return_counts=True)
        quality = (count.cumsum() - count / 2)[rank] / max(len(pool), 1)  # `reference_quality`, up to rounding
        return _order(self, pool, quality, self.alpha, verified)


@dataclass(frozen=True)
class ScoreMMR(RanksAfter):
    """Maximal marginal relevance (Carbonell & Goldstein 1998): high scores, dissimilar to the earlier picks.

    `lam` in [0, 1]: the weight of the score, standardised in the pool. `by`: the score's name, or "logprob" or
    "mean-logprob"; none is the pool's only score. `similarity`: "cosine", or for bits and counts "tanimoto".
    """

    reads: ClassVar[tuple[str, ...]] = ()

    lam: float = 0.5
    by: str | None = None
    similarity: Similarity = "cosine"

    def __post_init__(self) -> None:
        check_parameters("score-mmr", self, lam="in [0, 1]")

    @property
    def needs(self) -> tuple[str, ...]:
        """The vectors, and the column with the score."""
        return ("embeddings", column_of(self.by))

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`: of high scores in the whole pool, unlike verified ones and picks."""
        score = standardised(scores_of(pool, self.by, "score-mmr"))
        return _order(self, pool, score, self.lam, verified)
