"""`harness doctor --store DIR`: every file of a store that cannot be trusted, and what to do about it.

What a run makes again from what is sound may be deleted: vectors, verdicts, orders, memo entries. What cost money, or
cannot be made from the rest (responses, records, cells), is better moved away.
"""

from __future__ import annotations

import os
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
RECORDS = {"cells": cells.read, stopping_times.FOLDER: stopping_times.read}
AGAIN, AWAY = "delete it; the next run makes it again", "move it away"


def diagnosis(root: Path, progress: Progress) -> dict[str, Any]:
    """Check every file of a store that a table could be made from, and return a report.

    store    the store's folder
    files    the number of files checked
    faults   a dict of each fault: path, kind (the column's, or "cells", "memo", ...), what the fault is, and the cure
    """
    if not any((root / name).exists() for name in ("store.json", "pool", "ranking")):  # two are of older versions
        raise HarnessError(f"doctor: {root} is no store of `harness run`: no store.json is in it")
    with Store(root).used():
        files, faults = list(_files(root)), []
        with progress.stage("check", len(files), "files") as shown:
            for path, kind, check, cure in files:
                try:
                    check(path)
                except Damaged:
                    faults.append((path, kind, "is damaged", cure))
                except HarnessError as failure:
                    faults.append((path, kind, str(failure), cure))
                shown.advance()
    rows = [dict(zip(("path", "kind", "fault", "cure"), map(str, fault), strict=True)) for fault in faults]
    return {"store": str(root), "files": len(files), "faults": rows}


def _files(root: Path) -> Iterator[tuple[Path, str, Callable[[Path], Any], str]]:
    """Each file, the kind of it, what raises HarnessError where it cannot be trusted, and what to do then."""
    for folder, names in _below(root):
        depth = len(folder.relative_to(root).parts)
        kind = folder.name.partition(".")[0]
        for path in (folder / name for name in names if name[0] != "."):
            if depth == 1 and folder.name in RECORDS and path.suffix == ".json":
                yield path, folder.name, RECORDS[folder.name], AWAY
            elif folder.parent == root / "memo" or path.name == "problems.jsonl":
                yield path, "memo" if depth == 2 else "problems", _check_lines, AGAIN
            elif path.name in ("pool.json", "column.json"):
                yield path, path.stem, _check_key, AGAIN
            elif depth == 1 and path.name == "weights.json":
                yield path, "weights", lambda path: read_json(path, "store"), AWAY
            elif depth == 1 and path.name.startswith("index."):
                yield path, "index", _check_index, AGAIN
            elif depth == 2 and path.suffix in (".parquet", ".npy", ".arrow") and path.name.count(".") in (3, 4):
                yield path, kind, read_bytes, _cure(path, kind)


def _below(root: Path) -> Iterator[tuple[Path, list[str]]]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        if Path(folder) == root and "rl" in folders:
            folders.remove("rl")
        yield Path(folder), sorted(names)


def _cure(path: Path, kind: str) -> str:
    if kind not in SOURCES:
        return AGAIN
    imported = any(path.parents[1].glob("index.*.json"))
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


def shown(report: dict[str, Any]) -> str:
    """Return a report of `diagnosis` as text: one line for each fault, then the counts."""
    lines = [f"{fault['path']} {fault['fault']}: {fault['cure']}" for fault in report["faults"]]
    return "\n".join([*lines, f"{report['files']:,} files of {report['store']}: {len(lines):,} faults"])
