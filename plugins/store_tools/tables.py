"""What `harness store` prints: tables that fit 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from harness.system.console import plain_table, put, text

OTHERS = 5  # files that are not the store's own, by name; --json has all
UNITS = (("d", 86400), ("h", 3600), ("min", 60))


def listing(value: Mapping[str, Any]) -> None:
    """Print what `listing.listing` returned."""
    rows, fault, before = value["rows"], value["fault"], ("", "")
    table = _table(["task", "model", "stage"], ["size", "unused", "last used"])
    for row in rows:
        labels, unused = (row["task"], _model(row["model"])), row["made_again"] + row["costly"]
        sizes = size_text(row["bytes"]), "?" if fault else size_text(unused) if unused else "-"
        repeats = labels == before
        table.add_row(*([""] * 2 if repeats else map(text, labels)), row["stage"], *sizes, _age(row["last_used"]))
        before = labels
    put(table)
    put(f"{value['store']}: {_amount(rows)}")
    again, costly = _sum(rows, "made_again"), _sum(rows, "costly")
    if again:
        put(f"unused, and made again if needed: {size_text(again)} (`harness store prune`)")
    if costly:
        put(f"unused, but it cost money or came from a file: {size_text(costly)} (`prune --pools`)")
    if fault:
        put(f"what is unused is not known: {fault}")
    _put_others(value["others"], value["store"])


def pruned(value: Mapping[str, Any]) -> None:
    """Print what `pruning.prune` returned."""
    rows, deleted = value["rows"], value["deleted"]
    going, kept = [row for row in rows if row["goes"]], [row for row in rows if not row["goes"]]
    table = _table(["task", "model", "stage", "key"], ["size", "last used"])
    for row in going:
        labels = row["task"], _model(row["model"]), row["stage"], row["key"][:8]
        table.add_row(*map(text, labels), size_text(row["bytes"]), _age(row["last_used"]))
    if going:
        put(table)
        put(f"deleted: {_amount(going)}" if deleted else f"--yes deletes this: {_amount(going)}")
    else:
        put("nothing to delete" + (": cells use all that is made again" if kept else ": cells use all of it"))
    if kept:
        put(f"\nkept: {_amount(kept)} that cost money or came from a file, and")
        put("have no cell. A run that was killed goes on from them. --pools deletes them too:")
        for row in kept:
            put(
                f"  {row['stage']} {row['key'][:8]} of {row['task']}, {_model(row['model'])}: {size_text(row['bytes'])}"
            )


def _table(words: Sequence[str], numbers: Sequence[str]) -> Table:
    table = plain_table()
    for name in words:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


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
