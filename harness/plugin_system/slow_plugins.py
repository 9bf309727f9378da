"""Say which plugin a command is waiting for, and interrupt its import after a time limit, if one is set."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

IMPORT_S, RANK_S = 10.0, 60.0  # seconds after which the user is told what the command waits for
IMPORT_LIMIT = (
    "HARNESS_IMPORT_TIMEOUT"  # in seconds; `harness --import-timeout` sets it, and worker processes inherit it
)


class Late(BaseException):
    """A plugin took longer than allowed: a BaseException, so that the plugin's `except Exception` does not catch it."""


@contextmanager
def named(what: str, after_s: float) -> Iterator[None]:
    """Print one line on stderr if the code inside is still running after `after_s` seconds; `what` names it.

    C code that never releases the interpreter delays this line too.
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
    """Print a line on stderr if the import inside takes more than 10 seconds, and end it with `Late` at a time limit.

    The limit is the environment variable HARNESS_IMPORT_TIMEOUT, in seconds; without it there is none. Only Python code
    in the main thread can be interrupted. `what` names the import in the line.
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
