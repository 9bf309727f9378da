"""Read a pool file line by line, each line with the problem that it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.records import Problem
from harness.system.hashing import storable

from .joining import SEVERAL, Joiner
from .reading import read_pool
from .record import PoolRecord
from .registered_layouts import Layouts


class Joined:
    """Iterate over a pool file: pairs of a line and its problem, without the lines that join to no problem.

    After each pass `index` lists what it joined. Without a `join` each line is its own problem.
    """

    def __init__(self, path: Path, join: Joiner | None, layouts: Layouts | None = None) -> None:
        self.path, self.join, self.layouts = path, join, layouts or Layouts()
        self._begin()

    def _begin(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.lost: list[str] = []
        self.several: list[str] = []
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[tuple[PoolRecord, Problem]]:
        self._begin()
        taken: dict[str, str] = {}
        for record in read_pool(self.path, self.notes.append, self.layouts):
            problem, way = self.join(record) if self.join else (_own_problem(record), "")
            if problem is None:
                (self.several if way == SEVERAL else self.lost).append(record.problem_id)
                continue
            name = storable(problem.id)  # as a cell has it
            if name in taken:
                raise HarnessError(
                    f"pool {self.path}: {record.problem_id!r} and {taken[name]!r} both join to problem {problem.id!r}"
                )
            taken[name] = record.problem_id
            self.entries.append(_entry(record, problem, way))
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
            raise HarnessError(_none_joined(path, [*self.lost, *self.several], join))
        if join and join.ids and not any(entry["way"] == "--ids" for entry in entries):
            raise HarnessError(
                f"ids {join.ids.path}: names no line of pool {path}; its first is {entries[0]['line']!r}"
            )
        return {"entries": entries, "lost": self.lost, "several": self.several, "notes": self.notes}


def _none_joined(path: Path, lost: Sequence[str], join: Joiner | None) -> str:
    what_to_do = "the table" if join and join.ids else "give a table of --ids"
    return (
        f"pool {path}: none of its {len(lost)} problems is the task's, by id or by prompt; the first is {lost[0]!r}: "
        f"check the split, or {what_to_do}"
    )


def _own_problem(record: PoolRecord) -> Problem:
    return Problem(record.problem_id, next(iter(record.prompts), ""), record.reference)


def _entry(record: PoolRecord, problem: Problem, way: str) -> dict[str, Any]:
    return {
        "id": problem.id,
        "line": record.problem_id,
        "way": way,
        "prompt": next(iter(record.prompts), ""),
        "reference": record.reference,
        "n": len(record.responses),
        "graded": record.correct is not None,
        **({"figures": True} if record.measurements else {}),
        **({"scores": list(record.scores)} if record.scores else {}),
        "logprob_kind": record.logprob_kind,
    }


def remarks(index: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for the user about an `index`: how its file was read, how its lines joined, which joined none."""
    entries, lost, several = index["entries"], index["lost"], index["several"]
    total = len(entries) + len(lost) + len(several)
    yield from index["notes"]
    ways = Counter(entry["way"] for entry in entries)
    if set(ways) - {"", "id"}:
        yield f"pool: joined {_counted(ways)}"
    if lost:
        yield f"pool: {len(lost)} of {total} problems join to none of the task's: {_first_names(lost)}"
    if several:
        yield (
            f"pool: {len(several)} of {total} problems fit several of the task's and are left out: "
            f"{_first_names(several)}; a table of --ids says which is meant"
        )


def _counted(ways: Counter[str]) -> str:
    named = {
        "--ids": "by the table of --ids",
        "id": "by id",
        "prompt": "by prompt",
        "rendered": "by the prompt as the task asks it",
        "within": "because their prompt holds the task's",
    }
    return ", ".join(f"{ways[way]:,} {text}" for way, text in named.items() if ways[way])


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
