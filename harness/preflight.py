"""What a run is about to cost: cells, responses, tokens, verifier calls, disk, and from a short probe its time."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from . import unanswered
from .plan import Plan
from .work import problem_seed

PROBED = 16  # responses that are drawn, and thrown away, to see how fast the engine is
WORTH = 20  # probes are made where at least so many times as many responses are to be drawn
BYTES_A_TOKEN = 6  # of a response in the store: its text compressed, its token ids
LONG_S = 3600.0  # a run of an hour and more is asked about before it begins


@dataclass(frozen=True)
class Preflight:
    """Counts are of what is still to be made; tokens and bytes are upper bounds. `seconds` is None where none is drawn.

    seconds  of sampling, at most about: it supposes that all responses take as long as the first few do by themselves
    """

    cells: int
    problems: int
    responses: int
    tokens: int
    verdicts: int
    store_bytes: int
    free_bytes: int
    seconds: float | None

    def __str__(self) -> str:
        drawn = f"{self.responses:,} responses to draw (at most {self.tokens:,} tokens)" if self.responses else ""
        parts = [
            f"{self.cells} cell{'s' * (self.cells != 1)}, {self.problems:,} problems",
            drawn,
            f"{self.verdicts:,} responses to grade" if self.verdicts else "",
            f"up to {_size(self.store_bytes)} in the store ({_size(self.free_bytes)} free)" if self.store_bytes else "",
            f"sampling takes at most about {_duration(self.seconds)}" if self.seconds is not None else "",
        ]
        return "to do: " + ", ".join(filter(None, parts))

    @property
    def is_long(self) -> bool:
        """Whether one would want to be asked."""
        return self.seconds is not None and self.seconds >= LONG_S

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
        seconds=_probed(plan) * responses if whole >= WORTH * PROBED and _draws_here(plan) else None,
    )


def _draws_here(plan: Plan) -> bool:
    """Whether the engine runs in this process, and not on an executor's other machines."""
    return not hasattr(plan.setting.executor, "with_models")


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
