"""Keep stdout for a command's JSON, and send everything that plugins print to stderr."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO


class _Escapes(dict[int, str]):
    """For `str.translate`: a character that a terminal obeys, or that changes how others are shown, as JSON escapes it.

    All of Unicode's control, format, surrogate, unassigned and private characters; line ends and blanks stay.
    """

    def __missing__(self, code: int) -> str:
        char = chr(code)
        shown = char.isprintable() or char == "\n" or unicodedata.category(char) == "Zs"
        self[code] = char if shown else json.dumps(char)[1:-1]
        return self[code]


_ESCAPES = _Escapes()
_kept: list[TextIO] = []  # the stdout that `reserved` keeps for `write`
_was_reserved = False


@contextmanager
def reserved() -> Iterator[None]:
    """Send to stderr what is written inside to stdout; only `write` reaches the real stdout.

    This holds for `sys.stdout` and for file descriptor 1, also that of child processes.
    """
    global _was_reserved
    _was_reserved = True
    out, before = sys.stdout, -1
    with suppress(OSError):  # a process may have been started without a stdout
        before = os.dup(1)
    kept = os.fdopen(os.dup(before), "w", encoding=out.encoding, errors=out.errors) if _is_real(out, before) else out
    out.flush()
    sys.stderr.flush()
    if before >= 0:
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    _kept.append(kept)
    try:
        yield
    finally:
        _kept.pop()
        kept.flush()
        out.flush()  # what plugins wrote to an old reference to stdout still goes to stderr
        sys.stdout = out
        if before >= 0:
            os.dup2(before, 1)
            os.close(before)


def _is_real(out: TextIO, copy: int) -> bool:
    """Whether the stream writes to file descriptor 1 and `copy` is a valid descriptor."""
    with suppress(OSError, ValueError):
        return copy >= 0 and out.fileno() == 1
    return False


def write(text: str) -> None:
    """Write a command's JSON to stdout, also while stdout is reserved; what a terminal would obey is escaped."""
    out = _kept[-1] if _kept else sys.stdout
    print(text.translate(_ESCAPES), end="", file=out, flush=True)


def end() -> None:
    """Send what is printed from now on to stderr until the process ends: plugins may print at exit too.

    No effect if `reserved` was not used.
    """
    if _was_reserved and _is_real(sys.stdout, 1):
        sys.stdout.flush()
        os.dup2(2, 1)
