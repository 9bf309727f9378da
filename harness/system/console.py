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
    from rich.text import Text

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


def console(least: int = LEAST_WIDTH) -> Console:
    """A console on stdout; at least `least` columns wide if stdout is no terminal and COLUMNS is not set."""
    from rich.console import Console

    if capturing := _capturing.get():
        return capturing
    stdout = Console(highlight=False)
    return stdout if _has_width(stdout) else Console(highlight=False, width=max(stdout.width, least))


def _has_width(out: Console) -> bool:
    """Whether somebody reads in a given width: on a terminal, or with COLUMNS in the environment."""
    return out.is_terminal or os.environ.get("COLUMNS", "").isdigit()


def text(value: Any) -> Text:
    """The value as text, in which markup has no effect and non-printable characters are replaced (`printable`)."""
    from rich.text import Text

    return Text(printable(str(value)))


def put(value: Any, least: int = LEAST_WIDTH) -> None:
    """Print a table, or anything else as lines of text, wrapped between words on a terminal."""
    from rich.table import Table

    is_table, out = isinstance(value, Table), console(least)
    out.print(value if is_table else text(word_wrapped(str(value), out)), soft_wrap=not is_table)


def put_hanging(label: str, value: str) -> None:
    """Print a label and a text behind it, wrapped between words; below the label where it leaves no room."""
    out = console()
    if out.width < 1.5 * len(label) and out.width < len(label + value):
        label = f"{label.rstrip()}\n    "
    indent = " " * len(label.rpartition("\n")[2])
    lines = _wrapped(printable(value), max(20, out.width - len(indent)))
    out.print(text(label + lines.replace("\n", f"\n{indent}")), soft_wrap=True)


def word_wrapped(value: str, out: Console) -> str:
    """The text with its lines wrapped between words; no word is cut. In a pipe lines stay as they are, for scripts."""
    return "\n".join(_wrapped(line, out.width) for line in value.split("\n")) if _has_width(out) else value


def _wrapped(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip())]
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
        justify = "right" if headings[at].right else "left"
        table.add_column(headings[at].head, justify=justify, width=widths[at], overflow="fold")  # type: ignore[arg-type]
    for place in range(len(rows)):
        table.add_row(*(text(_folded(cells[at][1 + place], widths[at])) for at in shown), end_section=place in ends)
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
    """Return the text with non-printable characters replaced by U+FFFD, except those in `kept`."""
    return "".join(char if char.isprintable() or char in kept else "\N{REPLACEMENT CHARACTER}" for char in value)


def short(value: Any, most: int = 40) -> str:
    """A value on one line of at most `most` characters; a dash for None."""
    joined = "-" if value is None else " ".join(str(value).split())
    return joined if len(joined) <= most else f"{joined[: most - 3]}..."


# JSON.


_kept: list[TextIO] = []  # the stdout that `reserved` keeps for `write`
_was_reserved = False


@contextmanager
def reserved() -> Iterator[None]:
    """Send to stderr what is written inside to stdout; only `write` reaches the real stdout.

    This holds for `sys.stdout` and for file descriptor 1, also that of child processes.
    """
    global _was_reserved
    _was_reserved = True
    out, before = sys.stdout, os.dup(1)
    out.flush()
    sys.stderr.flush()
    kept = os.fdopen(os.dup(1), "w", encoding=out.encoding, errors=out.errors) if _is_real(out) else out
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    _kept.append(kept)
    try:
        yield
    finally:
        _kept.pop().flush()
        out.flush()  # what plugins wrote to an old reference to stdout still goes to stderr
        sys.stdout = out
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
    print(shown, end="", file=_kept[-1] if _kept else sys.stdout, flush=True)


def end() -> None:
    """Send what is printed from now on to stderr until the process ends: plugins may print at exit too.

    No effect if `reserved` was not used.
    """
    if _was_reserved and _is_real(sys.stdout):
        sys.stdout.flush()
        os.dup2(2, 1)
