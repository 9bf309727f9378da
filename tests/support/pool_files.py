"""What a pool file holds, what is said of it as it is read, and why it is refused."""

from __future__ import annotations

from pathlib import Path

from harness.pools.reading import Layouts, read_pool
from support.refusals import refusal_of

LAYOUTS = Layouts()  # of the installed plugins, built once


def responses_in(path: Path) -> dict[str, list[str]]:
    """Problem id -> its responses, in the file's order."""
    return {record.problem_id: list(record.responses) for record in read_pool(path, layouts=LAYOUTS)}


def notes_on(path: Path) -> list[str]:
    """What is said of a pool file as it is read."""
    notes: list[str] = []
    list(read_pool(path, notes.append, LAYOUTS))
    return notes


def pool_refusal(path: Path, layouts: Layouts = LAYOUTS) -> str:
    """The one line with which a pool file is refused; it names the file."""
    line = refusal_of(lambda: list(read_pool(path, layouts=layouts)))
    assert line.startswith(f"pool {path}")
    return line
