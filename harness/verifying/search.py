"""The search in one problem's pool: what was picked, and what the selector picks next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.columns.orders import pick_after, ranking_rng
from harness.contracts import LearnsFromOutcomes, Ranker
from harness.errors import HarnessError
from harness.jobs.selection import Candidates, Opened, selecting
from harness.plugin_system.picks import picked
from harness.records import Outcome, Pool

from .check import Check
from .config import VerifyConfig


class Search:
    """One problem's search.

    taken  index -> its check, in the order picked; None while it is being verified
    failed  checks that ended in an error, of responses that are to be checked again or were: they count as calls
    """

    def __init__(self, config: VerifyConfig, opened: Opened, candidates: Candidates) -> None:
        self.candidates, self.config = candidates, config
        self.taken: dict[int, Check | None] = {}
        self.failed: list[Check] = []
        self._opened = opened
        self._pool: Pool | None = None
        self._order: Iterator[int] | None = None

    @property
    def id(self) -> str:
        """The problem's id."""
        return self.candidates.problem.id

    @property
    def calls(self) -> int:
        """How many checks were made or are under way."""
        return len(self.failed) + sum(check is None or check.is_call for check in self.taken.values())

    @property
    def checked(self) -> list[Check]:
        """The last check of each response that was verified, in the order verified."""
        return [check for check in self.taken.values() if check]

    @property
    def successes(self) -> list[Check]:
        """The checks that were successes, in the order verified."""
        threshold = self.config.threshold
        return [check for check in self.checked if check.is_success(threshold)]

    @property
    def is_done(self) -> bool:
        """Whether it has as many successes as are looked for."""
        return not self.config.top and len(self.successes) >= self.config.until

    @property
    def is_open(self) -> bool:
        """Whether a further response is to be verified."""
        config = self.config
        is_used_up = config.budget_per_problem is not None and self.calls >= config.budget_per_problem
        return not self.is_done and not is_used_up and len(self.taken) < len(self.candidates.responses)

    def next(self) -> int:
        """Take the index that the selector picks next."""
        opened, config = self._opened, self.config
        if self._pool is None:
            self._pool = opened.pool(self.candidates)
        with selecting(config.selector, self.candidates.problem):
            if isinstance(opened.selector, LearnsFromOutcomes):
                outcomes = [Outcome(index, check.known if check else None) for index, check in self.taken.items()]
                index = pick_after(opened.selector, self._pool, outcomes, config.seed, self.candidates.problem)
            else:
                index = self._next_of_order(self._pool)
        self.taken[index] = None
        return index

    def _next_of_order(self, pool: Pool) -> int:
        """The next index of the selector's order, without those that were taken before."""
        if self._order is None:
            rng: np.random.Generator = ranking_rng(self.config.seed, self.candidates.problem, trial=0)
            assert isinstance(self._opened.selector, Ranker)
            self._order = picked(self._opened.selector.rank(pool, rng), len(pool))
        for index in self._order:
            if index not in self.taken:
                return index
        raise HarnessError(f"the ranking ended after {len(self.taken)} of {len(pool)} responses")
