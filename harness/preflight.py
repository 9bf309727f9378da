"""What a run is about to cost: cells, responses, tokens, verifier calls, disk, and from a short probe its time."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from . import measuring, unanswered
from .plan import Plan
from .work import problem_seed

PROBED = 16  # responses that are drawn, and thrown away, to see how fast the engine is
WORTH = 20  # probes are made where at least so many times as many responses are to be drawn
BYTES_A_TOKEN = 6  # of a response in the store: its text compressed, its token ids
LONG_S = 3600.0  # a run of an hour and more is asked about before it begins
DAYS_S = 10 * 3600.0  # measuring that takes longer is not begun where nobody can be asked, but by --yes


@dataclass(frozen=True)
class Preflight:
    """Counts are of what is still to be made; tokens and bytes are upper bounds. `seconds` is None where none is drawn.

    seconds  of sampling, at most about: it supposes that all responses take as long as the first few do by themselves
    measuring_s  of what the verdicts go by, from a probe of the task's own; None where nothing or little is measured
    """

    cells: int
    problems: int
    responses: int
    tokens: int
    verdicts: int
    store_bytes: int
    free_bytes: int
    seconds: float | None
    measuring_s: float | None = None

    def __str__(self) -> str:
        drawn = f"{self.responses:,} responses to draw (at most {self.tokens:,} tokens)" if self.responses else ""
        parts = [
            f"{self.cells} cell{'s' * (self.cells != 1)}, {self.problems:,} problems",
            drawn,
            f"{self.verdicts:,} responses to grade" if self.verdicts else "",
            f"up to {_size(self.store_bytes)} in the store ({_size(self.free_bytes)} free)" if self.store_bytes else "",
            f"sampling takes at most about {_duration(self.seconds)}" if self.seconds is not None else "",
            f"verifying takes about {_duration(self.measuring_s)}" if self.measuring_s is not None else "",
        ]
        return "to do: " + ", ".join(filter(None, parts))

    @property
    def is_long(self) -> bool:
        """Whether one would want to be asked."""
        return (self.seconds or 0) + (self.measuring_s or 0) >= LONG_S

    @property
    def is_days(self) -> bool:
        """Whether it is so long that nobody should begin it unasked."""
        return (self.measuring_s or 0) >= DAYS_S

    @property
    def warning(self) -> str:
        """What may go wrong; "" where nothing is seen."""
        if self.store_bytes <= self.free_bytes:
            return ""
        return (
            f"the disk may fill up: up to {_size(self.store_bytes)} are to be kept, {_size(self.free_bytes)} are free"
        )


def preflight(plan: Plan) -> Preflight:
    """What is missing in the store for this plan, and what making it costs."""
    sampling, problems = plan.sampling, plan.problems
    whole = len(plan.work.pool.missing(problems)) * sampling.n if sampling else 0
    responses = whole + sum(map(len, unanswered.waiting(plan.work.pool, problems).values()))
    tokens = responses * sampling.max_tokens if sampling else 0
    size = sampling.n if sampling else plan.work.n or 0
    vectors = len(plan.work.embeddings.missing(problems)) * size if plan.work.embeddings else 0
    return Preflight(
        cells=len(plan.config.selectors),
        problems=len(problems),
        responses=responses,
        tokens=tokens,
        verdicts=len(plan.work.verdicts.missing(problems)) * size,
        store_bytes=tokens * BYTES_A_TOKEN + vectors * plan.config.dim * 4,
        free_bytes=shutil.disk_usage(_existing(plan.config.store)).free,
        seconds=_sampling_s(plan, responses) if whole >= WORTH * PROBED and _draws_here(plan) else None,
        measuring_s=_measuring_s(plan, size),
    )


def _draws_here(plan: Plan) -> bool:
    """Whether the engine runs in this process, and not on an executor's other machines."""
    return not hasattr(plan.setting.executor, "with_models")


def _measuring_s(plan: Plan, n: int) -> float | None:
    counts = measuring.ahead(plan, n)
    return plan.task.seconds(counts) if sum(count for _, count in counts) >= WORTH * PROBED else None


def _sampling_s(plan: Plan, responses: int) -> float:
    """Seconds of sampling, by the engine's own probe where it has one: what a problem takes may differ."""
    sampling = plan.sampling
    assert sampling is not None
    if not hasattr(sampling.engine, "seconds"):
        return _probed(plan) * responses
    missing = plan.work.pool.missing(plan.problems)
    estimate: float = sampling.engine.seconds(plan.prompts(missing), sampling.n, sampling.sampler)
    return estimate


def _probed(plan: Plan) -> float:
    """Seconds a response, from a few to the first problem that has none; loading the model is not counted."""
    assert plan.sampling is not None
    sampling, problem = plan.sampling, plan.work.pool.missing(plan.problems)[0]
    timed = 0.0
    for n in (1, PROBED):
        started = time.perf_counter()
        sampling.engine.sample(
            plan.prompts([problem]),
            n=n,
            sampler=sampling.sampler,
            max_tokens=sampling.max_tokens,
            seeds=[problem_seed("sample", plan.config.seed, problem)],
        )
        timed = time.perf_counter() - started
    return timed / PROBED


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1000:,.0f} kB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:,.1f} h"
