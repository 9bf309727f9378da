"""Show what sampling costs, of an engine that pays for tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.contracts import Charges, Engine
from harness.system.progress import Progress


@contextmanager
def billed(engine: Engine, progress: Progress) -> Iterator[Callable[[], str]]:
    """Yield what tells the pool's cost so far in few words, and say at the end, come what may, what was used in all."""
    if not isinstance(engine, Charges):
        yield lambda: ""
        return
    try:
        yield engine.spending
    finally:
        if line := engine.bill():
            progress.say(line)
