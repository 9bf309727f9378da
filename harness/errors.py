"""The one exception that is shown to a person as one line."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`(did you mean 'repexp'? installed: repexp, uniform)`, without the guess where nothing is close."""
    names = sorted(set(known))
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"({guess}installed: {', '.join(names) or 'none'})"
