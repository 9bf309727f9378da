"""Print the result of `harness select`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.system.console import plain_table, printable, put, short, text

if TYPE_CHECKING:
    from harness.running.selection import Chosen


def selection(chosen: Sequence[Chosen]) -> None:
    """Print a row for each chosen response, with the beginning of its text."""
    table = plain_table()
    table.add_column("problem", overflow="fold")
    table.add_column("rank", justify="right")
    table.add_column("index", justify="right")
    has_names = any(any(picks.names) for picks in chosen)
    if has_names:
        table.add_column("name", overflow="fold")
    table.add_column("response")
    for picks in chosen:
        for rank, index in enumerate(picks.order, 1):
            beginning = printable(short(picks.texts[index][:200]), "")
            place = str(rank) if picks.ordered else "-"
            name = [text(printable(picks.names[index] if picks.names else "", ""))] if has_names else []
            table.add_row(text(printable(picks.problem_id, "")), place, str(index), *name, text(beginning))
    put(table)
