"""Outcome UCB (Song et al. 2025): each pick has the largest value + c · bonus; the bonus is for rarely picked answers.

    historical   b(a)   = min(1, √(1 / N(a)))                   N(a): how often answer a was sampled so far
    batch        b(a_i) = -(1/n) Σ over j ≠ i of 1[a_j = a_i]   over the n samples of a batch

Song, Kempe, Munos, "Outcome-based Exploration for LLM Reasoning" (2025), arXiv:2509.06941: in RL on problems with one
final answer, c · b (c = 0.2) is added to the GRPO advantage of each sample. N counts over the whole training. A
baseline, the batch's mean or a constant, may be subtracted from the historical bonus. None of their bonuses uses hidden
states.

We differ because responses are picked from a pool, and rewards are unknown:

- N(a) counts the picks with answer a and the candidate itself, b = √(1 / (1 + picks)): the first of an answer gets 1.
- The batch of a candidate is the picks so far and itself: b = -picks with its answer / (picks + 1).
- The advantage, which needs verdicts, is replaced by the answer's share of the pool (the votes of self-consistency), or
  by 0 (`value=none`: the answers then come in turn, in random order). With the paper's c = 0.2 an answer ahead of all
  others by a larger share would be used up before the second is tried. So the default is c = 1, above any share.
- A baseline that is the same for all candidates changes no order, and is left out.

The pick inside an answer is random, and so are ties. Responses without an answer: see `answer_round_robin`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .answer_round_robin import check_unanswered, clustered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class OutcomeUcb:
    """Outcome UCB (Song et al. 2025): largest share of the pool's answers + c · bonus for an answer rarely picked.

    `bonus`: "historical" or "batch"; `c`: its weight; `value`: "share" or "none"; `unanswered`: "last" or "cluster".
    """

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("answers",)

    c: float = 1.0
    bonus: Literal["historical", "batch"] = "historical"
    value: Literal["share", "none"] = "share"
    unanswered: Literal["last", "cluster"] = "last"

    def __post_init__(self) -> None:
        if not 0 <= self.c < np.inf:
            allowed = ">= 0 and finite" if self.c > 0 else ">= 0"
            raise HarnessError(f"outcome-ucb: c must be {allowed}, got {self.c}")
        if self.bonus not in ("historical", "batch"):
            raise HarnessError(f"outcome-ucb: bonus must be 'historical' or 'batch', got {self.bonus!r}")
        if self.value not in ("share", "none"):
            raise HarnessError(f"outcome-ucb: value must be 'share' or 'none', got {self.value!r}")
        check_unanswered("outcome-ucb", self.unanswered)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily; O(answers) per pick."""
        return self.rank_after(pool, (), rng)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Yield the indices that are not in `verified`, best first, as if the verified ones had been the first picks.

        Each verified response lowers the bonus of its answer; no verdict is read.
        """
        clusters, last = clustered(pool.answers, rng, self.unanswered, verified)
        verified_set = set(verified)
        picked = np.array([len(verified_set.intersection(cluster)) for cluster in clusters], np.intp)  # (answers,)
        unanswered = (index for index in last if index not in verified_set)
        return chain(self._order(clusters, picked, len(pool)), unanswered)

    def _order(self, clusters: list[list[int]], picked: NDArray[np.intp], n: int) -> Iterator[int]:
        size = np.array([len(cluster) for cluster in clusters], np.intp)  # (answers,)
        value = size / n if self.value == "share" else np.zeros(len(size))
        for t in range(picked.sum(), size.sum()):
            score = np.where(picked < size, value + self.c * self._bonus(picked, t), -np.inf)
            answer = int(score.argmax())  # the clusters are in random order, so ties are too
            yield clusters[answer][picked[answer]]
            picked[answer] += 1

    def _bonus(self, picked: NDArray[np.intp], t: int) -> Floats:
        """Return the bonus of each answer (answers,) after t picks."""
        return np.sqrt(1 / (1 + picked)) if self.bonus == "historical" else -picked / (t + 1)


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("outcome-ucb", "harness_selectors.outcome_ucb:OutcomeUcb")
