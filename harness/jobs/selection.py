"""`harness select`: choose which of your own responses to verify next, by any selector. No verdict is read or made.

Responses come from a pool file of any layout (a task joins them to its problems and extracts their answers). Or vectors
stand alone, and each row is a response. Vectors come from a file or an embedder; only those that a model computed are
kept in the store, so that the next call reuses them.

Responses that were verified before are not chosen again. A selector with `rank_after` continues from them (RepExp's
covariance starts from those rows); any other selector ranks the rest of the pool. Vectors are always centred over
all rows. The order is that of the first trial of `harness run` with the same seed. All texts are held in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from harness.columns.column import Column
from harness.columns.make import Maker
from harness.columns.orders import centred, checked_pool, import_libraries, one_thread, ranking_rng, waiting_named
from harness.columns.responses import scores_of
from harness.columns.vectors import embedded, named_failure, project
from harness.columns.verdicts import answers_of, ran_answers, runs_answers
from harness.contracts import Ranker
from harness.errors import HarnessError
from harness.plugin_system.calls import needs, picked, require_selector, subset_of
from harness.plugin_system.component import parameters, weights_remark
from harness.pools.given import GivenVectors, check_verified, read_verified
from harness.pools.reading import remarks
from harness.pools.record import PoolRecord, scores_in
from harness.records import Floats, Pool, Problem, Responses
from harness.system.progress import Progress

from .options import SelectConfig
from .plan import Context, Plan, joined_file, make_context, make_plan, pool_embedder, require_libraries
from .price import Outlook, encoding, require_consent, scoring


@dataclass(frozen=True)
class Candidates:
    """One problem's responses, and the indices of those verified before, in the order in which they were verified."""

    problem: Problem
    responses: Responses
    verified: Sequence[int] = ()


@dataclass(frozen=True)
class Held:
    """What the caller has in memory, in place of the request's files, which then are only names for messages.

    Problem id -> vectors (n, d), texts, the indices of responses verified before, or scores: n numbers, or n by name.
    """

    vectors: Mapping[str, Any] | None = None
    texts: Mapping[str, Sequence[str]] | None = None
    verified: Mapping[str, Sequence[int]] | None = None
    scores: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Chosen:
    """The choice for one problem: k indices of its responses, best first if `ordered`.

    texts, names  of all its responses; names are empty where the pool file has none
    """

    problem_id: str
    order: list[int]
    ordered: bool
    texts: Sequence[str]
    names: Sequence[str] = ()

    def row(self) -> dict[str, Any]:
        """The row of `--json`: problem_id, order, ordered, and the chosen responses' names if there are any."""
        row = {"problem_id": self.problem_id, "order": self.order, "ordered": self.ordered}
        return row | ({"names": [self.names[index] for index in self.order]} if any(self.names) else {})


@dataclass(frozen=True)
class Opened:
    """The problems of a request, checked, and its selector; `pool` gives what the selector sees of a problem."""

    context: Context
    selector: Any
    candidates: Sequence[Candidates]
    pool: Callable[[Candidates], Pool]


def select(request: SelectConfig, progress: Progress, held: Held | None = None) -> list[Chosen]:
    """Choose k responses of every problem; return one `Chosen` per problem, in the order given.

    HarnessError if the request cannot be carried out, where possible before any vector is computed, and if the selector
    fails for a problem.
    """
    with opened_pools(request, progress, held) as opened:
        chosen = []
        for each in opened.candidates:
            pool, rng = opened.pool(each), ranking_rng(request.seed, each.problem, trial=0)
            with selecting(request.selector, each.problem):
                order = _order(opened.selector, pool, each.verified, request.k, rng)
            names, is_ordered = each.problem.meta.get("names", ()), isinstance(opened.selector, Ranker)
            chosen.append(Chosen(each.problem.id, order, is_ordered, each.responses.texts, names))
        return chosen


@contextmanager
def opened_pools(request: SelectConfig, progress: Progress, held: Held | None = None) -> Iterator[Opened]:
    """The pools of a request, read, with their vectors where the selector reads any; in use until the block ends.

    HarnessError if the request cannot be carried out, where possible before any vector is computed.
    """
    context, held = make_context(request.run_config, progress), held or Held()
    spec, selector = request.selector, context.part("selector", request.selector).built
    require_selector(spec, selector)
    require_libraries({f"selector {spec}": selector})
    import_libraries(selector)
    path = request.embeddings
    given = GivenVectors(path, max_gb=request.max_vectors_gb, held=held.vectors) if path else None
    _check_reads(request, context, selector)
    problems = list(_problems_of(request, context, given, held))
    sizes = {problem.id: len(responses) for problem, responses in problems}
    if given:
        given.lines = {problem.id: problem.meta.get("line", problem.id) for problem, _ in problems}
    before = read_verified(request.verified, sizes) if request.verified else check_verified(held.verified or {}, sizes)
    candidates = [Candidates(problem, responses, before.get(problem.id, ())) for problem, responses in problems]
    for each in candidates:
        _check_size(request, each)
        if "logprobs" in needs(selector) and np.isnan(each.responses.logprobs).any():
            raise HarnessError(f"selector {spec!r} needs log-probabilities, which the pool does not carry")
    with ExitStack() as in_use:

        @functools.cache
        def plan() -> Plan:
            """That of a run over the same pool, for what a model makes of it; the store is in use from then on."""
            made = make_plan(request.run_config, Progress(quiet=True), with_verdicts=False)  # what joined was shown
            in_use.enter_context(made.store.used())
            return made

        scores = _scores(request, selector, candidates, held, plan, progress)
        vectors = _vectors(request, context, selector, candidates, given, held, plan)
        answers = _answers(context, selector, candidates)

        def pool(each: Candidates) -> Pool:
            rows = np.ascontiguousarray(vectors(each))  # as a run reads them: another layout sums in another order
            return checked_pool(
                f"{request.pool or request.embeddings}, problem {each.problem.id!r}",
                texts=each.responses.texts,
                embeddings=centred(rows) if request.centre else rows,
                logprobs=each.responses.logprobs,
                lengths=each.responses.lengths,
                answers=answers(each),
                scores=scores(each),
            )

        yield Opened(context, selector, candidates, pool)


def _made(plan: Plan, column: Column, outlook: Outlook, progress: Progress) -> Callable[[Candidates], Any]:
    """Make a column of the request's pool, after a question if that is long; return what reads a problem's rows."""
    if every := list(dict.fromkeys(weights for stage in plan.weights.values() for weights in stage)):
        progress.say(weights_remark(every))
    require_consent("select", outlook, progress, "a smaller --pool makes it shorter")
    Maker(plan.store, plan.context.executor, progress).make([column], plan.questions)
    questions = {question.problem.id: question for question in plan.questions}
    return lambda each: plan.store.rows(column, questions[each.problem.id])


# Problems.


def _problems_of(
    request: SelectConfig, context: Context, given: GivenVectors | None, held: Held
) -> Iterable[tuple[Problem, Responses]]:
    """The problems with their responses: those in memory, else those of the pool file, else the rows of `given`.

    The names that a pool file gives the responses and the problem stand in `problem.meta`, as "names" and "line".
    """
    if held.texts is not None:
        for name, texts in held.texts.items():
            yield Problem(name, ""), PoolRecord(name, list(texts)).as_responses()
    elif request.pool or given is None:
        joined = joined_file(context)[2]
        for record, problem in joined:
            meta = {**problem.meta, "names": record.names, "line": record.problem_id}
            yield replace(problem, meta=meta), record.as_responses()
        for line in remarks(joined.index()):
            context.progress.say(line)
    else:
        if not given.names:
            raise HarnessError(f"embeddings {given.path}: holds no arrays, one (n, d) array per problem id")
        for name in given.names:  # each row is a response without a text
            n = given.get(name).shape[0]
            nothing = Responses([""] * n, ["stop"] * n, np.zeros(n, np.int64), np.full(n, np.nan))
            yield Problem(name, "", meta={"names": given.row_names(name)}), nothing


def _check_reads(request: SelectConfig, context: Context, selector: Any) -> None:
    """HarnessError for a selector that reads columns which the request does not give."""
    reads = getattr(selector, "reads", ())
    if "texts" in reads and not request.pool:
        raise HarnessError(f"selector {request.selector!r} reads texts: give --pool beside --embeddings")
    if "answers" in reads and not request.task:
        raise HarnessError(
            f"selector {request.selector!r} reads canonical answers, which a task extracts: say which --task"
            + (" (and give --pool)" if not request.pool else "")
        )
    remark = context.task.built.check() if context.task and "answers" in reads else ""  # it may need the sandbox
    if remark:
        context.progress.say(remark)


def _check_size(request: SelectConfig, candidates: Candidates) -> None:
    n, verified, k = len(candidates.responses), len(candidates.verified), request.at_least
    who = f"{request.command}: problem {candidates.problem.id!r}"
    if n and verified == n:
        raise HarnessError(f"{who}: all {n} responses are verified, none is left")
    if k > n - verified:
        left = f" left, since {verified} of {n} are verified" if verified else ""
        raise HarnessError(f"{who} has {n - verified} response{'s' * (n - verified != 1)}{left}: -k {k} is more")


# What the selector reads beside texts.


def _vectors(
    request: SelectConfig,
    context: Context,
    selector: Any,
    candidates: Sequence[Candidates],
    given: GivenVectors | None,
    held: Held,
    plan: Callable[[], Plan],
) -> Callable[[Candidates], Floats]:
    """A function that gives one problem's vectors, (n, d) float32, projected if wider than `dim`, not centred."""
    if "embeddings" not in needs(selector):
        if request.embedder or request.model or (given and request.pool):
            context.progress.say(f"selector {request.selector!r} reads no vectors: none are made")
        return lambda each: np.zeros((len(each.responses), 0), np.float32)
    if given:
        return lambda each: project(
            given.get(each.problem.id, len(each.responses)),
            request.dim,
            request.seed,
            f"embeddings {given.path}: {each.problem.id!r}",
        )
    spec = pool_embedder(context.config, context.progress)
    embedder = context.part("embedder", spec).built
    require_libraries({f"embedder {spec}": embedder})
    if not embedder.state and request.model:
        raise HarnessError(f"embedder {spec!r} takes no --model: leave it out, or take --embedder hidden-mean")
    if embedder.state and not request.model:
        raise HarnessError(
            f"embedder {spec!r} takes a model's hidden states: say which --model (a hub id or folder), or take "
            "--embedder tfidf, which needs none"
        )
    blank = [each.problem.id for each in candidates if not each.problem.prompt.strip()]
    if embedder.state and blank and not request.task:
        raise HarnessError(
            f"embedder {spec!r} reads the prompt before each response, and problem {blank[0]!r} has none: add `prompt` "
            "to the pool's lines, or say which --task"
        )
    if held.texts is None and (embedder.state or "model" in parameters(embedder)):
        column = plan().vectors
        assert column is not None
        return _made(plan(), column, encoding(plan())[0], context.progress)
    return lambda each: project(
        embedded(embedder, spec, each.problem, each.responses.texts),
        request.dim,
        request.seed,
        f"embedder {spec!r}, problem {each.problem.id!r}",
    )


def _scores(
    request: SelectConfig,
    selector: Any,
    candidates: Sequence[Candidates],
    held: Held,
    plan: Callable[[], Plan],
    progress: Progress,
) -> Callable[[Candidates], dict[str, Floats]]:
    """A function that gives a problem's scores: those of the pool file, of the caller and of the request's scorer.

    HarnessError for scores of an unknown problem, that are no n numbers, or where a selector that reads them has none.
    """
    given, reads, rows = held.scores or {}, "scores" in needs(selector), None
    if unknown := set(given) - {each.problem.id for each in candidates}:
        raise HarnessError(f"select: scores of {min(unknown)!r}, which is none of the problems")
    own = {each.problem.id: _numbers(given.get(each.problem.id), each) for each in candidates}
    if request.scorer and not reads:
        progress.say(f"selector {request.selector!r} reads no scores: none are made")
    elif request.scorer:
        column = plan().scores
        assert column is not None
        rows = _made(plan(), column, scoring(plan()), progress)
    elif reads:
        for each in candidates:
            if not each.responses.scores and not own[each.problem.id]:
                raise HarnessError(
                    f"selector {request.selector!r} reads scores, and problem {each.problem.id!r} has none: give "
                    "`scores` in the pool file, or a --scorer (docs/pools.md)"
                )
    return lambda each: {
        **each.responses.scores,
        **own[each.problem.id],
        **(scores_of(rows(each)) if rows else {}),
    }


def _numbers(given: Any, each: Candidates) -> dict[str, Floats]:
    """Scores that the caller holds, n numbers or n by name, as arrays (n,) by name."""
    named = given if given is None or isinstance(given, Mapping) else {"score": given}
    columns = named and {
        name: column.tolist() if hasattr(column, "tolist") else list(column) if isinstance(column, Sequence) else column
        for name, column in named.items()
    }
    scores = scores_in(columns, len(each.responses), f"select: problem {each.problem.id!r}")
    return {name: np.array(column, np.float64) for name, column in scores.items()}


def _answers(
    context: Context, selector: Any, candidates: Sequence[Candidates]
) -> Callable[[Candidates], Sequence[str | None]]:
    """A function that gives a problem's canonical answers if there is a task and the selector reads them, else Nones.

    Answers that cost a run of each response are made here and kept in the store, with a line on their cost.
    """
    if context.task is None or "answers" not in getattr(selector, "reads", ("answers",)):
        return lambda each: [None] * len(each.responses)
    task = context.task.built
    if not runs_answers(task):
        return lambda each: answers_of(task, each.problem, each.responses.texts, each.responses.finish)
    answers: dict[str, Sequence[str | None]] = {}
    total_cpu_s = 0.0
    with context.store.used(), context.progress.stage("answers", len(candidates), "problems") as bar:
        for each in candidates:
            made, cpu_s = ran_answers(context.task, each.problem, each.responses, context.store.root)
            answers[each.problem.id] = made
            total_cpu_s += cpu_s
            bar.advance()
    from harness.results.rows import answers_line  # scipy, which `harness select` does without

    context.progress.say(answers_line(sum(map(len, answers.values())), total_cpu_s))
    return lambda each: answers[each.problem.id]


# Selecting.


@contextmanager
def selecting(spec: str, problem: Problem) -> Iterator[None]:
    """A context for calls of a selector: in one thread, named if it takes long, and errors as one line."""
    with named_failure(f"selector {spec!r}", problem), one_thread(spec), waiting_named(spec, problem):
        yield


def _order(selector: Any, pool: Pool, verified: Sequence[int], k: int, rng: np.random.Generator) -> list[int]:
    """k indices of the pool, none of them verified, each checked when the selector gives it."""
    if verified and hasattr(selector, "rank_after"):
        order = _first(selector.rank_after(pool, tuple(verified), rng), k, len(pool))
        for index in set(order) & set(verified):
            raise HarnessError(f"rank_after gave index {index}, which is verified already")
        return order
    rest = np.setdiff1d(np.arange(len(pool)), np.asarray(verified, np.intp))
    part = pool.part(rest.tolist()) if verified else pool
    if isinstance(selector, Ranker):
        return [int(rest[row]) for row in _first(selector.rank(part, rng), k, len(part))]
    return [int(rest[row]) for row in subset_of(selector, part, k, rng)]


def _first(picks: Iterable[Any], k: int, n: int) -> list[int]:
    order = list(islice(picked(picks, n), k))
    if len(order) < k:
        raise HarnessError(f"the ranking ended after {len(order)} of {k} picks")
    return order
