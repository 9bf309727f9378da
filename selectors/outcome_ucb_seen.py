"""Outcome UCB with verdicts (Song et al. 2025): an answer's value is the mean outcome of its picks so far.

    pick  argmax over the answers with responses left of value(a) + c / √(1 + picks(a))
    value(a)   the mean outcome of the picks with answer a; before there is one, the answer's share of the pool

It is `outcome_ucb` (see there for the source) where verdicts become known: the share of votes only stands in for what
has not been verified. If the verdict depends on the answer alone, a wrong one is not tried again before the others.
Responses without an answer come last. It learns: in tables it has a mark. Without any outcome the order is that of
`outcome-ucb` with the historical bonus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness import HarnessError, Outcome, Pool, hookimpl

from .answer_round_robin import clustered
from .outcome_ucb import OutcomeUcb


@dataclass(frozen=True)
class OutcomeUcbSeen:
    """Outcome UCB with verdicts (Song et al. 2025): the mean outcome of an answer's picks + c · a bonus for few picks.

    `c`: the weight of the bonus.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("answers",)

    c: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.c < np.inf:
            raise HarnessError(f"outcome-ucb-seen: c must be >= 0 and finite, got {self.c}")

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


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("outcome-ucb-seen", "harness_selectors.outcome_ucb_seen:OutcomeUcbSeen")
