"""Print on stdout: tables, texts of plugins and users without their markup or control characters, JSON for scripts.

While a command's JSON is awaited, stdout is kept for it, and what plugins print goes to stderr. rich is imported when
something is printed: `harness --help` does without it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

LEAST_WIDTH = 110
PROSE_WIDTH = 24  # columns are left out before prose gets narrower
_capturing: ContextVar[Console | None] = ContextVar("capturing", default=None)


# Texts and tables.


@contextmanager
def captured(width: int = LEAST_WIDTH) -> Iterator[StringIO]:
    """Collect what `put` prints inside, as plain text of that many columns, whatever stdout is (a notebook's too)."""
    from rich.console import Console

    text = StringIO()
    token = _capturing.set(Console(file=text, width=width, highlight=False, force_terminal=False, force_jupyter=False))
    try:
        yield text
    finally:
        _capturing.reset(token)


def console() -> Console:
    """A console on stdout; at least `LEAST_WIDTH` columns wide if stdout is no terminal and COLUMNS is not set."""
    from rich.console import Console

    if capturing := _capturing.get():
        return capturing
    stdout = Console(highlight=False)
    return stdout if _has_width(stdout) else Console(highlight=False, width=max(stdout.width, LEAST_WIDTH))


def _has_width(out: Console) -> bool:
    """Whether somebody reads in a given width: on a terminal, or with COLUMNS in the environment."""
    return out.is_terminal or os.environ.get("COLUMNS", "").isdigit()


def put(value: Any, hang: int = 0, out: Console | None = None) -> None:
    """Print a table, or anything else as lines of text.

    On a terminal they are wrapped between words, and no word is cut. In a pipe they stay as they are, for scripts.

    hang  columns before the second and further lines of what is wrapped; 0: as many as before the first one
    out   where it is printed, if not on stdout
    """
    from rich.table import Table
    from rich.text import Text

    out = out or console()
    if isinstance(value, Table):
        return out.print(value)
    lines = printable(str(value)).split("\n")
    if _has_width(out):
        lines = [_wrapped(line, out.width, hang) for line in lines]
    out.print(Text("\n".join(lines)), soft_wrap=True)


def _wrapped(line: str, width: int, hang: int) -> str:
    indent = " " * (hang or len(line) - len(line.lstrip()))
    wrap = textwrap.TextWrapper(
        width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )
    return line if len(line) <= width else wrap.fill(line)


@dataclass(frozen=True)
class Heading:
    """The head of a column, and how the column is shown.

    kept   a narrow table drops the columns with the lowest value first
    right  whether its texts are aligned to the right
    prose  whether its texts are wrapped between words; others stay on one line
    """

    head: str
    kept: int = 9
    right: bool = False
    prose: bool = False


def word_table(
    headings: Sequence[Heading], rows: Sequence[Sequence[str]], width: int, ends: Sequence[int] = ()
) -> tuple[Table, list[int]]:
    """A table of at most `width` columns in which no word is cut, and the places of the headings that it shows.

    Where it is too wide, columns are left out; if those with the highest `kept` do not fit, their texts are broken
    behind commas and slashes. `ends`: the places of rows below which a line of space stands.
    """
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(heading.head), *(printable(row[at]) for row in rows)] for at, heading in enumerate(headings)]
    widths = [max(cell_len(line) for cell in texts for line in cell.split("\n")) for texts in cells]
    least = widths.copy()  # below it a column would cut a word, or wrap prose to a narrow strip
    for at, heading in enumerate(headings):
        if heading.prose:
            word = max(cell_len(word) for cell in cells[at] for word in cell.split() or [""])
            least[at] = max(word, min(PROSE_WIDTH, widths[at]))
    shown = list(range(len(headings)))
    for kept in sorted({heading.kept for heading in headings})[:-1]:
        if sum(least[at] + 2 for at in shown) < width:
            break
        shown = [at for at in shown if headings[at].kept > kept]
    room = width - 2 * len(shown) - 1
    if sum(least[at] for at in shown) > room:
        least = [size if headings[at].right else 1 for at, size in enumerate(least)]
    while sum(widths[at] for at in shown) > room and (wide := [at for at in shown if widths[at] > least[at]]):
        widths[max(wide, key=lambda at: widths[at])] -= 1
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for at in shown:
        justify: Any = "right" if headings[at].right else "left"
        table.add_column(cells[at][0], justify=justify, width=widths[at], overflow="fold")
    for place in range(1, len(rows) + 1):
        texts = (Text(_folded(cells[at][place], widths[at])) for at in shown)
        table.add_row(*texts, end_section=place - 1 in ends)
    return table, shown


def _folded(cell: str, width: int) -> str:
    """The text with its words that are wider than `width` broken behind commas and slashes."""
    lines = [""]
    for piece in re.findall(r"\s+|[^\s,/]+[,/]*|[,/]+", cell):
        if not piece.isspace() and lines[-1] and len(lines[-1].rpartition(" ")[2] + piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def printable(value: str, kept: str = "\n\t") -> str:
    """The text with non-printable characters replaced by U+FFFD, except those in `kept`."""
    return "".join(char if char.isprintable() or char in kept else "\N{REPLACEMENT CHARACTER}" for char in value)


def short(value: Any, most: int = 40) -> str:
    """A value on one line of at most `most` characters; a dash for None."""
    joined = "-" if value is None else " ".join(str(value).split())
    return joined if len(joined) <= most else f"{joined[: most - 3]}..."


# JSON.


_kept: TextIO | None = None  # the stdout that `reserved` keeps for `write`
_was_reserved = False


@contextmanager
def reserved() -> Iterator[None]:
    """Send to stderr what is written inside to stdout; only `write` reaches the real stdout.

    This holds for `sys.stdout` and for file descriptor 1, also that of child processes.
    """
    global _kept, _was_reserved
    out, before, outer = sys.stdout, os.dup(1), _kept
    out.flush()
    sys.stderr.flush()
    _kept = os.fdopen(os.dup(1), "w", encoding=out.encoding, errors=out.errors) if _is_real(out) else out
    os.dup2(2, 1)
    sys.stdout, _was_reserved = sys.stderr, True
    try:
        yield
    finally:
        _kept.flush()
        out.flush()  # what plugins wrote to an old reference to stdout still goes to stderr
        _kept, sys.stdout = outer, out
        os.dup2(before, 1)
        os.close(before)


def _is_real(out: TextIO) -> bool:
    """Whether the stream writes to file descriptor 1."""
    with suppress(OSError, ValueError):
        return out.fileno() == 1
    return False


def write(text: str) -> None:
    """Write a command's JSON to stdout, also while stdout is reserved.

    What a terminal obeys, or what changes how other characters are shown, is escaped as JSON does it.
    """
    shown = "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
    print(shown, end="", file=_kept or sys.stdout, flush=True)


def end() -> None:
    """After `--json`, send what is printed from now on to stderr: plugins may print at exit too."""
    if _was_reserved and _is_real(sys.stdout):
        with suppress(OSError):
            sys.stdout.flush()
        os.dup2(2, 1)
