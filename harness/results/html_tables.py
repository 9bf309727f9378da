"""Rows as a plain HTML table, which notebooks show; every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .columns import TERMINAL, columns, lines
from .rows import Row


def html_table(rows: Sequence[Row]) -> str:
    """A table of rows that share their pools: the columns that the terminal shows, with the references first."""
    shown = [column for column in columns(rows, TERMINAL) if column.kept]
    references, measured = lines(rows, shown)
    align = ["left" if column.is_text else "right" for column in shown]
    head = _line("th", [column.head.replace("-\n", "-").replace("\n", " ").strip() for column in shown], align)
    body = "".join(_line("td", line, align) for line in [*references, *measured])
    return f"<table><caption>{escape(_title(rows))}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"


def _line(tag: str, texts: Sequence[str], align: Sequence[str]) -> str:
    cells = "".join(
        f'<{tag} style="text-align:{side}">{escape(text)}</{tag}>' for text, side in zip(texts, align, strict=True)
    )
    return f"<tr>{cells}</tr>"


def _title(rows: Sequence[Row]) -> str:
    row = rows[0]
    names = dict.fromkeys((row.task, row.split, row.model, row.sampler))
    return " · ".join([*names, f"n = {row.n}, {row.problems} problems ({row.solvable} solvable)"])
