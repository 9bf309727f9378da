"""Print tables, and texts of plugins and users without interpreting their markup or control characters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import StringIO
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

LEAST_WIDTH = 110
_capturing: ContextVar[Console | None] = ContextVar("capturing", default=None)


@contextmanager
def captured(width: int = LEAST_WIDTH) -> Iterator[StringIO]:
    """Collect what `put` prints inside, as plain text of that many columns, whatever stdout is (a notebook's too)."""
    text = StringIO()
    token = _capturing.set(Console(file=text, width=width, highlight=False, force_terminal=False, force_jupyter=False))
    try:
        yield text
    finally:
        _capturing.reset(token)


def console(least: int = LEAST_WIDTH) -> Console:
    """A console on stdout; at least `least` columns wide if stdout is not a terminal."""
    if capturing := _capturing.get():
        return capturing
    stdout = Console(highlight=False)
    return stdout if stdout.is_terminal else Console(highlight=False, width=max(stdout.width, least))


def text(value: Any) -> Text:
    """The value as text, in which markup has no effect and non-printable characters are replaced (`printable`)."""
    return Text(printable(str(value)))


def put(value: Any, least: int = LEAST_WIDTH) -> None:
    """Print a table, or anything else as lines of text that the terminal may wrap."""
    is_table = isinstance(value, Table)
    console(least).print(value if is_table else text(value), soft_wrap=not is_table)


def plain_table(**options: Any) -> Table:
    """A table with one line below its head and no frame; `options` are those of rich's Table."""
    return Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, **options)


def printable(value: str, kept: str = "\n\t") -> str:
    """Return the text with non-printable characters replaced by U+FFFD, except those in `kept`."""
    return "".join(char if char.isprintable() or char in kept else "\N{REPLACEMENT CHARACTER}" for char in value)


def short(value: Any, most: int = 40) -> str:
    """A value on one line of at most `most` characters; a dash for None."""
    joined = "-" if value is None else " ".join(str(value).split())
    return joined if len(joined) <= most else f"{joined[: most - 3]}..."
