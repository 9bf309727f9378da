"""What `harness store` prints: lines that fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from harness.system.console import put

OTHERS = 5  # files that are not the store's own, by name; --json has all
UNITS = (("d", 86400), ("h", 3600), ("min", 60))


def listing(value: Mapping[str, Any]) -> None:
    """Print what `parts.listing` returned."""
    rows, fault = value["rows"], value["fault"]
    put(_line("", "size", "unused", "last used"))
    for title, group in _by_labels(rows):
        put(title)
        for row in group:
            unused = row["made_again"] + row["costly"]
            shown = "?" if fault else size_text(unused) if unused else "-"
            put(_line(row["stage"], size_text(row["bytes"]), shown, _age(row["last_used"])))
    put(f"\n{value['store']}: {_amount(rows)}")
    again, costly = _sum(rows, "made_again"), _sum(rows, "costly")
    if again:
        put(f"unused, and made again if needed: {size_text(again)} (`harness store prune`)")
    if costly:
        put(f"unused, but costly to make again, or from a file: {size_text(costly)} (`prune --pools`)")
    if fault:
        put(f"what is unused is not known: {fault}")
    _put_others(value["others"], value["store"])


def pruned(value: Mapping[str, Any]) -> None:
    """Print what `parts.prune` returned."""
    rows, deleted = value["rows"], value["deleted"]
    going, kept = [row for row in rows if row["goes"]], [row for row in rows if not row["goes"]]
    if going:
        _put_folders(going)
        put(f"deleted: {_amount(going)}" if deleted else f"--yes deletes this: {_amount(going)}")
    else:
        put("nothing to delete" + (": cells use all that is made again" if kept else ": cells use all of it"))
    if kept:
        put("\nkept, because it is costly to make again, or from a file (a run that was killed goes on")
        put("from it); no cell uses it, and --pools deletes it too:")
        _put_folders(kept)


def _put_folders(rows: Sequence[Mapping[str, Any]]) -> None:
    put(_line("", "size", "key", "last used"))
    for title, group in _by_labels(rows):
        put(title)
        for row in group:
            put(_line(row["stage"], size_text(row["bytes"]), row["key"][:8], _age(row["last_used"])))


def _line(stage: str, size: str, third: str, age: str) -> str:
    return f"  {stage:<12}{size:>10}{third:>12}{age:>13}"


def _by_labels(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Iterable[Mapping[str, Any]]]]:
    """The rows of each task and model, with a title that names both."""
    for (task, model), group in groupby(rows, key=itemgetter("task", "model")):
        yield f"{'all tasks' if task == 'all' else task}, {'all models' if model == 'all' else _model(model)}", group


def _put_others(others: Sequence[Mapping[str, Any]], root: str) -> None:
    if others:
        names = [str(Path(other["path"]).relative_to(root)) for other in others[:OTHERS]]
        more = f" and {len(others) - OTHERS} more" if len(others) > OTHERS else ""
        put(f"not of the store, and never deleted: {size_text(_sum(others, 'bytes'))} ({', '.join(names)}{more})")


def _amount(rows: Sequence[Mapping[str, Any]]) -> str:
    files = _sum(rows, "files")
    return f"{size_text(_sum(rows, 'bytes'))} in {files:,} file{'' if files == 1 else 's'}"


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def _model(name: str) -> str:
    """A model's name; of a folder its last part."""
    return Path(name).name if name.startswith(("/", ".", "~")) else name


def size_text(count: int) -> str:
    """A number of bytes as people read it: "512 B", "3 kB", "1.2 GB"."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1000:,.0f} kB" if count >= 1000 else f"{count} B"


def _age(moment: str) -> str:
    """How long ago a moment (ISO 8601) was: "now", "12 min", "3 h", "40 d"."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    return next((f"{seconds / size:,.0f} {unit} ago" for unit, size in UNITS if seconds >= size), "now")
