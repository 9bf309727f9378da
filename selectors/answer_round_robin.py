"""Answer round-robin (after Wang et al. 2023): one response of each final answer in turn, the commonest answer first.

    clusters   responses with equal canonical answers, by falling size; equal sizes in random order
    order      one of each cluster, then a second one of each that has two, and so on; inside a cluster at random

Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models" (ICLR 2023), arXiv:2203.11171:
the answer with the most votes is the one most likely right, and its share is a measure of confidence. They return that
answer. Here every answer has its turn, in the order of votes. Li et al., "Competition-Level Code Generation with
AlphaCode" (2022), arXiv:2203.07814, submit programs in this way: one of each cluster of equal behaviour, the largest
first.

If the verdict depends on the answer alone, this is the strongest cheap baseline: it needs one call more than there are
wrong answers with more votes than the right one. `majority:turns=true,weight=NAME` orders answers by the sum of a score
instead of their votes. Responses without an answer come last, in random order, or form one more cluster
(`unanswered=cluster`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from harness import HarnessError, Pool, hookimpl

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class AnswerRoundRobin:
    """Answer round-robin (after Wang et al. 2023): one response of each final answer in turn, the commonest first.

    `order`: the order of the clusters, by "size" or "random". `unanswered`: responses without an answer come "last", or
    are one more "cluster".
    """

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("answers",)

    order: Literal["size", "random"] = "size"
    unanswered: Literal["last", "cluster"] = "last"

    def __post_init__(self) -> None:
        if self.order not in ("size", "random"):
            raise HarnessError(f"answer-round-robin: order must be 'size' or 'random', got {self.order!r}")
        check_unanswered("answer-round-robin", self.unanswered)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily; O(n) in all."""
        return self.rank_after(pool, (), rng)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`; each verified response counts as a turn of its answer."""
        verified_set = set(verified)
        clusters, last = clustered(pool.answers, rng, self.unanswered, verified)
        if self.order == "size":
            clusters.sort(key=len, reverse=True)  # a stable sort: clusters of one size stay in random order
        return (index for index in _in_turn(clusters, last) if index not in verified_set)


def clustered(
    answers: Sequence[str | None],
    rng: np.random.Generator,
    unanswered: Literal["last", "cluster"],
    picked: Sequence[int] = (),
) -> tuple[list[list[int]], list[int]]:
    """Return the lists of indices with equal answers, and the list of indices that come last.

    Everything is in random order, but in each list the indices already `picked` come first. Last come the responses
    without an answer; with `unanswered` "cluster" they are one more cluster, and the second list is empty.
    """
    by_answer: dict[str | None, list[int]] = {}
    for index in rng.permutation(len(answers)).tolist():
        by_answer.setdefault(answers[index], []).append(index)
    picked_set = set(picked)
    for cluster in by_answer.values():
        cluster.sort(key=lambda index: index not in picked_set)
    last = by_answer.pop(None, []) if unanswered == "last" else []
    clusters = list(by_answer.values())  # common answers tend to appear early, hence another permutation
    return [clusters[i] for i in rng.permutation(len(clusters))], last


def check_unanswered(selector: str, unanswered: str) -> None:
    """Raise HarnessError unless `unanswered` is "last" or "cluster"."""
    if unanswered not in ("last", "cluster"):
        raise HarnessError(f"{selector}: unanswered must be 'last' or 'cluster', got {unanswered!r}")


def _in_turn(clusters: list[list[int]], last: list[int]) -> Iterator[int]:
    turn = 0
    while clusters:
        yield from (cluster[turn] for cluster in clusters)
        turn += 1
        clusters = [cluster for cluster in clusters if len(cluster) > turn]
    yield from last


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("answer-round-robin", "harness_selectors.answer_round_robin:AnswerRoundRobin")
