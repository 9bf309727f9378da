"""Executor `local`: this process, or several where the work is long enough to pay for starting them."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TypeVar

from harness import HarnessError, hookimpl
from harness.system.lifeline import end_with_owner

T = TypeVar("T")
R = TypeVar("R")

ALONE_S = 4.0
START_S = 2.0


@dataclass(frozen=True)
class Local:
    """Runs on this machine; `workers` processes (0: one a core), none of them started for short work.

    The first items run here for up to 4 seconds; if at that rate more than 2 seconds a worker are left, the rest goes
    to worker processes, which know nothing of this one (forkserver) and end with it, by SIGKILL too.
    """

    workers: int = 0

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise HarnessError(f"local: workers must be at least 0 (0: one a core), got {self.workers}")

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """The results in the items' order."""
        queue = list(items)
        workers = self.workers or os.cpu_count() or 1
        started = time.monotonic()
        for done, item in enumerate(queue, 1):
            yield function(item)
            elapsed = time.monotonic() - started
            left = elapsed / done * (len(queue) - done)
            if elapsed > ALONE_S and workers > 1 and left / workers > START_S:
                yield from _in_processes(function, queue[done:], workers)
                return


def _in_processes(function: Callable[[T], R], items: list[T], workers: int) -> Iterator[R]:
    """A bounded number of items is under way at once, so that memory does not grow with their number."""
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(workers, context, initializer=end_with_owner) as pool:
        rest = iter(items)
        running = [pool.submit(function, item) for item in itertools.islice(rest, 4 * workers)]
        try:
            while running:
                result = running.pop(0).result()
                running += [pool.submit(function, item) for item in itertools.islice(rest, 1)]
                yield result
        except BrokenProcessPool as failure:
            raise HarnessError(
                "executor local: a worker process died (out of memory?): run the same command again, finished "
                "problems are kept; `--executor local:workers=1` uses none"
            ) from failure
        finally:
            for future in running:
                future.cancel()


@hookimpl
def register_executors(register: Callable[..., None]) -> None:
    """Register `local`."""
    register("local", "harness_plugins.executors.local:Local")
