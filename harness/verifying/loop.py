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
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager

import numpy as np

from harness.columns.orders import pick_after, ranking_rng
from harness.contracts import LearnsFromOutcomes, Ranker
from harness.errors import HarnessError
from harness.jobs.selection import Candidates, Held, Opened, opened_pools, selecting
from harness.plugin_system.picks import picked
from harness.pools.reading import file_digest
from harness.records import Outcome, Pool
from harness.system.hashing import canonical_json
from harness.system.progress import Progress, Stage

from .config import VerifyConfig
from .journal import FILES, POOL_FILE, Check, Journal, Pick
from .verifiers import Verifier, files_of

SUSPICIOUS = 5  # errors in a row, after which the loop is stopped


class Search:
    """The search in one problem's pool: what was picked, and what the selector picks next.

    place   of the problem in the pool file
    waits   for its turn; not once it is done or its budget used up
    taken   index -> its check, in the order picked; None while it is being verified
    failed  checks that ended in an error, of responses that are to be checked again or were: they count as calls
    """

    def __init__(self, config: VerifyConfig, opened: Opened, candidates: Candidates, place: int) -> None:
        self.config, self.candidates, self.id, self.place = config, candidates, candidates.problem.id, place
        self.waits = True
        self.taken: dict[int, Check | None] = {}
        self.failed: list[Check] = []
        self._opened = opened
        self._pool: Pool | None = None
        self._order: Iterator[int] | None = None

    @property
    def calls(self) -> int:
        """Checks that were made or are under way."""
        return len(self.failed) + sum(check is None or check.is_call for check in self.taken.values())

    @property
    def checked(self) -> list[Check]:
        """The last check of each response that was verified, in the order verified."""
        return [check for check in self.taken.values() if check]

    @property
    def successes(self) -> list[Check]:
        return [check for check in self.checked if check.is_success(self.config.threshold)]

    @property
    def is_done(self) -> bool:
        return not self.config.top and len(self.successes) >= self.config.until

    @property
    def is_open(self) -> bool:
        n, most = len(self.candidates.responses), self.config.budget_per_problem
        return not self.is_done and len(self.taken) < n and (most is None or self.calls < most)

    def next(self) -> int:
        """Take the index that the selector picks next."""
        selector, seed, problem = self._opened.selector, self.config.seed, self.candidates.problem
        self._pool = pool = self._pool or self._opened.pool(self.candidates)
        with selecting(self.config.selector, problem):
            if isinstance(selector, LearnsFromOutcomes):
                outcomes = [Outcome(index, check.known if check else None) for index, check in self.taken.items()]
                index = pick_after(selector, pool, outcomes, seed, problem)
            else:
                if self._order is None:
                    self._order = picked(selector.rank(pool, ranking_rng(seed, problem, trial=0)), len(pool))
                index = next((index for index in self._order if index not in self.taken), -1)
                if index < 0:
                    raise HarnessError(f"the ranking ended after {len(self.taken)} of {len(pool)} responses")
        self.taken[index] = None
        return index


class Loop:
    """The searches of all problems, and their journal.

    asked  the picks that were given out and have no outcome yet, in order
    row    how many errors are the last outcomes, with no other outcome between them
    """

    def __init__(self, config: VerifyConfig, journal: Journal, opened: Opened) -> None:
        self.config, self.journal, self.context = config, journal, opened.context
        searches = [Search(config, opened, each, place) for place, each in enumerate(opened.candidates)]
        self.searches = {search.id: search for search in searches}
        self.asked: list[Pick] = []
        self.row = 0
        for entry in journal.entries:
            if isinstance(entry, Check):
                self._note(entry)
            else:
                self.asked += entry
        if config.retry_errors:  # the lines of errors stay in the file
            self.row = 0
            for search in searches:
                errors = [check for check in search.checked if check.outcome == "error"]
                search.failed += errors
                for check in errors:
                    del search.taken[check.index]
        for name, index in self.asked:
            self.searches[name].taken.setdefault(index, None)
        self.calls = sum(search.calls for search in searches)
        self._turns = [(search.calls, search.place, search) for search in searches]
        heapq.heapify(self._turns)

    def pick(self) -> tuple[Search, int] | None:
        """The next pick; None if every problem is done, or the budget used up."""
        while self._turns and (self.config.budget is None or self.calls < self.config.budget):
            _, _, search = heapq.heappop(self._turns)
            search.waits = search.is_open
            if search.waits:
                index = search.next()
                self.calls += 1
                heapq.heappush(self._turns, (search.calls, search.place, search))
                return search, index
        return None

    def record(self, *checks: Check) -> None:
        """Write outcomes into the journal, and tell the searches."""
        self.journal.write(*(check.line for check in checks))
        for check in checks:
            search = self.searches[check.problem_id]
            self.calls -= search.calls
            self._note(check)
            self.calls += search.calls
            if not check.is_call and not search.waits:  # it gives its call back
                heapq.heappush(self._turns, (search.calls, search.place, search))
                search.waits = True

    def _note(self, check: Check) -> None:
        search = self.searches[check.problem_id]
        before = search.taken.get(check.index)
        if before and before.outcome == "error":
            search.failed.append(before)
            del search.taken[check.index]
        search.taken[check.index] = check
        self.row = self.row + 1 if check.outcome == "error" else 0
        self.asked = [pick for pick in self.asked if pick != (check.problem_id, check.index)]


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
    running: set[Future[Check]] = set()
    with searching(config, progress, held) as loop:
        with progress.stage("verify", config.budget or 0, "calls", closing=False) as stage:
            stage.done = loop.calls
            try:
                with ThreadPoolExecutor(config.workers) as threads, verifier as verify_one:
                    while True:
                        while len(running) < config.workers and (pick := loop.pick()):
                            running.add(threads.submit(verify_one, pick[0].candidates, pick[1]))
                        if not running:
                            break
                        done, _ = wait(running, return_when=FIRST_COMPLETED)
                        ended = _recorded(loop, running, stage)
                        for future in done & running:
                            future.result()  # raises
                        _require_sense(loop, ended)
            finally:  # whatever broke it off: no check is made twice
                _recorded(loop, running, stage)
        return loop


@contextmanager
def searching(config: VerifyConfig, progress: Progress, held: Held | None = None) -> Iterator[Loop]:
    """The loop of a config, with its journal open."""
    with opened_pools(config, progress, held) as opened:
        if not isinstance(opened.selector, Ranker):
            raise HarnessError(f"verify: selector {config.selector!r} chooses sets, in no order: take one that ranks")
        sizes = {each.problem.id: len(each.responses) for each in opened.candidates}
        with Journal(config.journal, _header(config, opened, held or Held()), sizes, config.retry_errors) as journal:
            loop = Loop(config, journal, opened)
            if journal.remark:
                progress.say(journal.remark)
            if loop.calls:
                out = sum(check is None for search in loop.searches.values() for check in search.taken.values())
                calls = f"goes on after {loop.calls - out:,} calls" if loop.calls > out else ""
                picks = f"{out:,} picks out" + ("" if calls else ", none answered") if out else ""
                progress.say(f"journal {config.journal}: {', '.join(filter(None, (calls, picks)))}")
            yield loop


def _header(config: VerifyConfig, opened: Opened, held: Held) -> dict[str, object]:
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
    same = ("embedder", "model", "task", "selector", "seed", "dim", "centre")
    return {
        POOL_FILE: str(config.pool or config.embeddings or "") or None,
        "pool": f"sha256:{pools.hexdigest()[:16]}",
        "embeddings": vectors,
        **{name: getattr(config, name) for name in same},
        "verifier": config.verifier or "--ask",
        FILES: files_of(config.verifier or ""),
    }


def _recorded(loop: Loop, running: set[Future[Check]], stage: Stage) -> list[Check]:
    """Record and return the outcomes of the checks that have ended, and take them out of `running`."""
    ended = []
    for future in [future for future in running if future.done() and not future.exception()]:
        ended.append(future.result())
        loop.record(ended[-1])
        running.remove(future)
        stage.advance()
    return ended


def _require_sense(loop: Loop, ended: Sequence[Check]) -> None:
    """HarnessError if the last outcomes were all errors, and at a value without --threshold or --top."""
    if loop.row >= SUSPICIOUS:
        raise HarnessError(
            f"verify: {loop.row} checks in a row ended in errors (the last: {ended[-1].reason}): see to the "
            "verifier, then --retry-errors checks them again"
        )
    for check in ended:
        if check.outcome == "measured" and not loop.config.top:
            raise HarnessError(
                f"verify: the verifier gave the value {check.value:g} for response {check.index} of "
                f"{check.problem_id!r:.80}: say what counts as a success (--threshold 3), or look for the largest "
                "(--top 5)"
            )
