"""`harness verify`: verify the selector's picks until each problem is solved or the budget is used up.

The next pick is of the open problem with the fewest calls, ties in the order of the pool: each problem gets a call in
turn. A problem is done at its first success (`until`: at its n-th). Every outcome is in the journal, on the disk,
before the next pick is made; a loop that was killed goes on from there, and repeats at most what was being verified.

With one worker the calls of a problem are the beginning of its order in `harness run`, trial 0. With more, a pick may
be made before the outcomes of the picks before it are known.

With `--ask` a person verifies, days apart: picks are given out, and outcomes taken when they come. The picks that are
out, `-k` at a time, stand in the journal: the same command gives them again until their outcomes are there. `session`
does the same from Python, on the same journal.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import heapq
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from harness.columns.orders import pick_after, ranking_rng
from harness.contracts import LearnsFromOutcomes, Ranker
from harness.errors import HarnessError
from harness.jobs.selection import Candidates, Held, Opened, opened_pools, selecting
from harness.plugin_system.calls import picked
from harness.pools.reading import file_digest
from harness.records import Outcome, Pool
from harness.results.inert_text import csv_table, csv_text
from harness.system.files import opened, write_atomically
from harness.system.json_text import canonical_json, storable
from harness.system.progress import Progress, Stage

from .config import VerifyConfig
from .journal import FILES, OF_FILE, POOL_FILE, PROBLEM, TOO_LATE, Check, Journal, Pick, begun_by, measured
from .verifiers import Verifier, files_of

SUSPICIOUS = 5  # errors in a row, after which the loop is stopped
PATIENCE_S = 20.0  # how long who asks waits for another operation on the journal
WORDS = {"y": "correct", "yes": "correct", "true": "correct", "n": "wrong", "no": "wrong", "false": "wrong"}
WORDS |= {"e": "error", "s": "skip"} | {word: word for word in ("correct", "wrong", "error", "skip")}

Row = dict[str, Any]
Read = Callable[[Row], str | None]


class Search:
    """The search in one problem's pool: what was picked, and what the selector picks next.

    place   of the problem in the pool file
    taken   index -> its check, in the order picked; None while it is being verified
    failed  checks that ended in an error, of responses that are to be checked again or were: they count as calls
    """

    def __init__(self, config: VerifyConfig, opened: Opened, candidates: Candidates, place: int) -> None:
        self.config, self.candidates, self.id, self.place = config, candidates, candidates.problem.id, place
        self.taken: dict[int, Check | None] = {}
        self.failed: list[Check] = []
        self._opened = opened
        self._pool: Pool | None = None
        self._order: Iterator[int] | None = None

    def row(self, index: int, **more: Any) -> Row:
        """A response as it is shown: problem_id, index, more, and its name if it has one."""
        return {"problem_id": self.id, "index": index, **more, **({"name": self.names[index]} if self.names else {})}

    @functools.cached_property
    def names(self) -> Sequence[str]:
        """What the responses are called, each "" where it has no name; empty if none has."""
        names = self.candidates.problem.meta.get("names", ())
        return [storable(name).strip() for name in names] if any(names) else ()

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
    failing  how many errors are the last outcomes, with no other outcome between them
    """

    def __init__(self, config: VerifyConfig, journal: Journal, opened: Opened) -> None:
        self.config, self.journal = config, journal
        searches = [Search(config, opened, each, place) for place, each in enumerate(opened.candidates)]
        self.searches = {search.id: search for search in searches}
        self.asked: list[Pick] = []
        self.failing = 0
        self.calls = 0
        self._turns: list[tuple[int, int, Search]] = []
        self._take_in(journal.entries)
        if config.retry_errors:  # the lines of errors stay in the file
            self.failing = 0
            for search in searches:
                errors = [check for check in search.checked if check.outcome == "error"]
                search.failed += errors
                for check in errors:
                    del search.taken[check.index]
        self._wait_anew()

    def read(self) -> None:
        """Take in what others have added to the journal, which was opened again."""
        if self.journal.entries:
            self._take_in(self.journal.entries)
            self._wait_anew()

    def _take_in(self, entries: Iterable[Check | list[Pick]]) -> None:
        """Whatever order its outcomes came in, a pick stays where it was asked for."""
        for entry in entries:
            if not isinstance(entry, Check):
                self.asked += entry
                for name, index in entry:
                    self.searches[name].taken.setdefault(index, None)
                continue
            names = self.searches[entry.problem_id].names
            if entry.name and names and names[entry.index] != entry.name:
                raise HarnessError(
                    f"journal {self.journal.path}: response {entry.index} of {entry.problem_id!r:.80} is called "
                    f"{entry.name!r:.60} there, and {names[entry.index]!r:.60} now: give the same names as before"
                )
            self._note(entry)

    def _wait_anew(self) -> None:
        for name, index in self.asked:
            self.searches[name].taken.setdefault(index, None)
        self.calls = sum(search.calls for search in self.searches.values())
        self._turns.clear()
        for search in self.searches.values():
            self._wait(search)

    @functools.cached_property
    def names(self) -> Mapping[str, Sequence[Pick]]:
        """Name -> the responses of that name."""
        named: dict[str, list[Pick]] = {}
        for search in self.searches.values():
            for index, name in enumerate(search.names):
                named.setdefault(name, []).append((search.id, index))
        return named

    def named(self, name: str, problem_id: str = "") -> Pick:
        """The response of that name, of the problem if one is given; HarnessError unless there is one, and only one."""
        picks = [pick for pick in self.names.get(storable(name).strip(), ()) if name and problem_id in ("", pick[0])]
        if len(picks) != 1:
            what = "is the name of no response" if not picks else f"is the name of {len(picks):,} responses"
            first = ", ".join(f"{index} of {of!r:.60}" for of, index in picks[:2])
            raise HarnessError(f"{name!r:.80} {what}{first and f' ({first}, ...): give problem_id and index'}")
        return picks[0]

    def pick(self) -> tuple[Search, int] | None:
        """The next pick; None if every problem is done, or the budget used up."""
        while self._turns and (self.config.budget is None or self.calls < self.config.budget):
            calls, _, search = heapq.heappop(self._turns)
            if calls == search.calls and search.is_open:  # else it waits at another place, if at all
                index = search.next()
                self.calls += 1
                self._wait(search)
                return search, index
        return None

    def _wait(self, search: Search) -> None:
        """Problems of fewer calls come first; of one that waits already the new place counts."""
        heapq.heappush(self._turns, (search.calls, search.place, search))

    def record(self, *checks: Check) -> None:
        """Write outcomes into the journal, and tell the searches."""
        self.journal.write(*(replace(check, name=self._name(check)).line for check in checks))
        for check in checks:
            search = self.searches[check.problem_id]
            before = search.calls
            self._note(check)
            if search.calls != before:  # a skip gives its call back
                self.calls += search.calls - before
                self._wait(search)

    def ask(self, k: int) -> list[Pick]:
        """Take k more picks, fewer if there are no more, and write them down as given out."""
        new: list[Pick] = []
        while len(new) < k and (taken := self.pick()):
            new.append((taken[0].id, taken[1]))
        if new:
            names = [self.searches[name].row(index).get("name", "") for name, index in new]
            self.journal.write({"asked": new, **({"names": names} if any(names) else {})})
            self.asked += new
        return new

    def is_new(self, check: Check, correct: bool, where: str, remedy: str) -> bool:
        """Whether an outcome is not recorded yet.

        HarnessError, which begins with `where` and ends with the remedy, if the pick was never asked for, or, unless it
        is to be corrected, has another outcome.
        """
        name, index = check.problem_id, check.index
        taken = self.searches[name].taken
        if index not in taken:
            raise HarnessError(f"{where}: {self._called(check)} was never asked for: see to the index")
        before = taken[index]
        if before and not before.says_as(check) and not correct:
            was = before.outcome if before.value is None else f"{before.value:g}"
            raise HarnessError(f"{where}: {self._called(check)} is recorded already, as {was}: {remedy}")
        return before is None or not before.says_as(check)

    def _called(self, check: Check) -> str:
        name = self._name(check)
        return f"response {check.index} of {check.problem_id!r}" + (f" ({name!r:.60})" if name else "")

    def _name(self, check: Check) -> str:
        return str(self.searches[check.problem_id].row(check.index).get("name", ""))

    def _note(self, check: Check) -> None:
        search = self.searches[check.problem_id]
        before = search.taken.get(check.index)
        if before and before.outcome == "error":
            search.failed.append(before)
            del search.taken[check.index]
        search.taken[check.index] = check
        self.failing = self.failing + 1 if check.outcome == "error" else 0
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
    with opened_search(config, progress, held) as pools, journal_of(config, pools) as journal:
        loop = Loop(config, journal, pools)
        remark_on(loop, progress)
        yield loop


def remark_on(loop: Loop, progress: Progress) -> None:
    """Say what a journal held when it was opened."""
    if loop.journal.remark:
        progress.say(loop.journal.remark)
    if loop.calls:
        out = sum(check is None for search in loop.searches.values() for check in search.taken.values())
        calls = f"goes on after {loop.calls - out:,} calls" if loop.calls > out else ""
        picks = f"{out:,} picks out" + ("" if calls else ", none answered") if out else ""
        progress.say(f"journal {loop.config.journal}: {', '.join(filter(None, (calls, picks)))}")


def opened_search(config: VerifyConfig, progress: Progress, held: Held | None = None) -> AbstractContextManager[Opened]:
    """The pools of a config. A problem that is alone is called as the journal calls it, whatever its file says."""
    name = begun_by(config.journal).get(PROBLEM)
    return opened_pools(config, progress, held, name if isinstance(name, str) else None)


def journal_of(config: VerifyConfig, opened: Opened) -> Journal:
    """The journal of a config, opened."""
    if not isinstance(opened.selector, Ranker):
        raise HarnessError(f"verify: selector {config.selector!r} chooses sets, in no order: take one that ranks")
    sizes = {each.problem.id: len(each.responses) for each in opened.candidates}
    patience_s = PATIENCE_S if config.ask else 0.0
    return Journal(config.journal, header_of(config, opened), sizes, config.retry_errors, patience_s)


def _vectors_digest(opened: Opened) -> str | None:
    """The digest of the given vectors' values, in float32; it is the same of a sparse matrix and of its dense form."""
    if opened.given is None:
        return None
    content = hashlib.sha256()
    for each in opened.candidates:
        array = opened.given.get(each.problem.id, len(each.responses))
        content.update(canonical_json([each.problem.id, array.shape]).encode("utf-8", "surrogatepass"))
        if isinstance(array, np.ndarray):
            places = np.flatnonzero(array)
            values = array.ravel()[places]
        else:
            array.sum_duplicates()
            array.eliminate_zeros()
            rows = np.repeat(np.arange(array.shape[0], dtype=np.int64), np.diff(array.indptr))
            places, values = rows * array.shape[1] + array.indices, array.data
        content.update(np.asarray(places, np.int64).tobytes() + np.asarray(values, np.float32).tobytes())
    return f"values:{content.hexdigest()[:16]}"


def header_of(config: VerifyConfig, opened: Opened) -> dict[str, object]:
    """What the outcomes of a journal belong to: responses, vectors, selector, verifier; not where they are kept."""
    pools = hashlib.sha256()
    for each in opened.candidates:
        pools.update(canonical_json([each.problem.id, list(each.responses.texts)]).encode("utf-8", "surrogatepass"))
    given = config.embeddings
    is_older = str(begun_by(config.journal).get("embeddings")).startswith(OF_FILE) and given and given.is_file()
    return {
        POOL_FILE: str(config.pool or given or "") or None,
        PROBLEM: opened.candidates[0].problem.id if len(opened.candidates) == 1 else None,
        "pool": f"sha256:{pools.hexdigest()[:16]}",
        "embeddings": file_digest(given) if given and is_older else _vectors_digest(opened),
        **{name: getattr(config, name) for name in ("embedder", "model", "task", "selector", "seed", "dim", "centre")},
        "unit": config.unit or None,  # came later: journals without it are of rows as they are
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
    if loop.failing >= SUSPICIOUS:
        raise HarnessError(
            f"verify: {loop.failing} checks in a row ended in errors (the last: {ended[-1].reason}): see to the "
            "verifier, then --retry-errors checks them again"
        )
    for check in ended:
        if check.outcome == "measured" and not loop.config.top:
            raise HarnessError(
                f"verify: the verifier gave the value {check.value:g} for response {check.index} of "
                f"{check.problem_id!r:.80}: say what counts as a success (--threshold 3), or look for the largest "
                "(--top 5)"
            )


# A person verifies.


def ask(
    config: VerifyConfig,
    progress: Progress,
    show: Callable[[Sequence[Row]], None] = lambda picks: None,
    read: Read | None = None,
) -> dict[str, Any]:
    """Take the outcomes of `answers`, and give out the next picks; the summary, with the picks that are out.

    show  gets the picks before they are asked for
    read  gets a pick and returns the user's answer, None to stop; None: nobody is asked now
    """
    if config.sheet and config.sheet.exists():
        raise HarnessError(f"verify: --sheet {config.sheet} exists, and may hold outcomes: name another file")
    with searching(config, progress) as loop:
        if config.answers:
            progress.say(f"{config.answers}: {_take(config.answers, loop)}")
        rows, goes_on = _given_out(loop), read is not None
        while rows and read and goes_on:
            show(rows)
            goes_on = all(_answered(loop, row, read) for row in rows)
            rows = _given_out(loop)
        if config.sheet and rows:
            table = csv_table([{**row, "outcome": ""} for row in rows])
            write_atomically(config.sheet, table.encode("utf-8", "surrogatepass"))
        return {"ask": rows, **summary(loop)}


def _given_out(loop: Loop) -> list[Row]:
    """The picks that are out, of problems that are not done: those given out before, and new ones up to -k."""
    picks = [pick for pick in loop.asked if not loop.searches[pick[0]].is_done]
    picks += loop.ask(loop.config.k - len(picks))
    out = [(loop.searches[name], index) for name, index in picks]
    return [search.row(index) | {"response": search.candidates.responses.texts[index]} for search, index in out]


def _answered(loop: Loop, row: Row, read: Read) -> bool:
    """Ask for the outcome of a pick, again where the answer is refused, and write it down; False to stop."""
    while (answer := read(row)) is not None:
        try:
            loop.record(check_of(row["problem_id"], row["index"], answer, loop.config))
            return True
        except HarnessError as refusal:
            print(refusal, file=sys.stderr)
    return False


def check_of(problem_id: str, index: int, answer: str, config: VerifyConfig, where: str = "verify") -> Check:
    """The check that an answer describes: y, n, error, skip, or with --threshold or --top a number."""
    word = answer.strip().lower()
    if word in WORDS:
        return Check(problem_id, index, WORDS[word])  # type: ignore[arg-type]
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and config.takes_values:
        return measured(problem_id, index, value, config.threshold)
    hint = "; a number needs --threshold or --top" if math.isfinite(value) else ""
    if config.takes_values and re.fullmatch(r"[+-]?\d+,\d+", word):
        hint = f"; write {word.replace(',', '.')}"
    allowed = "y, n, skip, error" + (" or a number" if config.takes_values else "")
    raise HarnessError(f"{where}: an outcome is {allowed}, got {answer.strip()!r:.40}{hint}")


def _take(path: Path, loop: Loop) -> str:
    """Record the new outcomes of a table, all or none, and say how many rows have one.

    The table has commas, semicolons or tabs, and names its columns in its first line. A row is of a response by its
    index (without a problem_id: of the only problem), or by its name. HarnessError for an outcome that nobody asked
    for, or a second one.
    """
    seen: dict[Pick, Check] = {}
    still_open = 0
    with opened(path, "answers") as file:
        first = file.readline()
        table = csv.DictReader(chain([first], file), delimiter=max(",;\t", key=first.count), restval="")
        columns = set(table.fieldnames or ())
        if "outcome" not in columns or not columns & {"index", "name"}:
            raise HarnessError(
                f"answers {path}: its first line must name the columns outcome, and problem_id,index or name"
            )
        for row in table:
            where = f"answers {path}, line {table.line_num}"
            pick = _pick_of(row, loop, where)
            if not row["outcome"].strip():
                still_open += 1
                continue
            check = check_of(*pick, row["outcome"], loop.config, where)
            loop.is_new(check, loop.config.correct, where, "--correct replaces it")
            if not seen.setdefault(pick, check).says_as(check):
                raise HarnessError(
                    f"{where}: response {pick[1]} of {pick[0]!r:.80} has another outcome in a row above: correct the "
                    "table"
                )
    new = [check for check in seen.values() if loop.is_new(check, True, "", "")]
    loop.record(*new)
    before = f", {len(seen) - len(new):,} of them recorded before" if len(new) < len(seen) else ""
    return f"{len(seen):,} outcome{'s' * (len(seen) != 1)}{before}, {still_open:,} open"


def _pick_of(row: Mapping[str, str], loop: Loop, where: str) -> Pick:
    """The response that a row of a table is of; a name beside an index must be that response's."""
    searches, cells = loop.searches, {key: (row.get(key) or "").strip() for key in ("problem_id", "index", "name")}
    problem_id, index, name = cells.values()
    if not problem_id and len(searches) == 1:
        problem_id = next(iter(searches))
    problem_id = problem_id if problem_id in searches else csv_text(problem_id)
    if not index:
        try:
            return loop.named(name if storable(name) in loop.names else csv_text(name), problem_id)
        except HarnessError as failure:
            raise HarnessError(f"{where}: {failure}") from None
    if (
        problem_id not in searches
        or not index.isdecimal()
        or int(index) >= len(searches[problem_id].candidates.responses)
    ):
        raise HarnessError(f"{where}: problem {problem_id!r:.80} with index {index!r:.40} is no response of the pool")
    own = searches[problem_id].names
    if name and own and own[int(index)] not in (name, csv_text(name)):
        raise HarnessError(
            f"{where}: response {index} of {problem_id!r:.80} is called {own[int(index)]!r:.60}, not {name!r:.60}: see "
            "to the table, some of whose columns may have been sorted alone"
        )
    return problem_id, int(index)


# What was found.


def summary(loop: Loop) -> dict[str, Any]:
    """What `harness verify --json` prints: counts, why the loop ended, and the hits.

    errors     checks that ended in an error; failed: responses whose last check did
    exhausted  the problems without enough successes whose responses all have an outcome; unsolved: the others
    found      the successes by problem, in the order verified; with `top` the largest values, the largest first
    """
    config, searches = loop.config, list(loop.searches.values())
    checks = [check for search in searches for check in search.checked]
    failed = [check for check in checks if check.outcome == "error"]
    errors = failed + [check for search in searches for check in search.failed]
    reasons = Counter(check.reason for check in errors).most_common(1)
    calls = sum(check.is_call for check in checks) + len(errors) - len(failed)
    unsolved = [] if config.top else [search for search in searches if not search.is_done]
    exhausted = [search for search in unsolved if len(search.checked) == len(search.candidates.responses)]
    found = []
    for search in searches:
        for call, check in enumerate((check for check in search.checked if check.is_call), 1):
            if (check.value is not None) if config.top else check.is_success(config.threshold):
                value = {} if check.value is None else {"value": check.value}
                found.append(search.row(check.index, call=call, **value))
    return {
        "problems": len(searches),
        "solved": None if config.top else sum(search.is_done for search in searches),
        "calls": calls,
        "errors": len(errors),
        "failed": len(failed),
        "commonest_error": reasons[0][0] if reasons else None,
        "timeouts": sum(check.reason.startswith(TOO_LATE) for check in errors),
        "skipped": sum(check.outcome == "skip" for check in checks),
        "budget_used_up": config.budget is not None and calls >= config.budget,
        "exhausted": [search.id for search in exhausted],
        "unsolved": [search.id for search in unsolved if search not in exhausted],
        "found": sorted(found, key=lambda row: -row["value"])[: config.top] if config.top else found,
    }
