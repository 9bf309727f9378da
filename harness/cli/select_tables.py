"""Print the result of `harness select`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.system.console import Heading, console, printable, put, short, word_table

if TYPE_CHECKING:
    from harness.jobs.selection import Chosen


def selection(chosen: Sequence[Chosen]) -> None:
    """Print a row for each chosen response, with the beginning of its text."""
    has_names = any(any(picks.names) for picks in chosen)
    rows = []
    for picks in chosen:
        for rank, index in enumerate(picks.order, 1):
            name = [printable(picks.names[index] if picks.names else "", "")] if has_names else []
            beginning = printable(short(picks.texts[index][:200]), "")
            place = str(rank) if picks.ordered else "-"
            rows.append([printable(picks.problem_id, ""), place, str(index), *name, beginning])
    names = [Heading("name")] if has_names else []
    counts = [Heading("rank", right=True), Heading("index", right=True)]
    headings = [Heading("problem"), *counts, *names, Heading("response", kept=1, prose=True)]
    put(word_table(headings, rows, console().width)[0])
