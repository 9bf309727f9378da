"""What a run is about to cost: cells, responses, tokens, verifier calls, disk, and from a short probe its time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.contracts import EstimatesTime, KeepsModels
from harness.errors import NotBegun
from harness.records import Problem
from harness.stages.measure import still_to_measure
from harness.store import missing_rows, shards
from harness.system.progress import Progress
from harness.task import Measured

from .plan import Plan

PROBED = 16  # responses that are sampled, and thrown away, to see how fast the engine is
SHORT_TOKENS = 32  # of their beginnings
PATIENCE_S = 120.0  # that trying whole ones may take
WORTH = 20  # probes are made where at least so many times as many responses are to be sampled
BYTES_A_TOKEN = 6  # of a response in the store: its text compressed, its token ids
LONG_S = 3600.0  # what takes an hour or more begins only where the user says so
MANY_RESPONSES, MANY_TOKENS = 20_000, 10_000_000  # and so does more than this, where the time cannot be estimated

SHORTER = "--limit, --n and --max-tokens make it shorter"


@dataclass(frozen=True)
class Outlook:
    """How long work will take at most: seconds, and what nobody has estimated, as responses and their tokens."""

    seconds: float = 0.0
    responses: int = 0
    tokens: int = 0

    def __add__(self, other: Outlook) -> Outlook:
        return Outlook(self.seconds + other.seconds, self.responses + other.responses, self.tokens + other.tokens)

    @property
    def is_long(self) -> bool:
        """Whether it must not begin unless somebody has said so."""
        return self.seconds >= LONG_S or self.responses > MANY_RESPONSES or self.tokens > MANY_TOKENS

    def __str__(self) -> str:
        unknown = f"{self.responses:,} responses" + (f" of up to {self.tokens:,} tokens in all" if self.tokens else "")
        parts = [
            f"at most about {_duration(self.seconds)}" if self.seconds else "",
            f"{unknown}, for how long nobody can say here" if self.responses else "",
        ]
        return " and ".join(filter(None, parts))


def require_consent(who: str, outlook: Outlook, progress: Progress, shorter: str) -> None:
    """Ask before work of an hour and more; NotBegun where the answer is no, or where nobody can be asked.

    shorter  what makes it shorter, as a clause
    """
    if outlook.is_long and not progress.allows(f"{who} takes {outlook}: begin?"):
        raise NotBegun(f"{who}: not begun, since it takes {outlook}: add --yes to begin it unasked; {shorter}")


@dataclass(frozen=True)
class Preflight:
    """Counts are of what is still to be made; tokens and bytes are upper bounds. Times are None where none is known.

    seconds      of sampling, at most about: it supposes that all responses take as long as the first few by themselves
    measuring_s  of what the verdicts go by, from a probe of the task's own; None where nothing or little is measured
    encoded      responses that exist and that the model has to pass for their hidden states
    encoding_s   of that, from a probe
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
    encoded: int = 0
    encoding_s: float | None = None

    def __str__(self) -> str:
        drawn = f"{self.responses:,} responses to draw (at most {self.tokens:,} tokens)" if self.responses else ""
        parts = [
            f"{self.cells} cell{'s' * (self.cells != 1)}, {self.problems:,} problems",
            drawn,
            f"{self.verdicts:,} responses to grade" if self.verdicts else "",
            f"up to {_size(self.store_bytes)} in the store ({_size(self.free_bytes)} free)" if self.store_bytes else "",
            f"sampling takes at most about {_duration(self.seconds)}" if self.seconds is not None else "",
            f"{self.encoded:,} responses to embed" if self.encoded else "",
            f"embedding takes about {_duration(self.encoding_s)}" if self.encoding_s is not None else "",
            f"verifying takes about {_duration(self.measuring_s)}" if self.measuring_s is not None else "",
        ]
        return "to do: " + ", ".join(filter(None, parts))

    @property
    def outlook(self) -> Outlook:
        """How long it takes, as far as that is known."""
        known = (self.seconds or 0) + (self.measuring_s or 0) + (self.encoding_s or 0)
        sampled = Outlook(0, self.responses, self.tokens) if self.seconds is None else Outlook()
        return Outlook(known) + sampled + Outlook(0, self.encoded if self.encoding_s is None else 0)

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
    responses = whole + sum(map(len, missing_rows.waiting(plan.work.pool, problems).values()))
    tokens = responses * sampling.max_tokens if sampling else 0
    size = sampling.n if sampling else plan.work.n or 0
    vectors = len(plan.work.embeddings.missing(problems)) * size if plan.work.embeddings else 0
    encoded = _to_encode(plan)
    return Preflight(
        cells=len(plan.config.selectors),
        problems=len(problems),
        responses=responses,
        tokens=tokens,
        verdicts=len(plan.work.verdicts.missing(problems)) * size,
        store_bytes=tokens * BYTES_A_TOKEN + vectors * plan.config.dim * 4,
        free_bytes=shutil.disk_usage(_existing(plan.config.store)).free,
        seconds=_sampling_s(plan, responses) if whole >= WORTH * PROBED and _samples_here(plan) else None,
        measuring_s=_measuring_s(plan, size),
        encoded=sum(encoded.values()),
        encoding_s=_encoding_s(plan, encoded),
    )


def sampling_outlook(plan: Plan, problems: Sequence[Problem]) -> Outlook:
    """How long it takes to sample n responses to each of these problems, by a probe where there is something to win."""
    assert plan.sampling is not None
    responses = len(problems) * plan.sampling.n
    if responses >= WORTH * PROBED and _samples_here(plan):
        return Outlook(_probed(plan, problems) * responses)
    return Outlook(0, responses, responses * plan.sampling.max_tokens)


def _samples_here(plan: Plan) -> bool:
    """Whether the engine runs in this process, and not on an executor's other machines."""
    return not isinstance(plan.context.executor, KeepsModels)


def encoding_outlook(plan: Plan) -> Outlook:
    """How long it takes until the model has passed the responses whose hidden states are the vectors."""
    encoded = _to_encode(plan)
    seconds = _encoding_s(plan, encoded)
    return Outlook(0, sum(encoded.values())) if seconds is None else Outlook(seconds)


def _to_encode(plan: Plan) -> dict[str, int]:
    """Per problem id how many responses that exist have to pass the model for their states."""
    stage = plan.work.embeddings
    if not (stage and plan.vectors and plan.vectors.engine):
        return {}
    counts = {problem.id: plan.rows(problem) for problem in stage.missing(plan.problems)}
    return {name: count for name, count in counts.items() if count}


def _encoding_s(plan: Plan, encoded: dict[str, int]) -> float | None:
    """Seconds of embedding, by the first few responses; loading the model is not counted."""
    if sum(encoded.values()) < WORTH * PROBED or not _samples_here(plan):
        return None
    assert plan.vectors is not None
    engine, embedder = plan.vectors.engine, plan.vectors.embedder
    problem = next(problem for problem in plan.problems if problem.id in encoded)
    if engine is None or embedder is None or embedder.state is None or not plan.work.pool.path(problem).exists():
        return None
    some, prompt = shards.read_responses(plan.work.pool.path(problem)).first(PROBED), plan.prompts([problem])[0]
    timed = 0.0
    for responses in (some.first(1), some):
        started = time.perf_counter()
        engine.encode(prompt, responses, [embedder.state])
        timed = time.perf_counter() - started
    return timed / len(some) * sum(encoded.values())


def _measuring_s(plan: Plan, n: int) -> float | None:
    counts = still_to_measure(plan.context.store, plan.task, plan.work, plan.problems, n)
    if not isinstance(plan.task, Measured) or sum(count for _, count in counts) < WORTH * PROBED:
        return None
    return plan.task.seconds(counts)


def _sampling_s(plan: Plan, responses: int) -> float:
    """Seconds of sampling, by the engine's own probe where it has one: what a problem takes may differ."""
    sampling = plan.sampling
    assert sampling is not None
    missing = plan.work.pool.missing(plan.problems)
    if not isinstance(sampling.engine, EstimatesTime):
        return _probed(plan, missing) * responses
    return sampling.engine.seconds(plan.prompts(missing), sampling.n, sampling.sampler)


def _probed(plan: Plan, problems: Sequence[Problem]) -> float:
    """Seconds a response, from a few to the first of these problems; loading the model is not counted.

    Short beginnings come first: where whole responses would take longer than `PATIENCE_S` they are not tried, and all
    are taken to be as long as may be. A sampler that steers takes a problem's responses one after another, and several
    problems together.
    """
    assert plan.sampling is not None
    sampling, whole = plan.sampling, plan.sampling.max_tokens
    some, n = (problems[:PROBED], 2) if sampling.steered else (problems[:1], PROBED)
    short = min(whole, SHORT_TOKENS)
    _sampled_s(plan, problems[:1], 1, short)
    seconds = _sampled_s(plan, some, n, short) * whole / short
    if short < whole and seconds <= PATIENCE_S:
        seconds = _sampled_s(plan, some, n, whole)
    return seconds / (len(some) * n)


def _sampled_s(plan: Plan, problems: Sequence[Problem], n: int, max_tokens: int) -> float:
    """Seconds that n responses to each problem take, thrown away."""
    assert plan.sampling is not None
    started = time.perf_counter()
    plan.sampling.engine.sample(plan.request(problems, n, max_tokens=max_tokens))
    return time.perf_counter() - started


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
