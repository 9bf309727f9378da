"""Make texts of plugins and users (names, paths, reasons) safe to show as plain text in Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

# CommonMark shows a backslash-escaped character as itself. For "`", and for characters that end a line or cell, GitHub
# follows no escape within tables.
_ESCAPED, _MARKDOWN = re.compile(r"[\\\[\]()!|*~$]"), str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;", "`": "'"})
# First characters of cells that a spreadsheet runs as formulas (OWASP, CSV Injection), and their full-width forms.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
MARK = "'"
# The folders of an absolute path: where a text begins, or behind a sign, up to the last slash before the next "," or
# quote. Blanks are part of it, so that of two paths in a sentence what is between them goes too.
_FOLDERS = re.compile(
    r"""(?:^|(?<=[\s=:+'"(\[,]))(?:~[^\s/]*/|/(?=[\w.])|[A-Za-z]:\\)(?:[^,'"\n]*[/\\](?=[^/\\,'"\s]))?"""
)


def markdown(text: Any) -> str:
    """Escape a text for a paragraph, heading or cell of Markdown: it starts no link, image, table, HTML or formula.

    Web addresses do not become links either (GitHub would make them so). Non-printable characters become blanks.
    """
    shown = "".join(char if char.isprintable() else " " for char in str(text))
    return _ESCAPED.sub(r"\\\g<0>", shown).translate(_MARKDOWN).replace("://", ":\\//").replace("www.", "www\\.")


def csv_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV, with a header of all their names in order of appearance and `csv_cell` of every value."""
    columns, table = list(dict.fromkeys(name for row in rows for name in row)), io.StringIO()
    writer = csv.writer(table, lineterminator="\r\n")  # so that it quotes a carriage return
    writer.writerow(map(csv_cell, columns))
    writer.writerows([csv_cell(row.get(name)) for name in columns] for row in rows)
    return table.getvalue().replace("\r\n", "\n")


def csv_cell(value: Any) -> Any:
    """A cell that no spreadsheet runs: a text that begins like a formula gets a `'` in front of it; numbers stay.

    A text that begins with `'` gets one too, so that `csv_text` restores every text.
    """
    return MARK + value if isinstance(value, str) and value.lstrip(" ").startswith((*FORMULA, MARK)) else value


def csv_text(cell: str) -> str:
    """The text from which `csv_cell` made the cell."""
    return cell.removeprefix(MARK)


def without_folders(value: Any) -> Any:
    """The value with every absolute path in its texts as its last part: folders name a user and mean nothing elsewhere.

    own:file=/home/ada/sums.jsonl,grader=number    own:file=sums.jsonl,grader=number
    """
    if isinstance(value, str):
        return _FOLDERS.sub("", value)
    if isinstance(value, dict):
        return {name: without_folders(each) for name, each in value.items()}
    return [without_folders(each) for each in value] if isinstance(value, list) else value
