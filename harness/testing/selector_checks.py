"""All checks of a selector (ranker or subset method), in the order in which they run.

The checks of cost and of worker processes are in this module, the others in `selector_basics`,
`selector_columns`, `selector_options` and `selector_pools`.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import Any

from . import examples, selector_columns, selector_options, selector_pools
from .checking import check, expect
from .common_checks import parameter_check, pickled
from .common_checks import picklable as parameters_survive_pickling
from .other_process import called_elsewhere
from .picking import brief, is_ranker, order, picks, ranking
from .selector_basics import BASIC, STREAMS

BUDGET_N, BUDGET_D, BUDGET_K = 512, 64, 64
TIME_S = 30.0
MEMORY_BYTES = 96 * 2**20
KEPT_BYTES = 8 * 2**20

# Cost.


@check("make it faster; the pools of a run are ten times as large", presumes=BASIC)
def time_budget(selector: Any) -> None:
    """512 responses of 64 dimensions are ordered (64 of them selected) within 30 seconds."""
    pool, start = examples.pool(BUDGET_N, BUDGET_D), time.perf_counter()
    if is_ranker(selector):
        for pulled, _ in enumerate(ranking(selector, pool), 1):
            _require_in_time(start, f"{pulled} of {BUDGET_N} picks")
    else:
        picks(selector, pool, k=BUDGET_K)
        _require_in_time(start, f"{BUDGET_K} of {BUDGET_N}")


def _require_in_time(start: float, what: str) -> None:
    took = time.perf_counter() - start
    expect(took < TIME_S, f"{what} took {took:.1f} s, where {TIME_S:g} s are allowed for all")


@check("make no array of (n, n, d), and keep no reference to a pool after ranking it", presumes=BASIC)
def memory_budget(selector: Any) -> None:
    """512 responses of 64 dimensions take at most 96 MiB on top of the pool, and 8 MiB once it is gone."""
    pool = examples.pool(BUDGET_N, BUDGET_D)
    order(selector, examples.pool(), k=None)  # lets it import its libraries
    with _traced() as memory:
        picks(selector, pool, k=None if is_ranker(selector) else BUDGET_K)
        peak = memory.peak()
        del pool
        gc.collect()
        kept = memory.now()
    expect(peak <= MEMORY_BYTES, f"it takes {peak / 2**20:.0f} MiB, where {MEMORY_BYTES / 2**20:.0f} are allowed")
    expect(kept <= KEPT_BYTES, f"it keeps {kept / 2**20:.0f} MiB after the pool is deleted")


class _traced:
    """Measure the bytes that Python and numpy allocate inside, above the level at the start."""

    def __enter__(self) -> _traced:
        self._started = not tracemalloc.is_tracing()
        if self._started:
            tracemalloc.start()
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *failure: object) -> None:
        if self._started:
            tracemalloc.stop()

    def peak(self) -> int:
        """The highest level so far."""
        return tracemalloc.get_traced_memory()[1] - self._before

    def now(self) -> int:
        """The present level."""
        return tracemalloc.get_traced_memory()[0] - self._before


# Worker processes.

parameters_round_trip = parameter_check("selector")


@check("hold no generator, lock, open file or lambda", presumes=BASIC)
def picklable(selector: Any) -> None:
    """It can be pickled, before and after a ranking, and the copy gives the same order."""
    parameters_survive_pickling.function(selector)
    expected = order(selector, examples.pool())
    got = order(pickled(selector), examples.pool())
    expect(got == expected, f"a pickled copy gives {brief(got)}, not {brief(expected)}")


@check("use no hash(), no order of a set, no file and no state of the process", presumes=(*BASIC, picklable))
def same_in_another_process(selector: Any) -> None:
    """Another process, with another hash seed and in an empty folder, gives the same orders."""
    expected = orders(selector)
    got = called_elsewhere(orders, selector)
    for local, remote in zip(expected, got, strict=True):
        expect(local == remote, f"another process gives {brief(remote)}, not {brief(local)}")


def orders(selector: Any) -> list[list[int]]:
    """Return three orders by the selector: two of one pool, with different seeds, and one of a smaller pool."""
    return [order(selector, examples.pool(n), seed) for n, seed in ((24, 0), (24, 1), (13, 2))]


CHECKS = (
    *BASIC,
    *STREAMS,
    *selector_columns.CHECKS,
    *selector_options.CHECKS,
    *selector_pools.CHECKS,
    time_budget,
    memory_budget,
    parameters_round_trip,
    picklable,
    same_in_another_process,
)
