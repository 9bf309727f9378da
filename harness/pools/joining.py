"""Join a pool file to a task's problems: by a table, by id, by prompt, or by a prompt inside another.

`Joined` reads the file with the problem of each line; `Joiner` finds it, also by the table of --ids (`IdTable`).

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
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from harness.contracts import Task
from harness.errors import HarnessError
from harness.records import Problem
from harness.system.files import opened
from harness.system.json_text import Line, read_lines, storable

from .reading import Layouts, read_pool
from .record import PoolRecord

SHORTEST = 20  # characters of a prompt that is looked for within others; also the length of the index's keys
SEVERAL = "several"
WAYS = {
    "--ids": "by the table of --ids",
    "id": "by id",
    "prompt": "by prompt",
    "rendered": "by the prompt as the task asks it",
    "within": "because their prompt holds the task's",
}

Prompts: TypeAlias = dict[str, Problem | None]  # squeezed prompt -> its problem; None where it is of several


class Joined:
    """Iterate over a pool file: pairs of a line and its problem, without the lines that join to no problem.

    After each pass `index` lists what it joined. Without a `join` each line is its own problem.
    """

    def __init__(self, path: Path, join: Joiner | None, layouts: Layouts | None = None) -> None:
        self.path, self.join, self.layouts = path, join, layouts or Layouts()
        self.entries: list[dict[str, Any]] = []
        self.lost: list[str] = []
        self.several: list[str] = []
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[tuple[PoolRecord, Problem]]:
        self.entries, self.lost, self.several, self.notes = [], [], [], []
        taken: dict[str, str] = {}
        for record in read_pool(self.path, self.notes.append, self.layouts):
            prompt = next(iter(record.prompts), "")
            own = Problem(record.problem_id, prompt, record.reference)
            problem, way = self.join(record) if self.join else (own, "")
            if problem is None:
                (self.several if way == SEVERAL else self.lost).append(record.problem_id)
                continue
            name = storable(problem.id)  # as a cell has it
            if name in taken:
                raise HarnessError(
                    f"pool {self.path}: {record.problem_id!r} and {taken[name]!r} both join to problem {problem.id!r}"
                )
            taken[name] = record.problem_id
            self.entries.append(
                {
                    "id": problem.id,
                    "line": record.problem_id,
                    "way": way,
                    "prompt": prompt,
                    "reference": record.reference,
                    "n": len(record.responses),
                    "graded": record.correct is not None,
                    **({"figures": True} if record.measurements else {}),
                    **({"scores": list(record.scores)} if record.scores else {}),
                    "logprob_kind": record.logprob_kind,
                }
            )
            yield record, problem

    def index(self) -> dict[str, Any]:
        """Return what the last pass joined; HarnessError if no line joined, or none by the table of --ids.

        entries  for each joined problem what the file says of it
        lost     the ids of lines that fit no problem
        several  the ids of lines that fit several problems, and so join to none
        notes    how the file was read
        """
        path, join, entries = self.path, self.join, self.entries
        if not entries:
            lost, what_to_do = (
                [*self.lost, *self.several],
                "the table" if join and join.ids else "give a table of --ids",
            )
            raise HarnessError(
                f"pool {path}: none of its {len(lost)} problems is the task's, by id or by prompt; the first is "
                f"{lost[0]!r}: check the split, or {what_to_do}"
            )
        if join and join.ids and not any(entry["way"] == "--ids" for entry in entries):
            raise HarnessError(
                f"ids {join.ids.path}: names no line of pool {path}; its first is {entries[0]['line']!r}"
            )
        return {"entries": entries, "lost": self.lost, "several": self.several, "notes": self.notes}


def remarks(index: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for the user about an `index`: how its file was read, how its lines joined, which joined none."""
    entries, lost, several = index["entries"], index["lost"], index["several"]
    total = len(entries) + len(lost) + len(several)
    yield from index["notes"]
    ways = Counter(entry["way"] for entry in entries)
    if set(ways) - {"", "id"}:
        yield "pool: joined " + ", ".join(f"{ways[way]:,} {text}" for way, text in WAYS.items() if ways[way])
    if lost:
        yield f"pool: {len(lost)} of {total} problems join to none of the task's: {_first_names(lost)}"
    if several:
        yield (
            f"pool: {len(several)} of {total} problems fit several of the task's and are left out: "
            f"{_first_names(several)}; a table of --ids says which is meant"
        )


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")


# Which problem a line answers


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
        self.ways = (
            ("prompt", lambda text: [raw[text]] if text in raw else []),
            ("rendered", lambda text: [rendered[text]] if text in rendered else []),
            ("within", Within(raw)),
            ("within", Within(last)),
        )

    def __call__(self, record: PoolRecord) -> tuple[Problem | None, str]:
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
    cuts_before = prompt[0].isdigit() and re.search(r"\d\.?$", text[max(0, start - 2) : start])
    cuts_after = prompt[-1].isdigit() and re.match(r"\.?\d", text[end : end + 2])
    return text.startswith(prompt, start) and not cuts_before and not cuts_after


def _by_prompt(pairs: Iterable[tuple[str, Problem]]) -> Prompts:
    """The problem of each prompt; of several that are graded alike (same reference and meta) the first."""
    known: Prompts = {}
    for prompt, problem in pairs:
        squeezed = _squeezed(prompt)
        first = known.get(squeezed, problem)
        alike = first is problem or (
            first and repr((first.reference, first.meta)) == repr((problem.reference, problem.meta))
        )
        known[squeezed] = first if alike else None
    return known


def _squeezed(text: str) -> str:
    return " ".join(text.split())


# The table of --ids


class IdTable:
    """A table (JSONL, JSON, CSV, TSV): the problem's id for a pool's line, known by its id or its prompt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.by_id: dict[str, str] = {}
        self.by_prompt: dict[str, str | None] = {}
        row = None
        for row in _rows(path):
            task_id, pool_id = _cell(row, "task_id", "problem_id", "id"), _cell(row, "pool_id", "from")
            prompt = row.value.get("prompt")
            if task_id is not None and pool_id is not None:
                before = self.by_id.setdefault(pool_id, task_id)
                if before != task_id:
                    raise HarnessError(f"{row.where}: {pool_id!r} is {task_id!r} here and {before!r} in a row before")
            elif task_id is not None and isinstance(prompt, str):
                squeezed = _squeezed(prompt)
                same = self.by_prompt.get(squeezed, task_id) == task_id
                self.by_prompt[squeezed] = task_id if same else None  # a prompt of several problems names none
            else:
                columns = ", ".join(map(repr, row.value))
                raise HarnessError(
                    f"{row.where}: expected the task's id (task_id, problem_id or id) and the pool's line (pool_id, "
                    f"from or prompt), got {columns:.200}"
                )
        if row is None:
            raise HarnessError(f"ids {path}: no rows: it holds a task's id and a pool's line each, see docs/pools.md")

    def find(self, record: PoolRecord) -> str | None:
        """The id of the task's problem; None where the table does not name the line, or gives its prompt to several."""
        for name in record.ids:
            if name in self.by_id:
                return self.by_id[name]
        mapped = (self.by_prompt.get(_squeezed(prompt)) for prompt in record.prompts)
        return next((name for name in mapped if name is not None), None)


def _cell(row: Line, *names: str) -> str | None:
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
