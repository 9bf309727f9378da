"""Names the plugin that a command waits for, and interrupts its import where a limit was asked for."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

IMPORT_S, RANK_S = 10.0, 60.0  # after which the reader is told whom the command waits for
IMPORT_LIMIT = "HARNESS_IMPORT_TIMEOUT"  # seconds; `harness --import-timeout` sets it, and workers inherit it


class Late(BaseException):
    """A plugin took longer than it may. No Exception, so that the plugin's own `except` does not swallow it."""


@contextmanager
def named(what: str, after_s: float) -> Iterator[None]:
    """Say on stderr, in one line, what is still under way `after_s` seconds after it began.

    A loop in C that never lets go of the interpreter keeps the line back too.
    """
    line = f"waiting: {what} has taken {after_s:g} s so far"
    timer = threading.Timer(after_s, lambda: print(line, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def importing(what: str) -> Iterator[None]:
    """Name an import that takes long; raise `Late` in it after HARNESS_IMPORT_TIMEOUT seconds, where that is set.

    Only Python code in the main thread can be interrupted.
    """
    limit = float(os.environ.get(IMPORT_LIMIT) or 0)
    with named(f"importing {what}", IMPORT_S):
        if not limit or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
            yield
            return

        def late(*_: object) -> None:
            raise Late(f"its import took longer than {limit:g} s (--import-timeout)")

        before = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
