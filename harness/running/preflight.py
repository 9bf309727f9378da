"""What a run will cost: cells, responses, tokens, verifier calls, disk, and (from a short probe) time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.contracts import Charges, EstimatesTime, KeepsModels
from harness.errors import NotBegun
from harness.records import Problem
from harness.stages.measure import still_to_measure
from harness.store import missing_rows, shards
from harness.system.progress import Progress, clock
from harness.task import Measured

from .billing import quote
from .plan import Plan
from .ranking_price import ranking_s

PROBED = 16  # responses of a probe: sampled to measure the engine's speed, then thrown away
PROBE_S = 20.0  # the most time of a probe, the loading of the model not counted
LONGER = 4  # how many times longer the responses of each next attempt of a probe are
WORTH = 20  # a probe is made where at least WORTH * PROBED responses are to be sampled
BYTES_A_TOKEN = 6  # in the store: compressed text and token ids
LONG_S = 3600.0  # work of this time or more begins only with the user's consent
MANY_RESPONSES, MANY_TOKENS = 20_000, 10_000_000  # so does more work than this, where the time is not known

SHORTER = "--preset quick, --limit, --n and --max-tokens make it shorter"


@dataclass(frozen=True)
class Outlook:
    """The longest time that work may take: seconds, and responses and tokens whose time is not known."""

    seconds: float = 0.0
    responses: int = 0
    tokens: int = 0

    def __add__(self, other: Outlook) -> Outlook:
        return Outlook(self.seconds + other.seconds, self.responses + other.responses, self.tokens + other.tokens)

    @property
    def is_long(self) -> bool:
        """Whether the work begins only with the user's consent."""
        return self.seconds >= LONG_S or self.responses > MANY_RESPONSES or self.tokens > MANY_TOKENS

    def __str__(self) -> str:
        unknown = f"{self.responses:,} responses" + (f" of up to {self.tokens:,} tokens in all" if self.tokens else "")
        parts = [
            f"up to about {clock(self.seconds)}" if self.seconds else "",
            f"{unknown}, whose time is not known here" if self.responses else "",
        ]
        return " and ".join(filter(None, parts))


def require_consent(who: str, outlook: Outlook, progress: Progress, shorter: str) -> None:
    """Ask before long work (`outlook.is_long`); NotBegun if the answer is no, or if there is no terminal to ask at.

    who      the command, as messages name it
    shorter  a clause that says what makes the work shorter
    """
    if outlook.is_long and not progress.allows(f"{who} takes {outlook}: begin?"):
        raise NotBegun(f"{who}: not begun, since it takes {outlook}: add --yes to begin it unasked; {shorter}")


@dataclass(frozen=True)
class Preflight:
    """What a run still has to make. Tokens and bytes are upper bounds; a time that is not known is None.

    seconds      sampling, about, at most: by the engine's own estimate, else all responses are assumed to take as long
                 as the first few alone; None where few are to be sampled
    measuring_s  measuring, by the task's own estimate; None where little or nothing is to be measured
    encoded      existing responses whose hidden states the model must still compute
    encoding_s   the time of that, from a probe
    scored       responses that the scorer must still score
    cost         what sampling costs at most, as a clause; "" if that is not known
    ranking_s    ranking, about, at most: by `ranking_price`; None where it is little
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
    scored: int = 0
    cost: str = ""
    ranking_s: float | None = None

    def __str__(self) -> str:
        sampled = f"{self.responses:,} responses to sample (at most {self.tokens:,} tokens)" if self.responses else ""
        sampled += f", {self.cost}" if self.cost else ""
        parts = [
            f"{self.cells} cell{'s' * (self.cells != 1)}, {self.problems:,} problems",
            sampled,
            f"{self.verdicts:,} responses to grade" if self.verdicts else "",
            f"up to {_size(self.store_bytes)} in the store ({_size(self.free_bytes)} free)" if self.store_bytes else "",
            f"sampling takes up to about {clock(self.seconds)}" if self.seconds is not None else "",
            f"{self.encoded:,} responses to embed" if self.encoded else "",
            f"embedding takes about {clock(self.encoding_s)}" if self.encoding_s is not None else "",
            f"{self.scored:,} responses to score" if self.scored else "",
            f"verifying takes about {clock(self.measuring_s)}" if self.measuring_s is not None else "",
            f"ranking takes up to about {clock(self.ranking_s)}" if self.ranking_s is not None else "",
        ]
        return "to do: " + ", ".join(filter(None, parts))

    @property
    def outlook(self) -> Outlook:
        """The known times added up, and the responses and tokens whose sampling or encoding time is not known."""
        seconds = sum(each or 0 for each in (self.seconds, self.measuring_s, self.encoding_s, self.ranking_s))
        sampling = Outlook(0, self.responses, self.tokens) if self.seconds is None else Outlook()
        return Outlook(seconds) + sampling + Outlook(0, self.scored + (self.encoded if self.encoding_s is None else 0))

    @property
    def warning(self) -> str:
        """What may go wrong; "" if nothing is foreseen."""
        if self.store_bytes <= self.free_bytes:
            return ""
        return (
            f"the disk may fill up: up to {_size(self.store_bytes)} are to be kept, {_size(self.free_bytes)} are free"
        )


def preflight(plan: Plan) -> Preflight:
    """Return what the store lacks for this plan, and what it costs to make it.

    If that is much, a short probe measures the model's speed, for which the model is loaded.
    """
    sampling, problems = plan.sampling, plan.problems
    whole = len(plan.work.pool.missing(problems)) * sampling.n if sampling else 0
    counts = _to_sample(plan)
    responses = sum(counts.values())
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
        seconds=_sampling_s(plan, responses) if whole >= WORTH * PROBED and _can_probe(plan) else None,
        measuring_s=_measuring_s(plan, size),
        encoded=sum(encoded.values()),
        encoding_s=_encoding_s(plan, encoded),
        scored=to_score(plan),
        cost=quote(plan, counts),
        ranking_s=ranking_s(plan),
    )


def _to_sample(plan: Plan) -> dict[str, int]:
    """Per problem id the number of responses that are still to be sampled."""
    pool, sampling = plan.work.pool, plan.sampling
    waiting = {name: len(rows) for name, rows in missing_rows.waiting(pool, plan.problems).items()}
    return waiting | {problem.id: sampling.n for problem in pool.missing(plan.problems) if sampling}


def _can_probe(plan: Plan) -> bool:
    """Whether a few responses can be sampled in this process to measure the speed, and cost no money."""
    engine = plan.sampling.engine if plan.sampling else None
    return _samples_in_this_process(plan) and not (isinstance(engine, Charges) and engine.is_charged)


def sampling_outlook(plan: Plan, problems: Sequence[Problem]) -> Outlook:
    """The time of sampling n responses to each of these problems, from a probe if there are enough of them."""
    assert plan.sampling is not None
    responses = len(problems) * plan.sampling.n
    if responses >= WORTH * PROBED and _can_probe(plan):
        return Outlook(_probed(plan, problems) * responses)
    return Outlook(0, responses, responses * plan.sampling.max_tokens)


def _samples_in_this_process(plan: Plan) -> bool:
    """Whether the engine runs in this process, and not in an executor's workers."""
    return not isinstance(plan.context.executor, KeepsModels)


def encoding_outlook(plan: Plan) -> Outlook:
    """The time that the model will take for hidden states of existing responses, or only their number.

    From WORTH * PROBED responses on, the time is measured by a probe. It is not known for fewer, in an executor's
    workers, or if the first responses are not in the store yet.
    """
    encoded = _to_encode(plan)
    seconds = _encoding_s(plan, encoded)
    return Outlook(0, sum(encoded.values())) if seconds is None else Outlook(seconds)


def _to_encode(plan: Plan) -> dict[str, int]:
    """Per problem id the number of existing responses whose hidden states are still to be computed."""
    stage = plan.work.embeddings
    if not (stage and plan.vectors and plan.vectors.engine):
        return {}
    counts = {problem.id: plan.rows(problem) for problem in stage.missing(plan.problems)}
    return {name: count for name, count in counts.items() if count}


def to_score(plan: Plan) -> int:
    """The number of responses that the scorer must still score."""
    missing = plan.work.scores.missing(plan.problems) if plan.work.scores else ()
    return sum(plan.rows(problem) or (plan.sampling.n if plan.sampling else 0) for problem in missing)


def _encoding_s(plan: Plan, encoded: dict[str, int]) -> float | None:
    """Seconds of embedding, estimated from the first few responses; loading the model is not counted."""
    if sum(encoded.values()) < WORTH * PROBED or not _samples_in_this_process(plan):
        return None
    assert plan.vectors is not None
    engine, embedder = plan.vectors.engine, plan.vectors.embedder
    problem = next(problem for problem in plan.problems if problem.id in encoded)
    if engine is None or embedder is None or embedder.state is None or not plan.work.pool.path(problem).exists():
        return None
    first, prompt = shards.read_responses(plan.work.pool.path(problem)).first(PROBED), plan.prompts([problem])[0]
    state = embedder.state

    def timed(n: int) -> float:
        started = time.perf_counter()
        engine.encode(prompt, first.first(n), [state])
        return time.perf_counter() - started

    with plan.context.progress.waiting("timing a probe"):
        timed(1)  # loads the model
        seconds = _bounded_probe(timed, len(first))
    return seconds / len(first) * sum(encoded.values())


def _measuring_s(plan: Plan, n: int) -> float | None:
    counts = still_to_measure(plan.context.store, plan.task, plan.work, plan.problems, n)
    if not isinstance(plan.task, Measured) or sum(count for _, count in counts) < WORTH * PROBED:
        return None
    return plan.task.seconds(counts)


def _sampling_s(plan: Plan, responses: int) -> float:
    """Seconds of sampling, by the engine's own estimate if it has one, since problems may differ."""
    sampling = plan.sampling
    assert sampling is not None
    missing = plan.work.pool.missing(plan.problems)
    if not isinstance(sampling.engine, EstimatesTime):
        return _probed(plan, missing) * responses
    return sampling.engine.seconds(plan.prompts(missing), sampling.n, sampling.sampler)


def _probed(plan: Plan, problems: Sequence[Problem]) -> float:
    """Seconds a response, from a few responses to the first of these problems; loading the model is not counted.

    A sampler that steers takes a problem's responses one after another and several problems together, so its probe has
    many problems.
    """
    assert plan.sampling is not None
    sampling, pool = plan.sampling, plan.work.pool.folder.absolute()
    if pool not in _response_s:
        probed, n = (problems[:PROBED], 2) if sampling.steered else (problems[:1], PROBED)
        with plan.context.progress.waiting("timing a probe"):
            _sampled_s(plan, problems[:1], 1, 1)  # loads the model
            seconds = _bounded_probe(lambda tokens: _sampled_s(plan, probed, n, tokens), sampling.max_tokens)
        _response_s[pool] = seconds / (len(probed) * n)
    return _response_s[pool]


_response_s: dict[Path, float] = {}  # a pool's folder -> seconds a response: runs of a grid share pools


def _bounded_probe(timed: Callable[[int], float], whole: int) -> float:
    """About the seconds of `timed(whole)`, from calls with fewer tokens that take at most `PROBE_S` in all.

    One token is timed first, then more and more, as long as the next call is expected to end in time. If whole
    responses are not reached, each further token is taken to need as much as the last ones did, and every response to
    have the full length.

    timed   tokens -> seconds
    """
    tokens, seconds = 1, timed(1)
    spent, token_s = seconds, seconds
    while tokens < whole:
        longer = min(whole, LONGER * tokens, tokens + int((PROBE_S - spent - seconds) / max(token_s, 1e-9)))
        if longer <= tokens:
            break
        before, seconds = seconds, timed(longer)
        token_s = max(0.0, seconds - before) / (longer - tokens)
        spent, tokens = spent + seconds, longer
    return seconds + token_s * (whole - tokens)


def _sampled_s(plan: Plan, problems: Sequence[Problem], n: int, max_tokens: int) -> float:
    """Seconds that n responses to each problem take; the responses are thrown away."""
    assert plan.sampling is not None
    started = time.perf_counter()
    plan.sampling.engine.sample(plan.request(problems, n, max_tokens=max_tokens))
    return time.perf_counter() - started


def _existing(folder: Path) -> Path:
    """The folder, or the nearest folder above it that exists."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1000:,.0f} kB"
