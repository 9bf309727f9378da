"""`harness verify --ask`: a person verifies, days apart. Picks are given out, and outcomes taken when they come.

The picks that are out stand in the journal: the same command gives them again until their outcomes are there. `-k` of
them are out at a time.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import HarnessError
from harness.results.inert_text import csv_table, csv_text
from harness.system.files import opened, write_atomically
from harness.system.progress import Progress

from .check import Check, measured
from .config import VerifyConfig
from .journal import Pick
from .loop import Loop, searching
from .summary import summary

WORDS = {
    **dict.fromkeys(("y", "yes", "correct", "true"), "correct"),
    **dict.fromkeys(("n", "no", "wrong", "false"), "wrong"),
    **dict.fromkeys(("e", "error"), "error"),
    **dict.fromkeys(("s", "skip"), "skip"),
}
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
Row: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[Row], str | None]


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
            _take(config.answers, loop, progress)
        picks = _given_out(loop)
        while picks and read:
            show([_row(loop, pick) for pick in picks])
            is_complete = all(_taken(loop, pick, read) for pick in picks)
            picks = _given_out(loop)
            if not is_complete:
                break
        rows = [_row(loop, pick) for pick in picks]
        if config.sheet and rows:
            _write_sheet(config.sheet, rows)
        return {"ask": rows, **summary(loop)}


def _given_out(loop: Loop) -> list[Pick]:
    """The picks that are out, of problems that are not done: those given out before, and new ones up to -k."""
    before = [pick for pick in loop.journal.asked if not loop.searches[pick[0]].is_done]
    new: list[Pick] = []
    while len(before) + len(new) < loop.config.k and (picked := loop.pick()):
        new.append((picked[0].id, picked[1]))
    loop.journal.ask(new)
    return before + new


def _row(loop: Loop, pick: Pick) -> Row:
    """A pick as JSON: problem_id, index, the response, and its name if it has one."""
    search, index = loop.searches[pick[0]], pick[1]
    names = search.candidates.problem.meta.get("names", ())
    row = {"problem_id": search.id, "index": index} | ({"name": names[index]} if any(names) else {})
    return row | {"response": search.candidates.responses.texts[index]}


def _taken(loop: Loop, pick: Pick, read: Read) -> bool:
    """Ask for the outcome of a pick, again where the answer is refused, and write it down; False to stop."""
    while (answer := read(_row(loop, pick))) is not None:
        try:
            loop.record([check_of(*pick, answer, loop.config)])
            return True
        except HarnessError as refusal:
            print(refusal, file=sys.stderr)
    return False


def check_of(problem_id: str, index: int, answer: str, config: VerifyConfig) -> Check:
    """The check that an answer describes: y, n, error, skip, or with --threshold or --top a number."""
    word = answer.strip().lower()
    if word in WORDS:
        return Check(problem_id, index, WORDS[word])
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not config.takes_values:
        allowed = "y, n, skip, error" + (" or a number" if config.takes_values else "")
        hint = "; a number needs --threshold or --top" if math.isfinite(value) else ""
        if config.takes_values and DECIMAL_COMMA.fullmatch(word):
            hint = f"; write {word.replace(',', '.')}"
        raise HarnessError(f"verify: an outcome is {allowed}, got {answer.strip()!r:.40}{hint}")
    return measured(problem_id, index, value, config.threshold)


# Tables.


def _take(path: Path, loop: Loop, progress: Progress) -> None:
    """Record the new outcomes of a table, all or none, and say how many rows have one."""
    rows = list(_outcomes(path, loop))
    checks = [check for check in rows if check]
    known = [loop.searches[check.problem_id].taken.get(check.index) for check in checks]
    new = [check for check, before in zip(checks, known, strict=True) if not before or not _equal(before, check)]
    loop.record(list({(check.problem_id, check.index): check for check in new}.values()))
    before = f", {len(checks) - len(new):,} of them recorded before" if len(new) < len(checks) else ""
    progress.say(f"{path}: {len(checks):,} outcomes{before}, {len(rows) - len(checks):,} open")


def _outcomes(path: Path, loop: Loop) -> Iterator[Check | None]:
    """Each row's outcome, None if it is open; HarnessError for an outcome that nobody asked for, or a second one."""
    seen: dict[Pick, Check] = {}
    for number, row in _rows(path):
        where = f"answers {path}, line {number}"
        name, index = pick = _pick(row, loop, where)
        if not (row.get("outcome") or "").strip():
            yield None
            continue
        try:
            check = check_of(name, index, row["outcome"], loop.config)
        except HarnessError as refusal:
            raise HarnessError(f"{where}: {str(refusal).removeprefix('verify: ')}") from None
        if index not in loop.searches[name].taken:
            raise HarnessError(f"{where}: response {index} of {name!r:.80} was never asked for: see to the index")
        recorded = None if loop.config.correct else loop.searches[name].taken[index]
        for before in (recorded, seen.get(pick)):
            if before and not _equal(before, check):
                way = "correct the table" if pick in seen else "--correct replaces it"
                raise HarnessError(
                    f"{where}: response {index} of {name!r:.80} is recorded already, as {_shown(before)}: {way}"
                )
        seen[pick] = check
        yield check


def _equal(before: Check, check: Check) -> bool:
    return (before.outcome, before.value) == (check.outcome, check.value)


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The rows of a table with commas, semicolons or tabs, by the names in its first line, with their line numbers."""
    with opened(path, "answers") as file:
        first = file.readline()
        delimiter = max(",;\t", key=first.count)
        table = csv.DictReader(chain([first], file), delimiter=delimiter)
        for name in ("index", "outcome"):
            if name not in (table.fieldnames or ()):
                raise HarnessError(f"answers {path}: its first line must name the columns problem_id,index,outcome")
        for row in table:
            yield table.line_num, row


def _pick(row: Mapping[str, str], loop: Loop, where: str) -> Pick:
    """The response that a row is about; without a problem_id it is of the only problem."""
    name, searches = (row.get("problem_id") or "").strip(), loop.searches
    if not name and len(searches) == 1:
        name = next(iter(searches))
    name = name if name in searches else csv_text(name)
    index = (row.get("index") or "").strip()
    if name not in searches or not index.isdecimal() or int(index) >= len(searches[name].candidates.responses):
        raise HarnessError(f"{where}: problem {name!r:.80} with index {index!r:.40} is no response of the pool")
    return name, int(index)


def _shown(check: Check) -> str:
    return check.outcome if check.value is None else f"{check.value:g}"


def _write_sheet(path: Path, rows: Sequence[Row]) -> None:
    write_atomically(path, csv_table([{**row, "outcome": ""} for row in rows]).encode("utf-8", "surrogatepass"))
