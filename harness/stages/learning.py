"""Rank with a selector that learns from the outcomes of its own picks: each outcome is revealed after its pick."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.contracts import LearnsFromOutcomes
from harness.plugin_system.picks import picked
from harness.records import Outcome, Pool, Problem

from .work import problem_seed

KNOWN = {"correct": 1.0, "wrong": 0.0}  # an error is no outcome


def pick_after(
    selector: LearnsFromOutcomes,
    pool: Pool,
    outcomes: Sequence[Outcome],
    seed: int,
    problem: Problem,
    trial: int = 0,
) -> int:
    """The selector's next pick, checked: an index of the pool that is not in `outcomes`."""
    rng = np.random.default_rng([problem_seed("rank", seed, problem), trial, len(outcomes)])
    index = selector.pick_after(pool, tuple(outcomes), rng)
    *_, last = picked([*(outcome.index for outcome in outcomes), index], len(pool))
    return last


def learnt_order(
    selector: LearnsFromOutcomes, pool: Pool, verdicts: Sequence[str], seed: int, problem: Problem, trial: int
) -> Iterator[int]:
    """Yield the indices of the pool as the selector picks them, given the verdicts of its own earlier picks alone."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(pool):
        index = pick_after(selector, pool, outcomes, seed, problem, trial)
        yield index
        outcomes.append(Outcome(index, KNOWN.get(verdicts[index])))
