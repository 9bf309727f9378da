"""What a job will cost: cells, responses, tokens, verifier calls, disk, and (from a short probe) time.

Where a run cannot be planned yet, since weights, data or libraries are not on this machine, it is priced by arithmetic.
Work of an hour or more begins only with the user's consent.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.columns.column import Question, memo
from harness.columns.responses import Sampled, responses_of
from harness.columns.store import count_rows, is_part
from harness.columns.vectors import Vectors
from harness.columns.verdicts import Verdicts
from harness.contracts import Charges, Measured, Task
from harness.errors import HarnessError, Lacking, NotBegun
from harness.records import SampleRequest
from harness.system import extras
from harness.system.progress import Progress, clock

from .plan import Context, Plan

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

    @property
    def is_work(self) -> bool:
        """Whether anything worth a line is to be made."""
        return bool(self.responses or self.verdicts or self.encoded or self.scored)

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
        ]
        return "to do: " + ", ".join(filter(None, parts))

    @property
    def outlook(self) -> Outlook:
        """The known times added up, and the responses and tokens whose sampling or encoding time is not known."""
        seconds = sum(each or 0 for each in (self.seconds, self.measuring_s, self.encoding_s))
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
    """What the store lacks for this plan, and what it costs to make it.

    If that is much, a short probe measures the model's speed, for which the model is loaded.
    """
    pool, questions, store = plan.responses, plan.questions, plan.store
    counts, tokens, size = {}, 0, plan.n or 0
    seconds, cost = None, ""
    if isinstance(pool, Sampled):
        size = pool.n
        for question in store.missing(pool, questions):
            path = store.path(pool, question)
            counts[question] = pool.n - (count_rows(path) if path and is_part(path) else 0)
        responses = sum(counts.values())
        tokens = responses * pool.max_tokens
        if sum(count == pool.n for count in counts.values()) * pool.n >= WORTH * PROBED and _can_probe(plan):
            seconds = _sampling_s(plan, pool, list(counts), responses)
        if isinstance(pool.engine.built, Charges) and counts:
            prompts = [question.chat for question in counts]
            cost = pool.engine.built.quote(prompts, list(counts.values()), pool.max_tokens)
    vectors = len(store.missing(plan.vectors, questions)) * size if plan.vectors else 0
    encoded = _to_encode(plan)
    return Preflight(
        cells=len(plan.orders),
        problems=len(questions),
        responses=sum(counts.values()),
        tokens=tokens,
        verdicts=len(store.missing(plan.verdicts, questions)) * size if plan.verdicts else 0,
        store_bytes=tokens * BYTES_A_TOKEN + vectors * plan.config.dim * 4,
        free_bytes=shutil.disk_usage(_existing(store.root)).free,
        seconds=seconds,
        measuring_s=_measuring_s(plan),
        encoded=sum(encoded.values()),
        encoding_s=_encoding_s(plan, encoded),
        scored=to_score(plan),
        cost=cost,
    )


def to_score(plan: Plan) -> int:
    """The number of responses that the scorer must still score."""
    return sum(map(plan.rows, plan.store.missing(plan.scores, plan.questions))) if plan.scores else 0


def sampling_outlook(plan: Plan, questions: Sequence[Question]) -> Outlook:
    """The time of sampling n responses to each of these problems, from a probe if there are enough of them."""
    pool = plan.responses
    assert isinstance(pool, Sampled)
    responses = len(questions) * pool.n
    if responses >= WORTH * PROBED and _can_probe(plan):
        return Outlook(_probed(plan, pool, questions) * responses)
    return Outlook(0, responses, responses * pool.max_tokens)


def encoding_outlook(plan: Plan) -> Outlook:
    """The time that the model will take for hidden states of existing responses, or only their number."""
    encoded = _to_encode(plan)
    seconds = _encoding_s(plan, encoded)
    return Outlook(0, sum(encoded.values())) if seconds is None else Outlook(seconds)


def _can_probe(plan: Plan) -> bool:
    """Whether a few responses can be sampled in this process to measure the speed, and cost no money."""
    engine = plan.responses.engine.built if isinstance(plan.responses, Sampled) else None
    return plan.samples_here and not (isinstance(engine, Charges) and engine.is_charged)


def _to_encode(plan: Plan) -> dict[Question, int]:
    """The existing responses of each problem whose hidden states are still to be computed."""
    vectors = plan.vectors
    if not isinstance(vectors, Vectors) or not vectors.engine:
        return {}
    missing = plan.store.missing(vectors, plan.questions)
    sampled = isinstance(plan.responses, Sampled)
    there = [each for each in missing if not sampled or plan.store.path(plan.responses, each)]
    return {question: count for question in there if (count := plan.rows(question))}


def _encoding_s(plan: Plan, encoded: dict[Question, int]) -> float | None:
    """Seconds of embedding, estimated from the first few responses; loading the model is not counted.

    None for few responses, in an executor's workers, and if the first responses are not in the store yet.
    """
    if sum(encoded.values()) < WORTH * PROBED or not plan.samples_here:
        return None
    vectors, question = plan.vectors, next(iter(encoded))
    assert isinstance(vectors, Vectors)
    assert vectors.engine
    path, engine, state = plan.store.path(plan.responses, question), vectors.engine.built, vectors.state
    if path is None:
        return None
    first = responses_of(plan.store.rows(plan.responses, question)).first(PROBED)

    def timed(n: int) -> float:
        started = time.perf_counter()
        engine.encode(question.chat, first.first(n), [state])
        return time.perf_counter() - started

    with plan.context.progress.waiting("timing a probe"):
        timed(1)  # loads the model
        seconds = _bounded_probe(timed, len(first))
    return seconds / len(first) * sum(encoded.values())


def _measuring_s(plan: Plan) -> float | None:
    """Seconds of measuring the responses that are not measured yet, by the task; None where that is little."""
    task = plan.task
    if not isinstance(task, Measured) or not isinstance(plan.verdicts, Verdicts):
        return None
    counts = []
    for question in plan.store.missing(plan.verdicts, plan.questions):
        problem, count = question.problem, plan.rows(question)
        if plan.store.path(plan.responses, question):
            texts = responses_of(plan.store.rows(plan.responses, question)).texts
            known = memo(plan.store.root, "measure", dict(task.measurer().identity()), problem)
            count = len(task.measurable(problem, known.lacking(texts)))
        counts.append((problem, count))
    return task.seconds(counts) if sum(count for _, count in counts) >= WORTH * PROBED else None


def _sampling_s(plan: Plan, pool: Sampled, missing: Sequence[Question], responses: int) -> float:
    """Seconds of sampling, by the engine's own estimate if it has one, since problems may differ."""
    engine = pool.engine.built
    if hasattr(engine, "seconds"):
        return float(engine.seconds([question.chat for question in missing], pool.n, pool.sampler.built))
    return _probed(plan, pool, missing) * responses


_response_s: dict[Path, float] = {}  # a pool's folder -> seconds a response: runs of a grid share pools


def _probed(plan: Plan, pool: Sampled, questions: Sequence[Question]) -> float:
    """Seconds a response, from a few responses to the first of these problems; loading the model is not counted.

    A sampler that steers takes a problem's responses one after another and several problems together, so its probe has
    many problems.
    """
    folder = (plan.store.root / pool.pool_name).absolute()
    if folder not in _response_s:
        probed, n = (questions[:PROBED], 2) if pool.steers else (questions[:1], PROBED)

        def timed(tokens: int, of: Sequence[Question] = probed, rows: int = n) -> float:
            started = time.perf_counter()
            request: SampleRequest = pool.request(of, n=rows, max_tokens=tokens)
            pool.engine.built.sample(request)
            return time.perf_counter() - started

        with plan.context.progress.waiting("timing a probe"):
            timed(1, questions[:1], 1)  # loads the model
            seconds = _bounded_probe(timed, pool.max_tokens)
        _response_s[folder] = seconds / (len(probed) * n)
    return _response_s[folder]


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


# By arithmetic, where nothing can be planned: problems x responses x --max-tokens, at a speed that is assumed from the
# model's size.

# Parameters x tokens a second: SmolLM2-135M on a CPU, a core; and a 7 B model in bfloat16 on an H100 (docs/scale.md).
A_CORE, A_GPU = 1e10, 2e13
UNKNOWN_SIZE = 1e9


@dataclass(frozen=True)
class Assumed:
    """What a run would sample at most, and how long that takes at the assumed speed."""

    problems: int
    n: int
    max_tokens: int
    seconds: float
    speed: str

    @property
    def outlook(self) -> Outlook:
        """The time, as a question before long work needs it."""
        return Outlook(self.seconds)

    def __str__(self) -> str:
        tokens = self.problems * self.n * self.max_tokens
        sampled = f"{self.problems:,} problems x {self.n:,} responses x {self.max_tokens:,} tokens = {tokens:,}"
        return f"by arithmetic at most {sampled} tokens; with {self.speed} that is {self.outlook}"


def assumed(context: Context) -> Assumed | None:
    """The price of sampling for this config; None if the number of problems is not known, or a pool file is given."""
    config = context.config
    task: Task | None = context.task.built if context.task else None
    problems = _known_problems(context, task) if task and not config.pool else None
    if task is None or problems is None:
        return None
    paper = task.paper if config.paper else {}
    n = config.n or paper.get("n") or task.n
    max_tokens = config.max_tokens or paper.get("max_tokens") or task.max_tokens
    engine = context.engine(task).built
    try:
        size, on_gpu = engine.size() if hasattr(engine, "size") else (None, False)
    except Lacking:  # the library that reads it
        size, on_gpu = None, False
    rate = A_GPU if on_gpu else A_CORE * (os.cpu_count() or 1)
    model = f"{(size or UNKNOWN_SIZE) / 1e9:.3g} billion parameters" + ("" if size else " (assumed)")
    device = "a GPU" if on_gpu else f"{os.cpu_count()} cores"
    speed = f"{model} at {rate / (size or UNKNOWN_SIZE):,.0f} tokens/s (assumed for {device})"
    return Assumed(problems, n, max_tokens, problems * n * max_tokens * (size or UNKNOWN_SIZE) / rate, speed)


def _known_problems(context: Context, task: Task) -> int | None:
    config = context.config
    chosen = config.split or (task.paper.get("split") if config.paper else None)
    split = chosen or task.default_split(context.engine(task).built.name)[0]
    limits = [limit for limit in (None if config.data else task.sizes.get(split), config.limit) if limit]
    return min(limits) if limits else None


def ask_before_fetching(context: Context) -> None:
    """Say what a run takes before weights are downloaded for it, and ask before an hour or more, as before all work."""
    progress = context.progress
    if context.config.pool or context.task is None:
        return
    engine = context.engine(context.task.built).built
    installed = not extras.missing(getattr(engine, "libraries", ()))
    fetched = engine.to_fetch() if hasattr(engine, "to_fetch") and installed else ""
    price = assumed(context) if fetched else None
    if price:
        progress.say(f"to download: {fetched}")
        progress.say(str(price))
        require_consent("run", price.outlook, progress, SHORTER)


def say_price(context: Context, only_long: bool = False) -> None:
    """Say what the run would cost here by arithmetic, if that is known, and what needs less.

    only_long  say nothing of a run that may begin without a question
    """
    price = assumed(context)
    if price and (price.outlook.is_long or not only_long):
        context.progress.say(str(price))
        context.progress.say(
            "less: --preset quick; --model FOLDER for a model that is here; --pool FILE for responses that you have; "
            "--task game24, which needs no download"
        )


def assumed_rows(context: Context, failure: HarnessError) -> list[dict[str, Any]]:
    """The rows of a dry run that cannot be planned here, after lines that say why and what it would cost.

    Raises `failure` if it is not that something is lacking here, or if nothing can be said of the costs.
    """
    price = assumed(context) if isinstance(failure, Lacking) else None
    if price is None:
        raise failure
    context.progress.say(f"not planned yet: {failure}")
    say_price(context)
    stages = ["sample", "embed", "verify", *(f"rank {selector}" for selector in context.config.selectors)]
    return [{"stage": stage, "there": None, "to_make": price.problems, "key": None} for stage in stages]
