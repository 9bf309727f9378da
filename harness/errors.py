"""The one exception that is shown to a person as one line, and what plugins raise made fit for it."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class HarnessError(Exception):
    """A mistake that its reader can put right: who, what, got, and what to do, in one line.

    One line it stays, whatever a file's own names and texts bring into it: line ends become blanks, signs that a
    terminal would obey or that no file can hold are escaped, and the middle of what is endless is left out.
    """

    def __str__(self) -> str:
        return one_line(super().__str__())


LONGEST = 4_000  # characters


def one_line(text: str) -> str:
    """The text as one printable line of at most `LONGEST` characters."""
    joined = " ".join(line.strip() for line in text.splitlines())
    if len(joined) > LONGEST:
        joined = f"{joined[: LONGEST - 1000]} ... {joined[-900:]}"
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in joined)


class NotBegun(HarnessError):
    """Work of an hour and more that nobody said yes to: the whole command ends, not one cell of it."""


class Escaped(Exception):
    """A plugin raised what would end the process (SystemExit, a BaseException of its own): its `__cause__`."""


@contextmanager
def contained() -> Iterator[None]:
    """Turn what a plugin raises beyond Exception into `Escaped`, so that it ends a row and not the run.

    Ctrl-C stays what it is. Not for a `with` that holds a `yield`: the generator's own end would be turned too.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as failure:
        raise Escaped(f"{type(failure).__name__}: {failure}".rstrip(": ")) from failure


def error_text(failure: BaseException) -> str:
    """What went wrong, and for foreign code the line where it did."""
    if isinstance(failure, HarnessError):
        return str(failure)
    if isinstance(failure, Escaped) and failure.__cause__:
        failure = failure.__cause__
    frame = traceback.extract_tb(failure.__traceback__)[-1]
    text = " ".join(str(failure).split())
    return f"raised {type(failure).__name__}: {text:.500} ({Path(frame.filename).name}:{frame.lineno})"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`(did you mean 'repexp'? installed: repexp, uniform)`, without the guess where nothing is close."""
    names = sorted(set(known))
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"({guess}installed: {', '.join(names) or 'none'})"
