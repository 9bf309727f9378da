"""Answer coverage: one response of each final answer in turn, first the answers that represent the pool best.

    place(x)   the place of response x in facility location's order of the whole pool: 1, 2, ...
    key(A)     the smallest place of a response with answer A, over |A|^power
    order      one response of each answer by rising key, then a second of each that has two, and so on; inside an
               answer by place; responses without an answer come last, by place

It joins two baselines that win on different pools. Facility location (Mirzasoleiman et al. 2013, arXiv:1411.0541) takes
representatives of the texts, but spends calls on texts with the same answer. Answer round-robin (after Wang et al.
2022, arXiv:2203.11171, and AlphaCode's clusters, Li et al. 2022, arXiv:2203.07814) takes each answer once, but knows
only how common it is. Here the texts say which answer comes next, and which of its responses. `power` weighs how common
it is: 0 counts places alone, 0.5 was chosen on halves of three pools (docs/log.md). Without answers it is facility
location.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness import Pool

from .facility_location import FacilityLocation
from .numerics.columns import RanksAfter, check_parameters


@dataclass(frozen=True)
class AnswerCoverage(RanksAfter):
    """One response of each answer in turn, in the order in which the answers represent the pool (facility location).

    `power`: how much a common answer comes forward; 0 not at all.
    """

    reads: ClassVar[tuple[str, ...]] = ("answers",)

    power: float = 0.5

    def __post_init__(self) -> None:
        check_parameters("answer-coverage", self, power=">= 0")

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`; each verified response counts as a turn of its answer."""
        places = list(FacilityLocation().rank(pool, rng))
        place, done = {index: at for at, index in enumerate(places, 1)}, set(verified)
        answers: dict[str | None, list[int]] = {}
        for index in places:
            answers.setdefault(pool.answers[index], []).append(index)
        last = answers.pop(None, [])
        clusters = sorted(answers.values(), key=lambda cluster: place[cluster[0]] / len(cluster) ** self.power)
        turns = [sorted(cluster, key=lambda index: index not in done) for cluster in clusters]  # stable: verified first
        rounds = range(max(map(len, turns), default=0))
        order = [cluster[turn] for turn in rounds for cluster in turns if turn < len(cluster)]
        return (index for index in [*order, *last] if index not in done)
