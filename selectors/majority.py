"""Majority (Wang et al. 2023): all responses with the answer that has most votes first, then those with the next.

    clusters   responses with equal canonical answers
    votes      of a cluster: its size, or with `weight=NAME` the sum of its responses' scores
    order      the cluster with most votes, whole, then the next; equal votes in random order

Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models" (ICLR 2023), arXiv:2203.11171,
return the answer of the first cluster. They compare counting with sums of probabilities (their Table 1): those are
`weight=logprob`, and `weight=mean-logprob` with log-probabilities divided by the length. Li et al., "Making Large
Language Models Better Reasoners with Step-Aware Verifier" (ACL 2023), arXiv:2206.02336, sum the scores of a verifier. A
sum asks for scores of at least 0, such as probabilities: negative ones make a larger cluster count less. An unknown
score counts as 0.

If the verdict depends on the answer alone, a second response of a cluster brings nothing new, and `answer-round-robin`
needs fewer calls: it takes one of each in turn, here `turns=true`. This order shows what a vote alone is worth.
Responses without an answer come last, in random order, or form one more cluster (`unanswered=cluster`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from math import fsum
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from harness import Pool, hookimpl

from .answer_round_robin import check_unanswered, clustered
from .numerics.scores import LIKELIHOODS, column_of, scores_of

if TYPE_CHECKING:
    from .numerics.vectors import Float64s


@dataclass(frozen=True)
class Majority:
    """Majority vote (Wang et al. 2023): all responses with the commonest answer first, then those with the next.

    `weight`: the score whose sum is a cluster's vote; none counts responses. `by`: the score that orders a cluster,
    highest first; none is random order. Both may be "logprob" or "mean-logprob". `turns`: one of each cluster in turn.
    `unanswered`: responses without an answer come "last", or are one more "cluster".
    """

    reads: ClassVar[tuple[str, ...]] = ("answers",)

    weight: str | None = None
    by: str | None = None
    turns: bool = False
    unanswered: Literal["last", "cluster"] = "last"

    def __post_init__(self) -> None:
        check_unanswered("majority", self.unanswered)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns with the scores."""
        return tuple({column_of(name): None for name in (self.weight, self.by) if name is not None})

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices; O(n log n)."""
        return self.rank_after(pool, (), rng)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`; votes are those of the whole pool, and a verified one had its turn."""
        done, votes = set(verified), self._votes(pool)
        clusters, last = clustered(pool.answers, rng, self.unanswered, verified)
        clusters.sort(key=lambda cluster: -fsum(votes[cluster]))  # stable: equal votes stay in random order
        if self.by is not None:
            score = scores_of(pool, self.by, "majority")
            score = np.where(np.isnan(score), -np.inf, score)
            for cluster in clusters:
                cluster.sort(key=lambda index: (index not in done, -score[index]))
        order = chain.from_iterable(zip_longest(*clusters) if self.turns else clusters)
        return (index for index in chain(order, last) if index is not None and index not in done)

    def _votes(self, pool: Pool) -> Float64s:
        """What each response adds to its cluster's votes, (n,)."""
        if self.weight is None:
            return np.ones(len(pool))
        scores = scores_of(pool, self.weight, "majority")
        return np.exp(scores - scores.max(initial=-np.inf)) if self.weight in LIKELIHOODS else np.nan_to_num(scores)


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("majority", "harness_selectors.majority:Majority")
