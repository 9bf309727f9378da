"""What this process is doing where nothing can be counted: loading a model, timing a probe. Progress shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_running: list[tuple[str, float]] = []  # (what, when it began), the innermost last


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Name the work inside, for the user who waits for it: `doing("loading model tiny24")`. Engines may use it too."""
    entry = (what, time.monotonic())
    _running.append(entry)
    try:
        yield
    finally:
        _running.remove(entry)


def current() -> tuple[str, float] | None:
    """The innermost work that `doing` names, and when it began (`time.monotonic`); None if there is none."""
    return _running[-1] if _running else None
