"""`harness run --only FILE`: the problems that a file names (`harness pool hardest` writes such files).

{"problem_id": "algebra/test-17", ...}      one line a problem
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from harness.errors import HarnessError
from harness.system.json_text import read_lines

Item = TypeVar("Item")
NAMED = 3  # unknown ids that a message lists


def read_ids(path: Path) -> set[str]:
    """The problem ids of a JSON-lines file; HarnessError where a line has none, or there is no line."""
    ids = set()
    for line in read_lines(path, "--only"):
        problem_id = line.value.get("problem_id")
        if not isinstance(problem_id, str):
            raise HarnessError(f"{line.where}: problem_id must be a string, got {problem_id!r:.60}")
        ids.add(problem_id)
    if not ids:
        raise HarnessError(f"--only {path}: names no problem")
    return ids


def only(path: Path | None, items: Sequence[Item], id_of: Callable[[Item], str], where: str) -> list[Item]:
    """The items whose ids the file names, in the items' order; all of them without a file.

    Raises HarnessError if the file names an id that no item has; `where` says what the items are.
    """
    if path is None:
        return list(items)
    ids = read_ids(path)
    unknown = sorted(ids - {id_of(item) for item in items})
    if unknown:
        named = ", ".join(map(repr, unknown[:NAMED])) + (", ..." if len(unknown) > NAMED else "")
        raise HarnessError(
            f"--only {path}: {len(unknown)} of {len(ids)} ids are not in {where} ({named}): "
            "give the --task, --data and --split that they are from"
        )
    return [item for item in items if id_of(item) in ids]
