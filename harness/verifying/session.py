"""`harness.search`: ask for candidates and tell their outcomes from Python, on the journal of `harness verify --ask`.

The journal is locked during an operation only: each reads what others have added, works, writes, and lets go. So a
colleague may tell outcomes by the command line, or from another session, while this one is open.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import numpy as np

from harness.errors import HarnessError
from harness.jobs.selection import Held
from harness.system.progress import Progress

from .config import VerifyConfig
from .journal import Pick
from .loop import Loop, Row, check_of, journal_of, opened_search, remark_on, summary

Candidate: TypeAlias = Any  # a name (str), an index (int), or of several problems a pair (problem id, name or index)


class Session:
    """A search that is asked and told: `ask` gives candidates, `tell` takes an outcome. All is on the disk at once.

    A candidate is its name, its index if it has none, or, where there are several problems, a pair (problem id, name or
    index). Threads may share a session.
    """

    def __init__(self, config: VerifyConfig, progress: Progress, held: Held, ids: Mapping[str, Any]) -> None:
        self._config, self._progress, self._ids = config, progress, ids
        self._loop: Loop | None = None
        self._alone = threading.RLock()
        in_use = ExitStack()
        self._opened = in_use.enter_context(opened_search(config, progress, held))
        weakref.finalize(self, in_use.close)
        with self._reading() as loop:
            remark_on(loop, progress)
            for search in loop.searches.values():
                seen: dict[str, int] = {}
                for index, name in enumerate(search.names):
                    if name and seen.setdefault(name, index) != index:
                        raise HarnessError(
                            f"search: {name!r:.80} is the name of two candidates, {seen[name]} and {index}: names must "
                            "be unique"
                        )

    def ask(self, k: int = 1) -> list[Candidate]:
        """Up to k candidates that were never asked for, best first: fewer if no more are left, or the budget is gone.

        From now on they are `open`. HarnessError if the selector fails.
        """
        if k < 1:
            raise HarnessError(f"search: ask for at least 1 candidate, got {k}")
        with self._reading() as loop:
            return [self._shown(loop, pick) for pick in loop.ask(k)]

    def tell(self, candidate: Candidate, outcome: Any, *, correct: bool = False) -> None:
        """Write down the outcome of a candidate that was asked for.

        outcome  True (a hit) or False, a measured number (with threshold= or top=), None or "skip" (it could not be
                 checked; no call), or "error" (the check failed)
        correct  whether it replaces another outcome

        The same outcome again changes nothing. HarnessError for another one, or for a candidate that nobody asked for.
        """
        word = "skip" if outcome is None else outcome
        if isinstance(outcome, bool | np.bool_):
            word = "correct" if outcome else "wrong"
        with self._reading() as loop:
            check = check_of(*self._pick(loop, candidate), str(word), loop.config, "search")
            if loop.is_new(check, correct, "search", "correct=True replaces it"):
                loop.record(check)

    @property
    def open(self) -> list[Candidate]:
        """The candidates that were asked for, by anybody, and have no outcome yet, in order."""
        with self._reading() as loop:
            return [self._shown(loop, pick) for pick in loop.asked]

    @property
    def found(self) -> list[Row]:
        """The hits in the order asked for, or with top= the largest values: dicts of problem_id, index, call, ..."""
        with self._reading() as loop:
            found: list[Row] = summary(loop)["found"]
            return [{**row, "problem_id": self._ids.get(row["problem_id"], row["problem_id"])} for row in found]

    @property
    def calls(self) -> int:
        """How many outcomes there are; a skip is none."""
        with self._reading() as loop:
            return int(summary(loop)["calls"])

    def __repr__(self) -> str:
        counts = f"{self.calls:,} calls, {len(self.found):,} found, {len(self.open):,} open"
        return f"search of {self._config.journal}: {counts}"

    @contextmanager
    def _reading(self) -> Iterator[Loop]:
        """The loop as the journal has it now, locked. After a failure it is read anew: memory may be ahead of it."""
        with self._alone:
            try:
                if self._loop is None:
                    journal = journal_of(self._config, self._opened)
                else:
                    journal = self._loop.journal
                    journal.open()
                with journal:
                    if self._loop is None:
                        self._loop = Loop(self._config, journal, self._opened)
                    else:
                        self._loop.read()
                    yield self._loop
            except BaseException:
                self._loop = None
                raise

    def _shown(self, loop: Loop, pick: Pick) -> Candidate:
        name, index = pick
        shown = loop.searches[name].row(index).get("name") or index
        return shown if len(loop.searches) == 1 else (self._ids.get(name, name), shown)

    def _pick(self, loop: Loop, candidate: Candidate) -> Pick:
        """The pick that a candidate means; HarnessError if it means none."""
        problem_id, shown = "", candidate
        if isinstance(candidate, tuple) and len(candidate) == 2:
            problem_id, shown = str(candidate[0]), candidate[1]
        elif len(loop.searches) == 1:
            problem_id = next(iter(loop.searches))
        try:
            if isinstance(shown, str):
                return loop.named(shown, problem_id)
        except HarnessError as failure:
            raise HarnessError(f"search: {failure}") from None
        n = len(loop.searches[problem_id].candidates.responses) if problem_id in loop.searches else 0
        if isinstance(shown, bool) or not isinstance(shown, int | np.integer) or not 0 <= shown < n:
            raise HarnessError(
                f"search: {candidate!r:.80} is no candidate: give a name, an index, or (problem id, either)"
            )
        return problem_id, int(shown)
