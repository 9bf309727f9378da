"""The one exception that is shown to a person as one line."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class HarnessError(Exception):
    """A mistake that its reader can put right: who, what, got, and what to do, in one line."""


class NotBegun(HarnessError):
    """Work of an hour and more that nobody said yes to: the whole command ends, not one cell of it."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`(did you mean 'repexp'? installed: repexp, uniform)`, without the guess where nothing is close."""
    names = sorted(set(known))
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"({guess}installed: {', '.join(names) or 'none'})"
