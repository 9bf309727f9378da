"""Texts from elsewhere (names, paths, reasons) in Markdown, CSV and terminals, made safe to show as plain text."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import HarnessError

# Backslash-escapes are what CommonMark shows as the sign itself; "`" and what ends a line or cell have none that GitHub
# follows within tables.
_MARKDOWN = {sign: f"\\{sign}" for sign in "\\[]()!|*~$"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "`": "'"}
# Signs at which a spreadsheet takes a cell for a formula (OWASP, CSV Injection), and their full-width forms.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
MARK = "'"


def markdown(text: Any) -> str:
    """Escape a text for a paragraph, heading or cell of Markdown: it starts no link, image, table, HTML or formula.

    Web addresses do not become links either (GitHub would make them so). Non-printable characters become blanks.
    """
    shown = "".join(sign if sign.isprintable() else " " for sign in str(text))
    escaped = "".join(_MARKDOWN.get(sign, sign) for sign in shown)
    return escaped.replace("://", ":\\//").replace("www.", "www\\.")


def csv_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV, with a header of all their names in order of appearance and `csv_cell` of every value."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines: list[list[Any]] = [list(columns), *([row.get(name) for name in columns] for row in rows)]
    return "".join(_csv_line([csv_cell(value) for value in line]) for line in lines)


def _csv_line(cells: Sequence[Any]) -> str:
    """One line; the writer quotes a carriage return only where it may end a line."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue().removesuffix("\r\n") + "\n"


def csv_cell(value: Any) -> Any:
    """A cell that no spreadsheet runs: a text that begins as a formula does gets a `'` before it; numbers stay.

    So does a text that begins with `'` itself, so that `csv_text` gives back what was written.
    """
    if isinstance(value, str) and value.lstrip(" ").startswith((*FORMULA, MARK)):
        return MARK + value
    return value


def csv_text(cell: str) -> str:
    """The text that `csv_cell` was given."""
    return cell.removeprefix(MARK)


def folder_name(text: str) -> str:
    """The text as the name of one folder: what a path would be made of becomes `_`."""
    name = "".join(sign if sign.isalnum() or sign in "._:=,+-" else "_" for sign in text)[:80]
    if not name.strip("."):
        raise HarnessError(f"{text!r:.80} cannot name a folder")
    return name
