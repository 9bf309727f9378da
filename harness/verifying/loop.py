"""`harness verify`: verify the selector's picks until each problem is solved or the budget is used up.

The next pick is of the open problem with the fewest calls, ties in the order of the pool: each problem gets a call in
turn. A problem is done at its first success (`until`: at its n-th). Every outcome is in the journal, on the disk,
before the next pick is made; a loop that was killed goes on from there, and repeats at most what was being verified.

With one worker the calls of a problem are the beginning of its order in `harness run`, trial 0. With more, a pick may
be made before the outcomes of the picks before it are known.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

import numpy as np

from harness.contracts import Ranker
from harness.errors import HarnessError
from harness.jobs.selection import Candidates, Held, Opened, opened_pools
from harness.pools.reading import file_digest
from harness.system.hashing import canonical_json
from harness.system.progress import Progress, Stage

from .check import Check
from .command import PLACEHOLDER, files_of
from .config import VerifyConfig
from .journal import Journal
from .search import Search

Verifier: TypeAlias = Callable[[Candidates, int], Check]

SUSPICIOUS = 5  # errors in a row, after which the loop is stopped


class Loop:
    """The searches of all problems, and their journal."""

    def __init__(self, config: VerifyConfig, journal: Journal, opened: Opened) -> None:
        self.config, self.journal, self.context = config, journal, opened.context
        self.searches = {each.problem.id: Search(config, opened, each) for each in opened.candidates}
        for name, checks in journal.checks.items():
            self.searches[name].taken.update(checks)
            self.searches[name].failed = journal.failed[name]
        for name, index in journal.asked:
            self.searches[name].taken.setdefault(index, None)
        self.calls = sum(search.calls for search in self.searches.values())
        self._turns: list[tuple[int, int, Search]] = []
        self._closed: dict[str, int] = {}  # problem -> its place, once it is not open; a skip gives its call back
        for place, search in enumerate(self.searches.values()):
            self._queue(place, search)

    def _queue(self, place: int, search: Search) -> None:
        heapq.heappush(self._turns, (search.calls, place, search))

    def pick(self) -> tuple[Search, int] | None:
        """The next pick; None if every problem is done, or the budget used up."""
        if self.config.budget is not None and self.calls >= self.config.budget:
            return None
        while self._turns:
            _, place, search = heapq.heappop(self._turns)
            if search.is_open:
                index = search.next()
                self.calls += 1
                self._queue(place, search)
                return search, index
            self._closed[search.id] = place
        return None

    def record(self, checks: Sequence[Check]) -> None:
        """Write outcomes into the journal and tell the searches."""
        searches = {self.searches[check.problem_id] for check in checks}
        before = sum(search.calls for search in searches)
        self.journal.add(checks)
        for check in checks:
            search = self.searches[check.problem_id]
            search.taken[check.index] = check
            if not check.is_call and search.id in self._closed:
                self._queue(self._closed.pop(search.id), search)
        self.calls += sum(search.calls for search in searches) - before


def verify(
    config: VerifyConfig,
    progress: Progress,
    verifier: AbstractContextManager[Verifier],
    held: Held | None = None,
) -> Loop:
    """Run the loop, with as many checks at once as the config has workers; return it, with what it verified.

    verifier  entered before the first check; left at the end, or when the loop breaks off: it then ends its checks

    HarnessError if it cannot be run, after five errors in a row (with those at the end of the journal, unless they are
    checked again), and at a value that nothing judges.
    """
    with searching(config, progress, held) as loop:
        assert config.budget is not None
        with progress.stage("verify", config.budget, "calls", closing=False) as stage:
            stage.done = loop.calls
            _run(loop, verifier, stage)
        return loop


@contextmanager
def searching(config: VerifyConfig, progress: Progress, held: Held | None = None) -> Iterator[Loop]:
    """The loop of a config, with its journal open."""
    with opened_pools(config, progress, held) as opened:
        if not isinstance(opened.selector, Ranker):
            raise HarnessError(f"verify: selector {config.selector!r} chooses sets, in no order: take one that ranks")
        sizes = {each.problem.id: len(each.responses) for each in opened.candidates}
        with Journal(config.journal, header(config, opened, held or Held()), sizes, config.retry_errors) as journal:
            loop = Loop(config, journal, opened)
            if journal.remark:
                progress.say(journal.remark)
            if loop.calls:
                out = sum(check is None for search in loop.searches.values() for check in search.taken.values())
                calls = f"goes on after {loop.calls - out:,} calls" if loop.calls > out else ""
                picks = f"{out:,} picks out" + ("" if calls else ", none answered") if out else ""
                progress.say(f"journal {config.journal}: {', '.join(filter(None, (calls, picks)))}")
            yield loop


def header(config: VerifyConfig, opened: Opened, held: Held) -> dict[str, object]:
    """What the outcomes of a journal belong to: responses, vectors, selector, verifier."""
    pools = hashlib.sha256()
    for each in opened.candidates:
        pools.update(canonical_json([each.problem.id, list(each.responses.texts)]).encode("utf-8", "surrogatepass"))
    for name, array in (held.vectors or {}).items():
        if hasattr(array, "toarray"):  # scipy's sparse matrices
            entries = array.tocsr().sorted_indices().tocoo()
            array = [entries.row, entries.col, entries.data]
        pools.update(name.encode() + np.asarray(array, np.float64).tobytes())
    vectors = file_digest(config.embeddings) if config.embeddings and config.embeddings.is_file() else None
    is_command = PLACEHOLDER.search(config.verifier or "")
    return {
        "pool_file": str(config.pool or config.embeddings or "") or None,
        "pool": f"sha256:{pools.hexdigest()[:16]}",
        "embeddings": vectors,
        "embedder": config.embedder,
        "model": config.model,
        "task": config.task,
        "selector": config.selector,
        "seed": config.seed,
        "dim": config.dim,
        "centre": config.centre,
        "verifier": config.verifier or "--ask",
        "verifier_files": files_of(config.verifier or "") if is_command else {},
    }


def _run(loop: Loop, verifier: AbstractContextManager[Verifier], stage: Stage) -> None:
    running: set[Future[Check]] = set()
    try:
        with ThreadPoolExecutor(loop.config.workers) as threads, verifier as verify_one:
            while True:
                while len(running) < loop.config.workers and (pick := loop.pick()):
                    running.add(threads.submit(verify_one, pick[0].candidates, pick[1]))
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                ended = _recorded(loop, running, stage)
                for future in done & running:
                    future.result()  # raises
                _require_sense(loop, ended)
    finally:  # whatever broke it off: no check is made twice
        _recorded(loop, running, stage)


def _recorded(loop: Loop, running: set[Future[Check]], stage: Stage) -> list[Check]:
    """Record and return the outcomes of the checks that have ended, and take them out of `running`."""
    ended = []
    for future in [future for future in running if future.done() and not future.exception()]:
        ended.append(future.result())
        loop.record(ended[-1:])
        running.remove(future)
        stage.advance()
    return ended


def _require_sense(loop: Loop, ended: Sequence[Check]) -> None:
    """HarnessError if the last outcomes were all errors, and at a value without --threshold or --top."""
    if loop.journal.row >= SUSPICIOUS:
        raise HarnessError(
            f"verify: {loop.journal.row} checks in a row ended in errors (the last: {ended[-1].reason}): see to the "
            "verifier, then --retry-errors checks them again"
        )
    for check in ended:
        if check.outcome == "measured" and not loop.config.top:
            raise HarnessError(
                f"verify: the verifier gave the value {check.value:g} for response {check.index} of "
                f"{check.problem_id!r:.80}: say what counts as a success (--threshold 3), or look for the largest "
                "(--top 5)"
            )
