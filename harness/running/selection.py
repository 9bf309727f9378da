"""`harness select`: choose which of your own responses to verify next, by any selector. No verdict is read or made.

Responses come from a pool file of any layout (a task joins them to its problems and extracts their answers). Or vectors
stand alone, and each row is a response. Vectors come from a file or an embedder; only those that a model computed are
kept in the store, so that the next call reuses them.

Responses that were verified before are not chosen again. A selector with `rank_after` continues from them (RepExp's
covariance starts from those rows); any other selector ranks the rest of the pool. Vectors are always centred over
all rows. The order is that of the first trial of `harness run` with the same seed. All texts are held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from harness.contracts import Embedder, Ranker, RanksAfter
from harness.errors import HarnessError, contained, error_text
from harness.plugin_system.component import parameters
from harness.plugin_system.picks import needs, picked, require_selector, subset_of
from harness.pools.given import GivenVectors
from harness.records import Floats, Pool, Problem
from harness.stages.answers import ran_answers
from harness.stages.embed import embedded
from harness.stages.project import project
from harness.stages.rank import centred, pool_of, ranking_named
from harness.stages.verify import answers_of
from harness.stages.work import import_libraries, one_thread, ranking_rng
from harness.store import in_use, shards
from harness.system.progress import Progress
from harness.task import Task

from . import prerequisites
from .candidates import Candidates, Held, problems_of, with_verified
from .config import SelectConfig
from .context import Context, make_context
from .importing import import_pool
from .planning import make_plan, pool_embedder

VectorsOf: TypeAlias = Callable[["Candidates"], Floats]


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


@in_use.until_done
def select(request: SelectConfig, progress: Progress, held: Held | None = None) -> list[Chosen]:
    """Choose k responses of every problem; return one `Chosen` per problem, in the order given.

    HarnessError if the request cannot be carried out, where possible before any vector is computed, and if the selector
    fails for a problem.
    """
    opened = open_pools(request, progress, held)
    return [_chosen(request, opened, each) for each in opened.candidates]


@dataclass(frozen=True)
class Opened:
    """The problems of a request, checked, and its selector; `pool` gives what the selector sees of a problem."""

    context: Context
    selector: Any
    candidates: Sequence[Candidates]
    pool: Callable[[Candidates], Pool]


def open_pools(request: SelectConfig, progress: Progress, held: Held | None = None) -> Opened:
    """Read the responses of a request and make their vectors, where the selector reads any.

    HarnessError if the request cannot be carried out, where possible before any vector is computed.
    """
    context, held = make_context(request.run_config, progress), held or Held()
    selector = require_selector(request.selector, context.build("selector", request.selector))
    prerequisites.require_libraries({f"selector {request.selector}": selector})
    import_libraries(selector)
    path = request.embeddings
    given = GivenVectors(path, max_gb=request.max_vectors_gb, held=held.vectors) if path else None
    _check_reads(request, context, selector)
    problems = list(problems_of(request, context, given, held))
    if given:
        given.lines = {problem.id: problem.meta.get("line", problem.id) for problem, _ in problems}
    candidates = with_verified(request, problems, held)
    for each in candidates:
        _check_size(request, each)
    _check_logprobs(request.selector, selector, candidates)
    if held.scores is not None or request.scorer:
        from . import select_scores

        candidates = select_scores.with_given(held.scores or {}, candidates)
        candidates = select_scores.with_scorer(request, selector, candidates, progress)
    _check_scores(request.selector, selector, candidates)
    vectors = _vectors(request, context, selector, candidates, given, held)
    answers = _answers(context, selector, candidates)
    return Opened(context, selector, candidates, lambda each: _pool(request, each, vectors(each), answers(each)))


# Checks.


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
    remark = context.task.check() if context.task and "answers" in reads else ""  # extraction may need the sandbox too
    if remark:
        context.progress.say(remark)


def _check_logprobs(spec: str, selector: Any, candidates: Sequence[Candidates]) -> None:
    for each in candidates if "logprobs" in needs(selector) else ():
        if np.isnan(each.responses.logprobs).any():
            raise HarnessError(f"selector {spec!r} needs log-probabilities, which the pool does not carry")


def _check_scores(spec: str, selector: Any, candidates: Sequence[Candidates]) -> None:
    for each in candidates if "scores" in needs(selector) else ():
        if not each.responses.scores:
            raise HarnessError(
                f"selector {spec!r} reads scores, and problem {each.problem.id!r} has none: give `scores` in the pool "
                "file, or a --scorer (docs/pools.md)"
            )


def _check_size(request: SelectConfig, candidates: Candidates) -> None:
    n, verified, k = len(candidates.responses), len(candidates.verified), request.at_least
    who = f"{request.command}: problem {candidates.problem.id!r}"
    if n and verified == n:
        raise HarnessError(f"{who}: all {n} responses are verified, none is left")
    if k > n - verified:
        left = f" left, since {verified} of {n} are verified" if verified else ""
        raise HarnessError(f"{who} has {n - verified} response{'s' * (n - verified != 1)}{left}: -k {k} is more")


# Vectors.


def _vectors(
    request: SelectConfig,
    context: Context,
    selector: Any,
    candidates: Sequence[Candidates],
    given: GivenVectors | None,
    held: Held,
) -> VectorsOf:
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
    embedder: Embedder = context.build("embedder", spec)
    prerequisites.require_libraries({f"embedder {spec}": embedder})
    _check_embedder(request, spec, embedder, candidates)
    if held.texts is None and (embedder.state or "model" in parameters(embedder)):
        return _kept(request, context.progress)
    return lambda each: project(
        embedded(embedder, spec, each.problem, each.responses.texts),
        request.dim,
        request.seed,
        f"embedder {spec!r}, problem {each.problem.id!r}",
    )


def _check_embedder(request: SelectConfig, spec: str, embedder: Embedder, candidates: Sequence[Candidates]) -> None:
    if not embedder.state:
        if request.model:
            raise HarnessError(f"embedder {spec!r} takes no --model: leave it out, or take --embedder hidden-mean")
        return
    if not request.model:
        raise HarnessError(
            f"embedder {spec!r} takes a model's hidden states: say which --model (a hub id or folder), or take "
            "--embedder tfidf, which needs none"
        )
    blank = [each.problem.id for each in candidates if not each.problem.prompt.strip()]
    if blank and not request.task:
        raise HarnessError(
            f"embedder {spec!r} reads the prompt before each response, and problem {blank[0]!r} has none: add `prompt` "
            "to the pool's lines, or say which --task"
        )


def _kept(request: SelectConfig, progress: Progress) -> VectorsOf:
    """A function that gives vectors which a model computes: kept in the store as a run's are, under the same keys."""
    from . import pipeline
    from .preflight import encoding_outlook, require_consent

    plan = make_plan(
        request.run_config, Progress(quiet=True), with_verdicts=False
    )  # which problems joined was shown before
    stage = plan.work.embeddings
    assert stage is not None  # the selector needs vectors
    stage.begin()
    plan.show_weights(progress)
    require_consent("select", encoding_outlook(plan), progress, "a smaller --pool makes it shorter")
    if plan.imported:
        import_pool(plan.imported, progress)
    pipeline.embed(plan, set(), progress)
    problems = {problem.id: problem for problem in plan.problems}

    def kept(each: Candidates) -> Floats:
        problem = problems[each.problem.id]
        vectors = shards.read_vectors(stage.path(problem))
        shards.require_rows(stage.path(problem), len(vectors), len(each.responses))
        return vectors

    return kept


# Selecting.


def _chosen(request: SelectConfig, opened: Opened, each: Candidates) -> Chosen:
    pool = opened.pool(each)
    rng = ranking_rng(request.seed, each.problem, trial=0)
    with selecting(request.selector, each.problem):
        order = _order(opened.selector, pool, each.verified, request.k, rng)
    names = each.problem.meta.get("names", ())
    return Chosen(each.problem.id, order, isinstance(opened.selector, Ranker), each.responses.texts, names)


@contextmanager
def selecting(spec: str, problem: Problem) -> Iterator[None]:
    """A context for calls of a selector: in one thread, named if it takes long, and errors as one line."""
    try:
        with contained(), one_thread(spec), ranking_named(spec, problem):
            yield
    except Exception as failure:
        raise HarnessError(f"selector {spec!r}, problem {problem.id!r}: {error_text(failure)}") from failure


def _pool(request: SelectConfig, each: Candidates, vectors: Floats, answers: Sequence[str | None]) -> Pool:
    responses = each.responses
    rows = np.ascontiguousarray(vectors)  # as the store gives them to a run: another layout sums in another order
    return pool_of(
        f"{request.pool or request.embeddings}, problem {each.problem.id!r}",
        texts=responses.texts,
        embeddings=centred(rows) if request.centre else rows,
        logprobs=responses.logprobs,
        lengths=responses.lengths,
        answers=answers,
        scores=responses.scores,
    )


def _answers(
    context: Context, selector: Any, candidates: Sequence[Candidates]
) -> Callable[[Candidates], Sequence[str | None]]:
    """A function that gives a problem's canonical answers if there is a task and the selector reads them, else Nones.

    Answers that cost a run of each response are made here and kept in the store, with a line on their cost.
    """
    task = context.task
    if task is None or "answers" not in getattr(selector, "reads", ("answers",)):
        return lambda each: [None] * len(each.responses)
    stage = context.answers(task)
    if stage is None:
        return lambda each: _extracted(task, each)
    stage.begin()
    answers: dict[str, Sequence[str | None]] = {}
    total_cpu_s = 0.0
    with context.progress.stage("answers", len(candidates), "problems") as bar:
        for each in candidates:
            texts, finish = each.responses.texts, each.responses.finish
            answers[each.problem.id], cpu_s = ran_answers(task, stage, each.problem, texts, finish)
            total_cpu_s += cpu_s
            bar.advance()
    from harness.results.columns import answers_line  # imports scipy.stats

    context.progress.say(answers_line(sum(map(len, answers.values())), total_cpu_s))
    return lambda each: answers[each.problem.id]


def _extracted(task: Task, each: Candidates) -> Sequence[str | None]:
    """The answers that a task extracts, of each distinct response once."""
    responses = list(zip(each.responses.texts, each.responses.finish, strict=True))
    distinct = list(dict.fromkeys(responses))
    extracted = answers_of(task, each.problem, [text for text, _ in distinct], [end for _, end in distinct])
    answers = dict(zip(distinct, extracted, strict=True))
    return [answers[response] for response in responses]


def _order(selector: Any, pool: Pool, verified: Sequence[int], k: int, rng: np.random.Generator) -> list[int]:
    """k indices of the pool, none of them verified, each checked when the selector gives it."""
    if verified and isinstance(selector, RanksAfter):
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
