"""`harness verify --ask`: a person verifies, days apart. Picks are given out, and outcomes taken when they come.

The picks that are out stand in the journal: the same command gives them again until their outcomes are there. `-k` of
them are out at a time.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import HarnessError
from harness.results.inert_text import csv_table, csv_text
from harness.system.files import opened, write_atomically
from harness.system.progress import Progress

from .config import VerifyConfig
from .journal import Check, Outcome, Pick, measured
from .loop import Loop, searching, summary

WORDS: dict[str, Outcome] = {"y": "correct", "yes": "correct", "true": "correct", "correct": "correct"}
WORDS |= {"n": "wrong", "no": "wrong", "false": "wrong", "wrong": "wrong"}
WORDS |= {"e": "error", "error": "error", "s": "skip", "skip": "skip"}
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
    new: list[Pick] = []
    while len(picks) + len(new) < loop.config.k and (picked := loop.pick()):
        new.append((picked[0].id, picked[1]))
    if new:
        loop.journal.write({"asked": new})
        loop.asked += new
    out = [(loop.searches[name], index) for name, index in picks + new]
    return [search.row(index) | {"response": search.candidates.responses.texts[index]} for search, index in out]


def _answered(loop: Loop, row: Row, read: Read) -> bool:
    """Ask for the outcome of a pick, again where the answer is refused, and write it down; False to stop."""
    while (answer := read(row)) is not None:
        try:
            loop.record(_check(row["problem_id"], row["index"], answer, loop.config))
            return True
        except HarnessError as refusal:
            print(refusal, file=sys.stderr)
    return False


def _check(problem_id: str, index: int, answer: str, config: VerifyConfig) -> Check:
    """The check that an answer describes: y, n, error, skip, or with --threshold or --top a number."""
    word = answer.strip().lower()
    if word in WORDS:
        return Check(problem_id, index, WORDS[word])
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and config.takes_values:
        return measured(problem_id, index, value, config.threshold)
    hint = "; a number needs --threshold or --top" if math.isfinite(value) else ""
    if config.takes_values and DECIMAL_COMMA.fullmatch(word):
        hint = f"; write {word.replace(',', '.')}"
    allowed = "y, n, skip, error" + (" or a number" if config.takes_values else "")
    raise HarnessError(f"verify: an outcome is {allowed}, got {answer.strip()!r:.40}{hint}")


def _take(path: Path, loop: Loop) -> str:
    """Record the new outcomes of a table, all or none, and say how many rows have one.

    The table has commas, semicolons or tabs, and names in its first line. HarnessError for an outcome that nobody asked
    for, or a second one.
    """
    seen: dict[Pick, Check] = {}
    still_open = 0
    with opened(path, "answers") as file:
        first = file.readline()
        table = csv.DictReader(chain([first], file), delimiter=max(",;\t", key=first.count))
        if not {"index", "outcome"} <= set(table.fieldnames or ()):
            raise HarnessError(f"answers {path}: its first line must name the columns problem_id,index,outcome")
        for row in table:
            where = f"answers {path}, line {table.line_num}"
            name, index = pick = _pick(row, loop, where)
            if not (row.get("outcome") or "").strip():
                still_open += 1
                continue
            try:
                check = _check(name, index, row["outcome"], loop.config)
            except HarnessError as refusal:
                raise HarnessError(f"{where}: {str(refusal).removeprefix('verify: ')}") from None
            taken = loop.searches[name].taken
            if index not in taken:
                raise HarnessError(f"{where}: response {index} of {name!r:.80} was never asked for: see to the index")
            for other in (None if loop.config.correct else taken[index], seen.get(pick)):
                if other not in (None, check):
                    way = "correct the table" if pick in seen else "--correct replaces it"
                    was = other.outcome if other.value is None else f"{other.value:g}"
                    raise HarnessError(
                        f"{where}: response {index} of {name!r:.80} is recorded already, as {was}: {way}"
                    )
            seen[pick] = check
    new = [check for (name, index), check in seen.items() if loop.searches[name].taken[index] != check]
    loop.record(*new)
    before = f", {len(seen) - len(new):,} of them recorded before" if len(new) < len(seen) else ""
    return f"{len(seen):,} outcomes{before}, {still_open:,} open"


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
