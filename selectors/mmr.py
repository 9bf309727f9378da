"""Maximal marginal relevance: each pick is likely, and dissimilar to the earlier picks.

    score(x) = alpha · quality(x) - (1 - alpha) · max over the picks p of cos(x, p)        pick the largest

Carbonell & Goldstein, "The use of MMR, diversity-based reranking for reordering documents and producing summaries"
(SIGIR 1998), with `alpha` for their λ. We replace the relevance to a query by the quality of a response: its
log-probability, per token unless `quality=logprob`. Log-probabilities have no natural scale, and a few garbled
responses are far below all others. So the quality is the rank in the pool, from 0 (least likely) to 1; equal ones share
their mean rank.

The first pick is the likeliest response. A zero vector has the cosine 0 with all others. alpha = 1 orders by quality,
alpha = 0 is farthest-first on the unit sphere. There -cos = |x - p|² / 2 - 1, so the picks are found as kcenter's are
(see `nearest_pick`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.nearest_pick import greedy_order
from .numerics.similarity import unit_rows
from .numerics.vectors import logprobs_of, vectors_of

if TYPE_CHECKING:
    from .numerics.vectors import Float64s


def reference_quality(logprob: Float64s) -> Float64s:
    """Return for each response the share of the pool that is less likely, plus half of that equally likely, (n,)."""
    return np.array([(logprob < value).mean() + (logprob == value).mean() / 2 for value in logprob])


def reference_scores(cosine: Float64s, quality: Float64s, alpha: float, picked: Sequence[int]) -> Float64s:
    """Return every response's score (n,); cosine (n, n), quality (n,). Before the first pick the cosine counts as 0."""
    likeness = cosine[list(picked)].max(axis=0) if len(picked) else np.zeros(len(quality))
    return np.asarray(alpha * quality - (1 - alpha) * likeness)


def reference_order(cosine: Float64s, quality: Float64s, alpha: float, picked: Sequence[int] = ()) -> list[int]:
    """Return all n indices, `picked` first, then always the largest score: all scores anew at every pick, O(n³).

    MMR must return the same for `similarity.reference_cosines` and `reference_quality`, except where scores are within
    1e-9 of each other.
    """
    order = list(picked)
    while len(order) < len(quality):
        score = reference_scores(cosine, quality, alpha, order)
        score[order] = -np.inf
        order.append(int(score.argmax()))
    return order


@dataclass(frozen=True)
class MMR:
    """Maximal marginal relevance (Carbonell & Goldstein 1998): likely responses, dissimilar to the earlier picks.

    `alpha` in [0, 1]: the weight of a response's quality, its rank in the pool (0 to 1) by log-probability. `quality`:
    "mean-logprob" ranks by the mean over the tokens, "logprob" by their sum.
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings", "logprobs")
    reads: ClassVar[tuple[str, ...]] = ()

    alpha: float = 0.5
    quality: Literal["mean-logprob", "logprob"] = "mean-logprob"

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise HarnessError(f"mmr: alpha must be in [0, 1], got {self.alpha}")
        if self.quality not in ("mean-logprob", "logprob"):
            raise HarnessError(f"mmr: quality must be 'mean-logprob' or 'logprob', got {self.quality!r}")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily. No randomness; for ties see `nearest_pick`."""
        h, quality = vectors_of(pool, "mmr"), self._quality(pool)  # (n, d), (n,)
        if not len(h):
            return iter(())
        first = int(quality.argmax()) if self.alpha else 0
        return greedy_order(unit_rows(h), self.alpha * quality, (1 - self.alpha) / 2, first)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`: likely ones, dissimilar to verified ones and picks.

        The quality is still the rank in the whole pool.
        """
        h, quality = vectors_of(pool, "mmr"), self._quality(pool)
        base, weight = self.alpha * quality, (1 - self.alpha) / 2
        return greedy_order(unit_rows(h), base, weight, first=verified[0], picked=verified)

    def _quality(self, pool: Pool) -> Float64s:
        """Return each log-probability's rank in the pool (n,), 0 to 1; equal to `reference_quality` up to rounding."""
        logprob = logprobs_of(pool, "mmr")
        if self.quality == "mean-logprob":
            logprob = logprob / np.maximum(pool.lengths, 1)
        _, rank, count = np.unique(logprob, return_inverse=True, return_counts=True)
        return np.asarray((count.cumsum() - count / 2)[rank] / len(pool))


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("mmr", "harness_selectors.mmr:MMR")
