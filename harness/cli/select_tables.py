"""What `harness select` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.system.console import plain_table, printable, put, short, text

if TYPE_CHECKING:
    from harness.running.selection import Chosen


def selection(chosen: Sequence[Chosen]) -> None:
    """What to verify next: a row a response, and how its text begins."""
    table = plain_table()
    table.add_column("problem", overflow="fold")
    table.add_column("rank", justify="right")
    table.add_column("index", justify="right")
    named = any(any(one.names) for one in chosen)
    if named:
        table.add_column("name", overflow="fold")
    table.add_column("response")
    for one in chosen:
        for rank, index in enumerate(one.order, 1):
            begins = printable(short(one.texts[index][:200]), "")
            place = str(rank) if one.ordered else "-"
            name = [text(printable(one.names[index] if one.names else "", ""))] if named else []
            table.add_row(text(printable(one.problem_id, "")), place, str(index), *name, text(begins))
    put(table)
