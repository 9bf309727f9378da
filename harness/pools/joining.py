"""Find the task's problem that a line of a pool answers: by a table, by id, by prompt, or by a prompt inside another.

The ways are tried in this order, each with all ids or prompts of the line; the first that finds a problem counts:

    --ids           the problem that the table gives; a line in the table joins to that problem or to none
    id              the line's id is the problem's
    prompt          the line's prompt is the problem's raw one
    rendered        ... or the problem as the task asks it: the contents of its chat messages
    within          the line's prompt, say a rendered chat, holds the raw prompt, else the last message, of one problem

Before prompts are compared, each run of blanks becomes one blank. `within` needs at least 20 characters, and a match
must not cut a number at its ends ("... 1 1 1" is not within "... 1 1 13"). Of nested matches the longer counts. A line
that fits several problems joins to none (few-shot prompts hold several). Duplicates in a data set, with the same prompt
and reference, are an exception: the first counts. 83 of the 4,096 problems of dapo-math are such duplicates.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

from harness.contracts import Task
from harness.errors import HarnessError
from harness.records import Problem
from harness.system.files import opened
from harness.system.json_text import Line, read_lines

from .record import PoolRecord

SHORTEST = 20  # characters of a prompt that is looked for within others; also the length of the index's keys
SEVERAL = "several"

Found: TypeAlias = tuple[Problem | None, str]
Find: TypeAlias = Callable[[str], list[Problem | None]]
Prompts: TypeAlias = dict[str, Problem | None]  # squeezed prompt -> its problem; None where it is of several


class Joiner:
    """Find the problem of a task that a line of a pool answers; the module's docstring lists the ways."""

    def __init__(self, task: Task, problems: Iterable[Problem], ids: IdTable | None = None) -> None:
        problems = list(problems)
        chats = [(task.messages(problem), problem) for problem in problems]
        raw = _by_prompt((problem.prompt, problem) for problem in problems)
        rendered = _by_prompt(("\n".join(message["content"] for message in chat), problem) for chat, problem in chats)
        last = _by_prompt((chat[-1]["content"], problem) for chat, problem in chats if chat)
        self.ids = ids
        self.by_id = {problem.id: problem for problem in problems}
        self.ways: tuple[tuple[str, Find], ...] = (
            ("prompt", partial(_equal, raw)),
            ("rendered", partial(_equal, rendered)),
            ("within", Within(raw)),
            ("within", Within(last)),
        )

    def __call__(self, record: PoolRecord) -> Found:
        """Return the problem and the way it was found, or None where the line joins to none.

        Beside None stands `SEVERAL`, "--ids" (the table names a problem that the task lacks), or "".
        """
        mapped = self.ids.find(record) if self.ids else None
        if mapped is not None:
            return self.by_id.get(mapped), "--ids"
        for name in record.ids:
            if name in self.by_id:
                return self.by_id[name], "id"
        prompts = [_squeezed(prompt) for prompt in record.prompts]
        for way, find in self.ways:
            for fits in map(find, prompts):
                if fits:
                    return (fits[0], way) if len(fits) == 1 and fits[0] else (None, SEVERAL)
        return None, ""


def _equal(known: Prompts, prompt: str) -> list[Problem | None]:
    return [known[prompt]] if prompt in known else []


class Within:
    """Find the problem whose prompt is contained in a longer text.

    Prompts are indexed by their first 20 characters, and every position of the text is looked up. A text of 1,500
    characters takes about 0.3 ms with 5,000 prompts.
    """

    def __init__(self, prompts: Prompts) -> None:
        self.starts: dict[str, list[tuple[str, Problem | None]]] = {}
        for prompt, problem in prompts.items():
            if len(prompt) >= SHORTEST:
                self.starts.setdefault(prompt[:SHORTEST], []).append((prompt, problem))

    def __call__(self, text: str) -> list[Problem | None]:
        """The problems whose prompts the text contains, each once; None for problems that share a prompt."""
        contained: dict[int, Problem | None] = {}
        end = 0
        for start in range(len(text) - SHORTEST + 1 if self.starts else 0):
            fits = [fit for fit in self.starts.get(text[start : start + SHORTEST], ()) if _stands(fit[0], text, start)]
            if fits:
                prompt, problem = max(fits, key=lambda fit: len(fit[0]))
                if start + len(prompt) > end:  # else it lies inside one found before
                    end = start + len(prompt)
                    contained[id(problem)] = problem
        return list(contained.values())


def _stands(prompt: str, text: str, start: int) -> bool:
    """Whether the prompt is at that place and no number runs on over its ends."""
    end = start + len(prompt)
    if not text.startswith(prompt, start):
        return False
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    return not (
        (prompt[0].isdigit() and (before[-1:].isdigit() or (before[-1:] == "." and before[:1].isdigit())))
        or (prompt[-1].isdigit() and (after[:1].isdigit() or (after[:1] == "." and after[1:].isdigit())))
    )


def _by_prompt(pairs: Iterable[tuple[str, Problem]]) -> Prompts:
    known: Prompts = {}
    for prompt, problem in pairs:
        squeezed = _squeezed(prompt)
        existing = known.get(squeezed, problem)
        known[squeezed] = existing if existing and _alike(existing, problem) else None
    return known


def _alike(first: Problem, second: Problem) -> bool:
    """Whether two problems with the same prompt are graded alike, so that either may be taken."""
    return first is second or repr((first.reference, first.meta)) == repr((second.reference, second.meta))


def _squeezed(text: str) -> str:
    return " ".join(text.split())


# The table of --ids.

TASK_COLUMNS = ("task_id", "problem_id", "id")
POOL_COLUMNS = ("pool_id", "from")


class IdTable:
    """A table (JSONL, JSON, CSV, TSV): the problem's id for a pool's line, known by its id or its prompt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.by_id: dict[str, str] = {}
        self.by_prompt: dict[str, str | None] = {}
        self.rows = 0
        for row in _rows(path):
            self._take(row)
            self.rows += 1
        if not self.rows:
            raise HarnessError(f"ids {path}: no rows: it holds a task's id and a pool's line each, see docs/pools.md")

    def find(self, record: PoolRecord) -> str | None:
        """The id of the task's problem; None where the table does not name the line, or gives its prompt to several."""
        for name in record.ids:
            if name in self.by_id:
                return self.by_id[name]
        mapped = (self.by_prompt.get(_squeezed(prompt)) for prompt in record.prompts)
        return next((name for name in mapped if name is not None), None)

    def _take(self, row: Line) -> None:
        task_id, pool_id = _cell(row, TASK_COLUMNS), _cell(row, POOL_COLUMNS)
        prompt = row.value.get("prompt")
        if task_id is None or (pool_id is None and not isinstance(prompt, str)):
            columns = ", ".join(map(repr, row.value))
            raise HarnessError(
                f"{row.where}: expected the task's id (task_id, problem_id or id) and the pool's line (pool_id, from "
                f"or prompt), got {columns:.200}"
            )
        if pool_id is not None:
            before = self.by_id.setdefault(pool_id, task_id)
            if before != task_id:
                raise HarnessError(f"{row.where}: {pool_id!r} is {task_id!r} here and {before!r} in a row before")
        elif isinstance(prompt, str):
            squeezed = _squeezed(prompt)
            same = self.by_prompt.get(squeezed, task_id) == task_id
            self.by_prompt[squeezed] = task_id if same else None  # a prompt of several problems names none


def _cell(row: Line, names: Iterable[str]) -> str | None:
    """The text or whole number under the first of those names that is there."""
    for name in names:
        value = row.value.get(name)
        if isinstance(value, (str, int)) and str(value).strip():
            return str(value).strip()
    return None


def _rows(path: Path) -> Iterator[Line]:
    with opened(path, "ids") as file:
        start = file.read(4096)
        if start.lstrip()[:1] in ("{", "["):
            yield from read_lines(path, "ids")
            return
        file.seek(0)
        reader = csv.DictReader(file, delimiter="\t" if "\t" in start.partition("\n")[0] else ",", strict=True)
        try:
            for row in reader:
                place = f"line {reader.line_num}"
                value = {str(name): cell for name, cell in row.items()}
                yield Line(value, reader.line_num, place, f"ids {path}, {place}")
        except csv.Error as failure:
            raise HarnessError(f"ids {path}, line {reader.line_num}: not CSV ({failure})") from failure
