"""Executor `local`: runs work in this process, or in several if the work is long enough to pay for starting them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from harness import HarnessError, hookimpl

T = TypeVar("T")
R = TypeVar("R")

ALONE_S = 4.0  # seconds before worker processes are considered
START_S = 2.0  # remaining seconds per worker, above which they are started


@dataclass(frozen=True)
class Local:
    """Runs on this machine with up to `workers` processes (0: one per core); short work needs none of them.

    The first items run in this process. After 4 seconds, if more than 2 seconds per worker remain at the rate so far,
    the other items go to worker processes. They inherit no state of this process (forkserver), and end with it, even if
    it is killed by SIGKILL.
    """

    workers: int = 0

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise HarnessError(f"local: workers must be at least 0 (0: one a core), got {self.workers}")

    models_here: ClassVar[bool] = True

    def map(self, function: Callable[[T], R], items: Iterable[T], uses_model: bool) -> Iterator[R]:
        """Apply the function to each item, and yield the results in the items' order.

        Models run in this process. Other work begins in this process; if it takes long, other processes do the rest.
        An exception is raised where its result would be.
        """
        return map(function, items) if uses_model else itertools.chain.from_iterable(self._parts(function, list(items)))

    def _parts(self, function: Callable[[T], R], items: list[T]) -> Iterator[Iterator[R]]:
        """Yield iterators over the results: of one item each, and of all others once processes do these."""
        workers, started = self.workers or os.cpu_count() or 1, time.monotonic()
        for done, item in enumerate(items, 1):
            yield map(function, [item])
            elapsed = time.monotonic() - started
            remaining_s = elapsed / done * (len(items) - done)
            if elapsed > ALONE_S and workers > 1 and remaining_s / workers > START_S:
                yield _in_processes(function, items[done:], workers)
                return


def _in_processes(function: Callable[[T], R], items: list[T], workers: int) -> Iterator[R]:
    """Yield the results in order."""
    import multiprocessing  # which a short run does without
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    from harness.system.children import end_with_owner

    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(workers, context, initializer=end_with_owner) as pool:
        try:
            yield from pool.map(function, items)
        except BrokenProcessPool as failure:
            raise HarnessError(
                "executor local: a worker process died (out of memory?): run the same command again, finished "
                "problems are kept; `--executor local:workers=1` uses none"
            ) from failure


@hookimpl
def register_executors(register: Callable[..., None]) -> None:
    """Register `local`."""
    register("local", "harness_plugins.executors.local:Local")
