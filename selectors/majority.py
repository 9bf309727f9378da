"""Orders by final answers: `majority` takes all responses with the commonest answer first, `answer-round-robin` turns.

    clusters              responses with equal canonical answers
    votes                 of a cluster: its size, or with `weight=NAME` the sum of its responses' scores
    majority              the cluster with most votes, whole, then the next
    answer-round-robin    one of each cluster, by falling size, then a second one of each that has two, and so on

Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models" (ICLR 2023), arXiv:2203.11171:
the answer with the most votes is the one most likely right. They return that answer, and compare counting with sums of
probabilities (their Table 1): those are `weight=logprob`, and `weight=mean-logprob` with log-probabilities divided by
the length. Li et al., "Making Large Language Models Better Reasoners with Step-Aware Verifier" (ACL 2023),
arXiv:2206.02336, sum the scores of a verifier. A sum asks for scores of at least 0, such as probabilities: negative
ones make a larger cluster count less. An unknown score counts as 0.

If the verdict depends on the answer alone, a second response of a cluster brings nothing new. Then turns are the
strongest cheap baseline: one call more than there are wrong answers with more votes than the right one. Li et al.,
"Competition-Level Code Generation with AlphaCode" (2022), arXiv:2203.07814, submit programs so: one of each cluster of
equal behaviour, the largest first. `majority:turns=true,weight=NAME` takes turns by the sum of a score.

Equal votes come in random order, and so do the responses of a cluster. Responses without an answer come last, in random
order, or form one more cluster (`unanswered=cluster`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from math import fsum
from typing import ClassVar, Literal

import numpy as np

from harness import Pool

from .numerics.columns import LIKELIHOODS, Float64s, RanksAfter, check_parameters, column_of, scores_of

Unanswered = Literal["last", "cluster"]


def clustered(
    answers: Sequence[str | None], rng: np.random.Generator, unanswered: Unanswered, picked: Sequence[int] = ()
) -> tuple[list[list[int]], list[int]]:
    """Return the lists of indices with equal answers, and the list of indices that come last.

    Everything is in random order, but in each list the indices already `picked` come first. Last come the responses
    without an answer; with `unanswered` "cluster" they are one more cluster, and the second list is empty.
    """
    by_answer: dict[str | None, list[int]] = {}
    for index in rng.permutation(len(answers)).tolist():
        by_answer.setdefault(answers[index], []).append(index)
    done = set(picked)
    for cluster in by_answer.values():
        cluster.sort(key=lambda index: index not in done)
    last = by_answer.pop(None, []) if unanswered == "last" else []
    clusters = list(by_answer.values())  # common answers tend to appear early, hence another permutation
    return [clusters[i] for i in rng.permutation(len(clusters))], last


@dataclass(frozen=True)
class AnswerRoundRobin(RanksAfter):
    """Answer round-robin (after Wang et al. 2023): one response of each final answer in turn, the commonest first.

    `order`: the order of the clusters, by "size" or "random". `unanswered`: responses without an answer come "last", or
    are one more "cluster".
    """

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("answers",)

    order: Literal["size", "random"] = "size"
    unanswered: Unanswered = "last"

    def __post_init__(self) -> None:
        check_parameters("answer-round-robin", self)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`; each verified response counts as a turn of its answer."""
        clusters, last = clustered(pool.answers, rng, self.unanswered, verified)
        if self.order == "size":
            clusters.sort(key=len, reverse=True)  # a stable sort: clusters of one size stay in random order
        done = {None, *verified}
        return (index for index in chain(*zip_longest(*clusters), last) if index not in done)


@dataclass(frozen=True)
class Majority(RanksAfter):
    """Majority vote (Wang et al. 2023): all responses with the commonest answer first, then those with the next.

    `weight`: the score whose sum is a cluster's vote; none counts responses. `by`: the score that orders a cluster,
    highest first; none is random order. Both may be "logprob" or "mean-logprob". `turns`: one of each cluster in turn.
    `unanswered`: responses without an answer come "last", or are one more "cluster".
    """

    reads: ClassVar[tuple[str, ...]] = ("answers",)

    weight: str | None = None
    by: str | None = None
    turns: bool = False
    unanswered: Unanswered = "last"

    def __post_init__(self) -> None:
        check_parameters("majority", self)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns with the scores."""
        return tuple({column_of(name): None for name in (self.weight, self.by) if name is not None})

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`; votes are those of the whole pool, and a verified one had its turn."""
        done, votes = {None, *verified}, self._votes(pool)
        clusters, last = clustered(pool.answers, rng, self.unanswered, verified)
        clusters.sort(key=lambda cluster: -fsum(votes[cluster]))  # stable: equal votes stay in random order
        if self.by is not None:
            score = scores_of(pool, self.by, "majority")
            score = np.where(np.isnan(score), -np.inf, score)
            for cluster in clusters:
                cluster.sort(key=lambda index: (index not in done, -score[index]))
        order = chain.from_iterable(zip_longest(*clusters) if self.turns else clusters)
        return (index for index in chain(order, last) if index not in done)

    def _votes(self, pool: Pool) -> Float64s:
        """What each response adds to its cluster's votes, (n,)."""
        if self.weight is None:
            return np.ones(len(pool))
        scores = scores_of(pool, self.weight, "majority")
        return np.exp(scores - scores.max(initial=-np.inf)) if self.weight in LIKELIHOODS else np.nan_to_num(scores)
