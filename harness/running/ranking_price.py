"""How long ranking will take: a selector is timed on parts of one pool, and the time of whole pools follows from that.

Nothing is timed where ranking is little work. Times are CPU times, since a selector ranks in one thread. The pool is
the first problem's if it is in the store, else one of random vectors and words. An order may end early, at its first
correct response; so the times are upper bounds.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from harness.contracts import KnowsItsWorkers
from harness.errors import contained
from harness.plugin_system.registry import is_own
from harness.records import Ints, Pool, Problem
from harness.stages.rank import centred, load_pool, rank_whole
from harness.stages.work import Work, import_libraries, one_thread

from .plan import Plan

WORTH = 1e9  # problems * trials * n²: a selector with less to do is not timed
PROBE_S = 2.0  # the next larger part is ranked if it is expected to end in this time
SMALLEST = 64  # responses of the smallest part
WORDS = 60  # of a random response
STEEPEST = 3.0  # the power of n with which a time may grow
STEEPER = 0.5  # added to the measured power: it grows with n itself, as terms of a lower power matter less


def ranking_s(plan: Plan) -> float | None:
    """About how many seconds ranking takes at most; None where it is little, or no selector can be timed here."""
    times = [seconds for spec in plan.selectors if (seconds := _selector_s(plan, spec)) is not None]
    return sum(times) if times else None


def _selector_s(plan: Plan, spec: str) -> float | None:
    work = plan.for_selector(spec)
    assert work.rankings is not None
    missing = work.rankings.missing(plan.problems)
    n = work.n or (plan.sampling.n if plan.sampling else max(map(plan.rows, missing[:1]), default=0))
    if len(missing) * work.trials * n**2 < WORTH:
        return None
    key = (work.rankings.key, n)
    if key not in _pool_s:
        with plan.context.progress.waiting(f"timing selector {spec}"):
            _pool_s[key] = _timed(plan.selectors[spec], work, _pool(work, missing[0], n, plan.config.dim))
    seconds, executor = _pool_s[key], plan.context.executor
    at_once = executor.at_once() if isinstance(executor, KnowsItsWorkers) and not is_own(spec) else 1
    return None if seconds is None else seconds * len(missing) / max(1, min(at_once, len(missing)))


_pool_s: dict[tuple[str, int], float | None] = {}  # key of the rankings, n -> seconds for all trials of a pool


def _timed(selector: Any, work: Work, pool: Pool) -> float | None:
    """Seconds of all trials on the pool; None if the selector fails, which its own row will show."""
    try:
        with contained(), one_thread(work.selector):
            import_libraries(selector)
            rank_whole(selector, pool.part(range(min(16, len(pool)))), work.trials)  # builds and imports what is lazy
            return _extrapolated(selector, work.trials, pool)
    except Exception:
        return None


def _extrapolated(selector: Any, trials: int, pool: Pool) -> float:
    """Seconds of the pool's trials, from n/4 and n/2 of its rows, or from fewer where these would take long."""
    n = len(pool)
    sizes = [n >> halvings for halvings in range(n.bit_length(), 0, -1) if n >> halvings >= SMALLEST]
    times: list[tuple[int, float]] = []
    for size in [n >> 2, n >> 1] if len(sizes) < 2 else sizes:
        if len(times) >= 2 and times[-1][1] * 2**STEEPEST > PROBE_S:
            break
        started = time.process_time()
        share = rank_whole(selector, pool.part(range(size)), trials)
        times.append((size, time.process_time() - started))
    (half, before), (size, seconds) = times[-2:]
    growth = math.log(max(seconds, 1e-9) / max(before, 1e-9)) / math.log(size / half) + STEEPER
    return float(seconds * share * (n / size) ** min(max(growth, 0.0), STEEPEST))


def _pool(work: Work, problem: Problem, n: int, dim: int) -> Pool:
    """The problem's pool if the store has it, else n random responses."""
    stages = [stage for stage in (work.pool, work.embeddings, work.verdicts) if stage]
    if all(stage.path(problem).exists() for stage in stages):
        return load_pool(work, problem)
    rng = np.random.default_rng(0)
    return Pool(
        texts=_texts(rng.integers(1000, size=(n, WORDS))),
        embeddings=centred(rng.normal(size=(n, dim if work.embeddings else 0)).astype(np.float32)),
        logprobs=-rng.gamma(20.0, size=n),
        lengths=rng.integers(1, 4 * WORDS, n),
        answers=_texts(rng.integers(n, size=(n, 1))),
        scores={"score": rng.normal(size=n)},
    )


def _texts(words: Ints) -> list[str]:
    return [" ".join(map(str, row)) for row in words]
