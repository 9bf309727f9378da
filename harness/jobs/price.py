"""What a job will cost: cells, responses, tokens, verifier calls, disk, and (from a short probe) time.

Work of an hour or more begins only with the user's consent.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.columns.column import Column, Question
from harness.columns.responses import Sampled, responses_of
from harness.columns.store import count_rows
from harness.columns.vectors import OwnVectors, Vectors
from harness.columns.verdicts import Verdicts
from harness.contracts import Charges, Measured
from harness.errors import HarnessError, Lacking, NotBegun
from harness.system import extras
from harness.system.progress import Progress, clock

from .plan import Context, Plan

PROBED = 16  # responses of a probe: sampled to measure the engine's speed, then thrown away
PROBE_S = 20.0  # about the most time of a probe's last call, the loading of the model not counted
LONGER = 4  # how many times longer the responses of each next attempt of a probe are
WORTH = 20  # a probe is made where at least WORTH * PROBED responses are to be made
ROW, TOKEN, VERDICT, FILE = 12, 2.5, 2, 4096  # bytes of a response, a token, a verdict, a file's head (docs/cluster.md)
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
class Space:
    """The bytes that the store still needs: of each kind of rows at most, about; and what is needed at least.

    Vectors are 4 bytes x responses x width, the width at most `--dim`. Texts are taken to be of the full length, with
    bytes a token as measured; what a file of verdicts takes was measured too. Rankings and cells are not counted.
    """

    vectors: int = 0
    texts: int = 0
    verdicts: int = 0
    least: int = 0  # vectors whose width is known

    def __add__(self, other: Space) -> Space:
        return Space(*(sum(pair) for pair in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        is_sure = self.least == self.vectors
        parts = {
            f"{'' if is_sure else 'up to '}{_size(self.vectors)} of vectors": self.vectors,
            f"up to about {_size(self.texts)} of texts": self.texts,
            f"about {_size(self.verdicts)} of verdicts": self.verdicts,
        }
        return ", ".join(part for part, size in parts.items() if size)

    def told(self, root: Path) -> str:
        """A clause about what the store needs and has; "" if it needs nothing."""
        free, most = _free(root), self.vectors + self.texts + self.verdicts
        enough = "too little" if self.least > free else "it may not suffice" if most > free else ""
        return f"disk: {self} ({_size(free)} free{enough and ': ' + enough})" if most else ""

    def require_room(self, root: Path) -> None:
        """HarnessError if the least that is needed does not fit on the disk of the store at `root`."""
        if self.least > _free(root):
            raise HarnessError(
                f"run: does not fit into {root}: it takes {self}, and {_size(_free(root))} are free: choose another "
                "--store, or a smaller --n, --limit or --dim"
            )


def _free(root: Path) -> int:
    root = root.absolute()
    return shutil.disk_usage(next(each for each in (root, *root.parents) if each.exists())).free


def space(plan: Plan, columns: Sequence[Column] = (), counted: set[Column] | None = None) -> Space:
    """What the store lacks of a plan's columns, of these others, and of the pool.

    counted  columns to leave out; those of the plan are added
    """
    vectors, texts, verdicts, least = 0, 0, 0, 0
    counted = set() if counted is None else counted
    for column in {plan.responses: 1, **dict.fromkeys([*columns, *plan.common])}.keys() - counted:
        counted.add(column)
        counts = _lacking(plan, column)
        rows, heads = sum(counts.values()), FILE * len(counts)
        if isinstance(column, Sampled):
            texts += heads + int(rows * (ROW + TOKEN * column.max_tokens))
        elif isinstance(column, Vectors | OwnVectors):
            makes = (column.engine or column.embedder) if isinstance(column, Vectors) else None
            width = getattr(makes.built, "width", None) if makes else None
            size = heads + 4 * rows * min(column.dim, width or column.dim)
            vectors, least = vectors + size, least + (size if width else 0)
        elif column.kind in ("verdicts", "audits"):
            verdicts += heads + rows * VERDICT
    return Space(vectors, texts, verdicts, least)


class Costs(NamedTuple):
    """What a run still has to make, as a line for people, how long that takes, and what the store needs for it."""

    line: str
    outlook: Outlook
    is_work: bool
    space: Space = Space()


def preflight(plan: Plan, columns: Sequence[Column] = (), counted: set[Column] | None = None) -> Costs:
    """What the store lacks for this plan and these other columns, and what it costs to make it.

    `counted` is that of `space`.
    If that is much, a short probe measures the model's speed, for which the model is loaded.
    """
    cells, total = len(plan.orders), len(plan.questions)
    parts: list[tuple[str, str, Outlook]] = []  # what is to do, its verb, and how long it takes
    pool = plan.responses
    if isinstance(pool, Sampled) and (missing := plan.store.missing(pool, plan.questions)):
        there = [plan.store.path(pool, question) for question in missing]  # some rows of a problem may be there
        lacking = [pool.n - (count_rows(path) if path else 0) for path in there]
        tokens, engine = sum(lacking) * pool.max_tokens, pool.engine.built
        clause = f"{sum(lacking):,} responses to sample (at most {tokens:,} tokens)"
        if isinstance(engine, Charges):
            cost = engine.quote([question.chat for question in missing], lacking, pool.max_tokens)
            clause += f", {cost}" if cost else ""
        parts.append((clause, "sampling", sampling(plan, missing, sum(lacking))))
    if counts := _lacking(plan, plan.verdicts):
        seconds = None
        is_much = sum(counts.values()) >= WORTH * PROBED  # the task's estimate may load its model
        if is_much and isinstance(plan.task, Measured) and isinstance(plan.verdicts, Verdicts):
            seconds = plan.task.seconds([(question.problem, count) for question, count in counts.items()])
        parts.append((f"{sum(counts.values()):,} responses to grade", "verifying", Outlook(seconds or 0)))
    outlook, count = encoding(plan)
    if count:
        parts.append((f"{count:,} responses to embed", "embedding", outlook))
    if count := scoring(plan).responses:
        parts.append((f"{count:,} responses to score", "", Outlook(0, count)))
    clauses = [f"{cells} cell{'s' * (cells != 1)}, {total:,} problems"]
    clauses += [clause + (f", {verb} takes {time}" if time.seconds else "") for clause, verb, time in parts]
    needed = space(plan, columns, counted)
    clauses += filter(None, [needed.told(plan.store.root)])
    return Costs("to do: " + ", ".join(clauses), sum((time for *_, time in parts), Outlook()), bool(parts), needed)


def _lacking(plan: Plan, column: Column | None) -> dict[Question, int]:
    """The problems for which the store lacks a column's rows, with the number of their responses."""
    missing = plan.store.missing(column, plan.questions) if column else []
    return {question: count for question in missing if (count := plan.rows(question))}


def sampling(plan: Plan, questions: Sequence[Question], responses: int) -> Outlook:
    """The time of sampling responses to these problems; from a probe if they are many, here, and cost no money.

    The probe samples a few responses to the first problems; loading the model is not counted. A sampler that steers
    takes a problem's responses one after another and several problems together, so its probe has many problems.
    """
    pool = plan.responses
    assert isinstance(pool, Sampled)
    is_paid = isinstance(pool.engine.built, Charges) and pool.engine.built.is_charged
    if responses < WORTH * PROBED or not plan.models_here or is_paid:
        return Outlook(0, responses, responses * pool.max_tokens)
    folder = (plan.store.root / pool.pool_name).absolute()
    if folder not in _known:
        probed, n = (questions[:PROBED], 2) if pool.steers else (questions[:1], PROBED)

        def sample(tokens: int, of: Sequence[Question] = probed, rows: int = n) -> None:
            pool.engine.built.sample(pool.request(of, n=rows, max_tokens=tokens))

        with plan.progress.waiting("timing a probe"):
            sample(1, questions[:1], 1)  # loads the model
            _known[folder] = _probed(sample, pool.max_tokens) / (len(probed) * n)
    return Outlook(_known[folder] * responses)


_known: dict[Path, float] = {}  # a pool's folder -> seconds a response: runs of a grid share pools


def _probed(call: Callable[[int], Any], whole: int) -> float:
    """About the seconds of `call(whole)`, from calls with 1, 4, 16, ... as long as these are short.

    What is more takes as long as the last ones did, so every response is taken to have the full length.
    """

    def timed(size: int) -> float:
        started = time.perf_counter()
        call(size)
        return time.perf_counter() - started

    size, seconds = 1, timed(1)
    each_s = seconds
    while size < whole and LONGER * seconds <= PROBE_S:
        longer, before = min(whole, LONGER * size), seconds
        seconds = timed(longer)
        each_s, size = max(0.0, seconds - before) / (longer - size), longer
    return seconds + each_s * (whole - size)


def encoding(plan: Plan) -> tuple[Outlook, int]:
    """The time that the model will take for hidden states of existing responses, and their number.

    From a probe, if they are many, the model runs in this process and the first of them are in the store.
    """
    vectors = plan.vectors
    if not isinstance(vectors, Vectors) or not vectors.engine:
        return Outlook(), 0
    counts = _lacking(plan, vectors)
    if isinstance(plan.responses, Sampled):  # those still to be sampled bring theirs
        counts = {question: n for question, n in counts.items() if plan.store.path(plan.responses, question)}
    total = sum(counts.values())
    question = next(iter(counts), None)
    if total < WORTH * PROBED or not plan.models_here or not question or not plan.store.path(plan.responses, question):
        return Outlook(0, total), total
    first = responses_of(plan.store.rows(plan.responses, question)).first(PROBED)
    engine, state = vectors.engine.built, vectors.state
    with plan.progress.waiting("timing a probe"):
        engine.encode(question.chat, first.first(1), [state])  # loads the model
        seconds = _probed(lambda n: engine.encode(question.chat, first.first(n), [state]), len(first))
    return Outlook(seconds / len(first) * total), total


def scoring(plan: Plan) -> Outlook:
    """The number of responses that the scorer must still score."""
    return Outlook(0, sum(_lacking(plan, plan.scores).values()))


def _size(count: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1000:,.0f} kB"


# Where a run cannot be planned yet, since weights, data or libraries are not on this machine.


def say_at_most(context: Context) -> tuple[int, Outlook, Space] | None:
    """Say what sampling takes at most; return the number of problems, the work and its space, or None: not known.

    The vectors are those that come with the sampling pass, and their width is taken to be `--dim`.
    """
    config, task = context.config, context.task
    if not config.task or config.pool:
        return None
    split = config.split or context.paper.get("split") or task.default_split(context.engine.built.name)[0]
    limits = [limit for limit in (None if config.data else task.sizes.get(split), config.limit) if limit]
    if not limits:
        return None
    problems, (n, max_tokens) = min(limits), context.size
    rows, tokens = problems * n, problems * n * max_tokens
    engine = context.engine.built
    most = f"at most {problems:,} problems x {n:,} = {rows:,} responses x {max_tokens:,} = {tokens:,} tokens"
    if isinstance(engine, Charges) and (cost := engine.quote([()] * problems, [n] * problems, max_tokens)):
        most += f", {cost.partition(' (')[0]}, the prompts not counted"
    context.progress.say(most)
    embeds = not config.until_correct and (config.embedder or engine.states)
    vectors = problems * FILE + 4 * rows * config.dim if embeds else 0
    texts, verdicts = problems * FILE + int(ROW * rows + TOKEN * tokens), problems * FILE + VERDICT * rows
    needed = Space(vectors, texts, verdicts)
    context.progress.say(needed.told(context.store.root))
    return problems, Outlook(0, rows, tokens), needed


def ask_before_fetching(context: Context) -> None:
    """Say what a run takes before weights are downloaded for it, and ask before much, as before all work."""
    if context.config.pool or not context.config.task:
        return
    engine = context.engine.built
    installed = not extras.missing(getattr(engine, "libraries", ()))
    if installed and hasattr(engine, "to_fetch") and (fetched := engine.to_fetch()):
        context.progress.say(f"to download: {fetched}")
        if work := say_at_most(context):
            require_consent("run", work[1], context.progress, SHORTER)


def unplanned(context: Context, failure: HarnessError, shown: set[Any]) -> tuple[list[dict[str, Any]], Costs]:
    """The rows and costs of a dry run that cannot be planned here, after lines that say why and what it takes at most.

    What is in `shown` is left out: runs of a grid share it. Raises `failure` if it is not that something is lacking
    here, or if nothing can be said of the work.
    """
    work = say_at_most(context) if isinstance(failure, Lacking) else None
    if work is None:
        raise failure
    (problems, outlook, needed), config, why = work, context.config, f"not planned yet: {failure}"
    if why not in shown:
        context.progress.say(why)
    pool = config.task, config.model, config.engine, config.sampler
    if ("sample", *pool) in shown:
        outlook, needed = Outlook(), replace(needed, texts=0, verdicts=0)
    stages: dict[str, Any] = {"sample": pool, "embed": (*pool, config.embedder), "verify": pool}
    stages |= {f"rank {selector}": (*pool, config.embedder) for selector in config.selectors}
    if config.until_correct:
        stages = {"until correct": pool}
    new = [stage for stage, of in stages.items() if (stage, *of) not in shown]
    shown |= {why, *((stage, *stages[stage]) for stage in new)}
    rows = [{"stage": stage, "there": None, "to_make": problems, "key": None} for stage in new]
    return rows, Costs("", outlook, True, needed)
