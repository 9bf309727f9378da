"""What a worker is sent: plain data, so that any executor can send it, from which the worker builds components.

A component is built from its spec once in a process.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from harness.plugin_system.component import build
from harness.plugin_system.registry import Registry, load_registry
from harness.records import Problem
from harness.store.keys import digest
from harness.store.stage import Stage
from harness.task import Task

Item = TypeVar("Item")


@dataclass(frozen=True)
class Work:
    """What a worker needs beside the problem: where the shards are, and how to build task and selector.

    graded        verdicts by verdict key, shared by all pools of a store
    answers       answers that cost a run of each response, by response; None for a task without
    audits        a second grader's verdicts
    measured      measurements by which the task judges, if it does
    scores        scores that a scorer gives, in addition to those that the pool brings
    n             number of a pool's responses that count; None = all
    rank_timeout  seconds to rank one problem's pool, all trials together; None = no limit
    """

    task: str | None
    data: str | None
    plugin_files: tuple[Path, ...]
    pool: Stage
    verdicts: Stage
    graded: Stage
    audits: Stage
    answers: Stage | None = None
    measured: Stage | None = None
    embeddings: Stage | None = None
    scores: Stage | None = None
    rankings: Stage | None = None
    selector: str = ""
    n: int | None = None
    trials: int = 1
    seed: int = 0
    rank_timeout: float | None = None

    def build_task(self) -> Task:
        """The task, built once in a process."""
        task: Task = component("task", self.task or "", self.plugin_files, (("data", self.data),))
        return task


@functools.cache
def _registry(plugin_files: tuple[Path, ...]) -> Registry:
    return load_registry(plugin_files)


@functools.lru_cache(maxsize=8)
def component(kind: str, spec: str, plugin_files: tuple[Path, ...], context: tuple[tuple[str, Any], ...] = ()) -> Any:
    """Build the component of this spec, or return the one that this process built before (the last 8 used are kept).

    context  (name, value) pairs that the harness passes to its factory, such as ("model", "NAME")
    """
    return build(_registry(plugin_files), kind, spec, **dict(context))


def import_libraries(selector: Any) -> None:
    """Import the libraries that a selector names, so that `one_thread` limits their threads too."""
    for name in getattr(selector, "libraries", ()):
        importlib.import_module(name)


def forget_components() -> None:
    """Forget all built components, since a plugin may have been installed or edited since the last run."""
    for clear in CACHES:
        clear()


CACHES = [_registry.cache_clear, component.cache_clear]  # what `forget_components` calls; `rank_process` adds its own


@functools.lru_cache(maxsize=8)
def _threads(selector: str) -> ThreadpoolController:
    """The thread pools of all loaded libraries; finding them is slow, so it is done once for a selector."""
    return ThreadpoolController()


def one_thread(selector: str) -> AbstractContextManager[Any]:
    """A context that limits libraries to one thread, so that sums, and hence orders, are the same in any process.

    Finding the libraries' thread pools is slow: it is done once for each `selector`, the argument's only purpose.
    """
    limit: AbstractContextManager[Any] = _threads(selector).limit(limits=1)
    return limit


def ranking_rng(seed: int, problem: Problem, trial: int) -> np.random.Generator:
    """The random stream of one trial of ranking a problem's pool; it does not depend on the selector."""
    return np.random.default_rng([problem_seed("rank", seed, problem), trial])


def problem_seed(purpose: str, seed: int, problem: Problem) -> int:
    """A 64-bit seed made from a purpose ("sample", "rank", "chance"), the run's seed and the problem's id."""
    return int(digest([purpose, seed, problem.id], 16), 16)


def over(work: Work, function: Callable[[Work, Any], None]) -> Callable[[Any], None]:
    """The function with its work bound, as a picklable function of one argument."""
    return functools.partial(function, work)


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield the items in groups of `size`, in order; the last group may be smaller."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
