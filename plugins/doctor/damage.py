"""`harness doctor --store DIR`: every file of a store that cannot be trusted, and what to do about it.

What a run makes again from what is sound may be deleted: vectors, verdicts, orders, memo entries. What cost money, or
cannot be made from the rest (responses, records, cells), is better moved away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.columns.store import Damaged, Memo, Store, read_bytes
from harness.errors import HarnessError
from harness.results import cells, stopping_times
from harness.system.files import read_regular
from harness.system.json_text import digest
from harness.system.json_text import read as read_json
from harness.system.progress import Progress

SOURCES = ("responses", "sequences")
READ = ("responses", "vectors", "scores", "verdicts")  # fields of a column that are no part of its key
AGAIN, AWAY = "delete it; the next run makes it again", "move it away"


def diagnosis(root: Path, progress: Progress) -> dict[str, Any]:
    """Check every file of a store that a table could be made from, and return a report.

    store    the store's folder
    files    the number of files checked
    faults   a dict of each fault: path, kind (the column's, or "cells", "memo", ...), what the fault is, and the cure
    """
    if not (root / "store.json").exists():
        raise HarnessError(f"doctor: {root} is no store of `harness run`: no store.json is in it")
    faults = []
    with Store(root).used():
        files = sorted(_files(root), key=lambda file: file[0])
        with progress.stage("check", len(files), "files") as shown:
            for path, kind, check, cure in files:
                try:
                    check(path)
                except HarnessError as failure:
                    fault = "is damaged" if isinstance(failure, Damaged) else str(failure)
                    faults.append({"path": str(path), "kind": kind, "fault": fault, "cure": cure})
                shown.advance()
    return {"store": str(root), "files": len(files), "faults": faults}


def _files(root: Path) -> Iterator[tuple[Path, str, Callable[[Path], Any], str]]:
    """Each file, the kind of it, what raises HarnessError where it cannot be trusted, and what to do then."""
    checks: list[tuple[str, str, Callable[[Path], Any], str]] = [
        ("cells/*.json", "cells", cells.read, AWAY),
        (f"{stopping_times.FOLDER}/*.json", stopping_times.FOLDER, stopping_times.read, AWAY),
        ("memo/*/*", "memo", _check_lines, AGAIN),
        ("*/problems.jsonl", "problems", _check_lines, AGAIN),
        ("*/pool.json", "pool", _check_key, AGAIN),
        ("*/*/column.json", "column", _check_key, AGAIN),
        ("*/weights.json", "weights", lambda path: read_json(path, "store"), AWAY),
        ("*/index.*", "index", _check_index, AGAIN),
        ("*/*.*/*.*.*.*", "", read_bytes, AGAIN),
    ]
    for pattern, kind, check, cure in checks:
        for path in root.glob(pattern):
            if path.name[0] == "." or path.is_relative_to(root / "rl"):
                continue
            of = kind or path.parent.name.partition(".")[0]
            yield path, of, check, _cure_of_source(path.parents[1]) if of in SOURCES else cure


def _cure_of_source(pool: Path) -> str:
    imported = any(pool.glob("index.*.json"))
    return f"{AWAY}; {'the pool file is then imported' if imported else 'its problem is then sampled'} again"


def _check_lines(path: Path) -> None:
    if damaged := Memo(path).damaged:
        raise HarnessError(f"holds {damaged} damaged line{'s' * (damaged > 1)}, which count as missing")


def _check_key(path: Path) -> None:
    """A column's key is the hash of what made it."""
    made = read_json(path, "store")
    if not isinstance(made, dict) or path.parent.name.rpartition(".")[2] != digest(
        {name: value for name, value in made.items() if name not in READ}, 12
    ):
        raise Damaged(path)


def _check_index(path: Path) -> None:
    try:
        content = read_regular(path).decode()
    except (OSError, ValueError):
        raise Damaged(path) from None
    if digest(content, 16) != path.name.split(".")[2]:
        raise Damaged(path)
