"""Outcome UCB (Song et al. 2025): each pick has the largest value + c · bonus; the bonus is for rarely picked answers.

    historical   b(a)   = min(1, √(1 / N(a)))                   N(a): how often answer a was sampled so far
    batch        b(a_i) = -(1/n) Σ over j ≠ i of 1[a_j = a_i]   over the n samples of a batch

Song, Kempe, Munos, "Outcome-based Exploration for LLM Reasoning" (2025), arXiv:2509.06941: in RL on problems with one
final answer, c · b (c = 0.2) is added to the GRPO advantage of each sample. N counts over the whole training. A
baseline, the batch's mean or a constant, may be subtracted from the historical bonus. None of their bonuses uses hidden
states. We differ because responses are picked from a pool, and rewards are unknown:

- N(a) counts the picks with answer a and the candidate itself, b = √(1 / (1 + picks)): the first of an answer gets 1.
- The batch of a candidate is the picks so far and itself: b = -picks with its answer / (picks + 1).
- The advantage, which needs verdicts, is replaced by the answer's share of the pool (the votes of self-consistency), or
  by 0 (`value=none`: the answers then come in turn, in random order). With the paper's c = 0.2 an answer ahead of all
  others by a larger share would be used up before the second is tried. So the default is c = 1, above any share.
- A baseline that is the same for all candidates changes no order, and is left out.

`outcome-ucb-seen` learns where verdicts become known: an answer's value is the mean outcome of its picks, and the share
stands in before there is one. If the verdict depends on the answer alone, a wrong one is not tried again before others.

The pick inside an answer is random, and so are ties. Responses without an answer: see `majority`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from harness import Outcome, Pool

from .majority import Unanswered, clustered
from .numerics.columns import RanksAfter, check_parameters


@dataclass(frozen=True)
class OutcomeUcb(RanksAfter):
    """Outcome UCB (Song et al. 2025): largest share of the pool's answers + c · bonus for an answer rarely picked.

    `bonus`: "historical" or "batch"; `c`: its weight; `value`: "share" or "none"; `unanswered`: "last" or "cluster".
    """

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("answers",)

    c: float = 1.0
    bonus: Literal["historical", "batch"] = "historical"
    value: Literal["share", "none"] = "share"
    unanswered: Unanswered = "last"

    def __post_init__(self) -> None:
        check_parameters("outcome-ucb", self, c=">= 0")

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Yield the indices that are not in `verified`, best first, as if the verified ones had been the first picks.

        Each verified response lowers the bonus of its answer; no verdict is read.
        """
        clusters, last = clustered(pool.answers, rng, self.unanswered, verified)
        done = set(verified)
        picked = np.array([len(done.intersection(cluster)) for cluster in clusters], np.intp)  # (answers,)
        size = np.array([len(cluster) for cluster in clusters], np.intp)
        value = size / len(pool) if self.value == "share" else np.zeros(len(size))
        for t in range(picked.sum(), size.sum()):
            bonus = np.sqrt(1 / (1 + picked)) if self.bonus == "historical" else -picked / (t + 1)
            answer = int(np.where(picked < size, value + self.c * bonus, -np.inf).argmax())  # clusters are shuffled
            yield clusters[answer][picked[answer]]
            picked[answer] += 1
        yield from (index for index in last if index not in done)


@dataclass(frozen=True)
class OutcomeUcbSeen:
    """Outcome UCB with verdicts (Song et al. 2025): the mean outcome of an answer's picks + c · a bonus for few picks.

    `c`: the weight of the bonus.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("answers",)

    c: float = 1.0

    def __post_init__(self) -> None:
        check_parameters("outcome-ucb-seen", self, c=">= 0")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily: the order without outcomes."""
        return OutcomeUcb(c=self.c).rank(pool, rng)

    def pick_after(self, pool: Pool, outcomes: Sequence[Outcome], rng: np.random.Generator) -> int:
        """Return the pick after these outcomes, ties at random; O(n). An outcome that is not known counts as a pick."""
        clusters, last = clustered(pool.answers, rng, "last", [outcome.index for outcome in outcomes])
        values = {outcome.index: outcome.value for outcome in outcomes}
        best, choice = -np.inf, -1
        for cluster in clusters:  # in random order, the picked first
            picks = [values[index] for index in cluster if index in values]
            seen = [value for value in picks if value is not None]
            value = float(np.mean(seen)) if seen else len(cluster) / len(pool)
            score = value + self.c / np.sqrt(1 + len(picks))
            if len(picks) < len(cluster) and score > best:
                best, choice = score, cluster[len(picks)]
        return choice if choice >= 0 else next(index for index in last if index not in values)
