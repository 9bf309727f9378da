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
from typing import Any, TypeAlias

import numpy as np

from harness.columns.column import Column
from harness.columns.orders import centred, checked_pool, import_libraries, one_thread, ranking_rng, waiting_named
from harness.columns.responses import scores_of
from harness.columns.vectors import embedded, named_failure, project, projection_of
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
from .plan import Plan, joined_file, make_context, make_plan, pool_embedder, require_libraries
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

    Problem id -> vectors (n, d), texts, the indices of responses verified before, scores (n numbers, or n by name), or
    the names of the n responses ("" -> those of the only problem).
    """

    vectors: Mapping[str, Any] | None = None
    texts: Mapping[str, Sequence[str]] | None = None
    verified: Mapping[str, Sequence[int]] | None = None
    scores: Mapping[str, Any] | None = None
    names: Mapping[str, Any] | None = None


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


def select(request: SelectConfig, progress: Progress, held: Held | None = None) -> list[Chosen]:
    """Choose k responses of every problem; return one `Chosen` per problem, in the order given.

    HarnessError as `opened_pools`, and if the selector fails for a problem.
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
def opened_pools(
    request: SelectConfig, progress: Progress, held: Held | None = None, called: str | None = None
) -> Iterator[Opened]:
    """The pools of a request, read, with their vectors where the selector reads any; in use until the block ends.

    called  what a problem that is alone is called, whatever its file says; None: as the file says

    HarnessError if the request cannot be carried out, where possible before any vector is computed.
    """
    with ExitStack() as in_use:
        yield Opened(request, progress, held or Held(), in_use, called)


class Opened:
    """The problems of a request, checked, and its selector; `pool` gives what the selector sees of a problem.

    in_use  what ends with the request: the store is in use from the moment that something is made
    """

    def __init__(
        self, request: SelectConfig, progress: Progress, held: Held, in_use: ExitStack, called: str | None = None
    ) -> None:
        self.request, self.progress, self.held, self._in_use = request, progress, held, in_use
        self.context = make_context(request.run_config, progress)
        spec, self.selector = request.selector, self.context.part("selector", request.selector).built
        self.needs = needs(require_selector(spec, self.selector))
        require_libraries({f"selector {spec}": self.selector})
        import_libraries(self.selector)
        path = request.embeddings
        self.given = GivenVectors(path, max_gb=request.max_vectors_gb, held=held.vectors) if path else None
        self._check_reads()
        problems = [(self._named(problem, len(responses)), responses) for problem, responses in self._problems()]
        self._own_ids = {problem.id: problem.id for problem, _ in problems}
        if called and len(problems) == 1:
            [(problem, responses)] = problems
            meta = {"line": problem.id, **problem.meta}
            problems, self._own_ids = [(replace(problem, id=called, meta=meta), responses)], {called: problem.id}
        sizes = {problem.id: len(responses) for problem, responses in problems}
        if self.given:
            self.given.lines = {problem.id: problem.meta.get("line", problem.id) for problem, _ in problems}
        known = (
            read_verified(request.verified, sizes) if request.verified else check_verified(held.verified or {}, sizes)
        )
        self.candidates = [Candidates(problem, responses, known.get(problem.id, ())) for problem, responses in problems]
        for each in self.candidates:
            n, verified, k = len(each.responses), len(each.verified), request.at_least
            who = f"{request.command}: problem {each.problem.id!r}"
            if n and verified == n:
                raise HarnessError(f"{who}: all {n} responses are verified, none is left")
            if k > n - verified:
                left = f" left, since {verified} of {n} are verified" if verified else ""
                raise HarnessError(
                    f"{who} has {n - verified} response{'s' * (n - verified != 1)}{left}: -k {k} is more"
                )
            if "logprobs" in self.needs and np.isnan(each.responses.logprobs).any():
                raise HarnessError(f"selector {spec!r} needs log-probabilities, which the pool does not carry")
        self._scores, self._vectors, self._answers = self._score(), self._embed(), self._answer()

    def pool(self, each: Candidates) -> Pool:
        """What the selector sees of a problem."""
        rows = np.ascontiguousarray(self._vectors(each))  # as a run reads them: another layout sums in another order
        return checked_pool(
            f"{self.request.pool or self.request.embeddings}, problem {each.problem.id!r}",
            texts=each.responses.texts,
            **centred(rows, self.request.unit, self.request.centre),
            logprobs=each.responses.logprobs,
            lengths=each.responses.lengths,
            answers=self._answers(each),
            scores=self._scores(each),
        )

    def _problems(self) -> Iterable[tuple[Problem, Responses]]:
        """The problems with their responses: those in memory, else those of the pool file, else rows of vectors.

        The names that a pool file gives the responses and the problem stand in `problem.meta`, as "names" and "line".
        """
        if self.held.texts is not None:
            for name, texts in self.held.texts.items():
                yield Problem(name, ""), PoolRecord(name, list(texts)).as_responses()
        elif self.request.pool or self.given is None:
            joined = joined_file(self.context)[2]
            for record, problem in joined:
                meta = {**problem.meta, "names": record.names, "line": record.problem_id}
                yield replace(problem, meta=meta), record.as_responses()
            for line in remarks(joined.index()):
                self.progress.say(line)
        else:
            if not self.given.names:
                raise HarnessError(f"embeddings {self.given.path}: holds no arrays, one (n, d) array per problem id")
            for name in self.given.names:  # each row is a response without a text
                n = self.given.get(name).shape[0]
                nothing = Responses([""] * n, ["stop"] * n, np.zeros(n, np.int64), np.full(n, np.nan))
                yield Problem(name, "", meta={"names": self.given.row_names(name)}), nothing

    def _named(self, problem: Problem, n: int) -> Problem:
        """The problem with the names that the caller gives its responses, else those of the file; checked."""
        names = problem.meta.get("names", ())
        if self.given and not any(names):
            names = self.given.row_names(problem.meta.get("line", problem.id))
        if self.held.names is not None:
            names = list(self.held.names.get(problem.id, ()) or self.held.names.get("", ()))
            if not all(isinstance(name, str) for name in names):
                wrong = next(name for name in names if not isinstance(name, str))
                raise HarnessError(f"{self.request.command}: names must be texts, got {wrong!r:.60}")
        if len(names) not in (0, n):
            raise HarnessError(
                f"{self.request.command}: problem {problem.id!r:.80} has {n} responses, and {len(names)} names"
            )
        return replace(problem, meta={**problem.meta, "names": names})

    def _check_reads(self) -> None:
        """HarnessError for a selector that reads columns which the request does not give."""
        request, reads = self.request, getattr(self.selector, "reads", ())
        if "texts" in reads and not request.pool:
            raise HarnessError(f"selector {request.selector!r} reads texts: give --pool beside --embeddings")
        if "answers" in reads and not request.task:
            raise HarnessError(
                f"selector {request.selector!r} reads canonical answers, which a task extracts: say which --task"
                + (" (and give --pool)" if not request.pool else "")
            )
        remark = self.context.task.check() if request.task and "answers" in reads else ""  # it may need the sandbox
        if remark:
            self.progress.say(remark)

    @functools.cached_property
    def _plan(self) -> Plan:
        """That of a run over the same pool, for what a model makes of it; the store is in use from then on."""
        plan = make_plan(self.request.run_config, Progress(quiet=True), with_verdicts=False)  # what joined was shown
        self._in_use.enter_context(plan.store.used())
        return replace(plan, progress=self.progress)

    def _made(self, column: Column | None, outlook: Outlook) -> Reader:
        """Make a column of the request's pool, after a question if that is long; return what reads a problem's rows."""
        plan = self._plan
        assert column is not None
        if plan.all_weights:
            self.progress.say(weights_remark(plan.all_weights))
        require_consent("select", outlook, self.progress, "a smaller --pool makes it shorter")
        plan.maker.make([column], plan.questions)
        questions = {question.problem.id: question for question in plan.questions}
        return lambda each: plan.store.rows(column, questions[self._own_ids[each.problem.id]])

    def _embed(self) -> Reader:
        """A function that gives one problem's vectors, (n, d) float32, projected if wider than `dim`, not centred."""
        request, given = self.request, self.given
        if "embeddings" not in self.needs:
            if request.embedder or request.model or (given and request.pool):
                self.progress.say(f"selector {request.selector!r} reads no vectors: none are made")
            return lambda each: np.zeros((len(each.responses), 0), np.float32)
        if given:
            return lambda each: project(
                given.get(each.problem.id, len(each.responses)),
                request.dim,
                request.seed,
                f"embeddings {given.path}: {each.problem.id!r}",
            )
        spec = pool_embedder(self.context.config, self.progress)
        embedder = self.context.part("embedder", spec).built
        require_libraries({f"embedder {spec}": embedder})
        if not embedder.state and request.model:
            raise HarnessError(f"embedder {spec!r} takes no --model: leave it out, or take --embedder hidden-mean")
        if embedder.state and not request.model:
            raise HarnessError(
                f"embedder {spec!r} takes a model's hidden states: say which --model (a hub id or folder), or take "
                "--embedder tfidf, which needs none"
            )
        blank = [each.problem.id for each in self.candidates if not each.problem.prompt.strip()]
        if embedder.state and blank and not request.task:
            raise HarnessError(
                f"embedder {spec!r} reads the prompt before each response, and problem {blank[0]!r} has none: add "
                "`prompt` to the pool's lines, or say which --task"
            )
        if self.held.texts is None and (embedder.state or "model" in parameters(embedder)):
            return self._made(self._plan.vectors, encoding(self._plan)[0])
        return lambda each: project(
            embedded(embedder, spec, each.problem, each.responses.texts),
            *projection_of(embedder, request.dim, request.seed),
            f"embedder {spec!r}, problem {each.problem.id!r}",
        )

    def _score(self) -> Reader:
        """What gives a problem's scores: those of the pool file, of the caller and of the scorer of the request."""
        spec, given, reads, rows = self.request.selector, self.held.scores or {}, "scores" in self.needs, None
        if unknown := set(given) - {each.problem.id for each in self.candidates}:
            raise HarnessError(f"select: scores of {min(unknown)!r}, which is none of the problems")
        own = {each.problem.id: _numbers(given.get(each.problem.id), each) for each in self.candidates}
        if self.request.scorer and not reads:
            self.progress.say(f"selector {spec!r} reads no scores: none are made")
        elif self.request.scorer:
            rows = self._made(self._plan.scores, scoring(self._plan))
        elif reads:
            for each in self.candidates:
                if not each.responses.scores and not own[each.problem.id]:
                    raise HarnessError(
                        f"selector {spec!r} reads scores, and problem {each.problem.id!r} has none: give `scores` in "
                        "the pool file, or a --scorer (docs/pools.md)"
                    )
        return lambda each: {
            **each.responses.scores,
            **own[each.problem.id],
            **(scores_of(rows(each)) if rows else {}),
        }

    def _answer(self) -> Reader:
        """A function that gives a problem's canonical answers if there is a task and the selector reads them.

        Answers that cost a run of each response are made here and kept in the store, with a line on their cost.
        """
        context, task, part = self.context, self.context.task, self.context.part_of_task
        if part is None or "answers" not in getattr(self.selector, "reads", ("answers",)):
            return lambda each: [None] * len(each.responses)
        if not runs_answers(task):
            return lambda each: answers_of(task, each.problem, each.responses.texts, each.responses.finish)
        made = {}
        with context.store.used(), self.progress.stage("answers", len(self.candidates), "problems") as bar:
            for each in self.candidates:
                made[each.problem.id] = ran_answers(part, each.problem, each.responses, context.store.root)
                bar.advance()
        from harness.results.rows import answers_line  # scipy, which `harness select` does without

        count, total_cpu_s = sum(len(answers) for answers, _ in made.values()), sum(cpu_s for _, cpu_s in made.values())
        self.progress.say(answers_line(count, total_cpu_s))
        return lambda each: made[each.problem.id][0]


Reader: TypeAlias = Callable[[Candidates], Any]  # what gives a problem's vectors, scores or answers


def _numbers(given: Any, each: Candidates) -> dict[str, Floats]:
    """Scores that the caller holds, n numbers or n by name, as arrays (n,) by name."""
    named = given if given is None or isinstance(given, Mapping) else {"score": given}
    columns = named and {
        name: column.tolist() if hasattr(column, "tolist") else list(column) if isinstance(column, Sequence) else column
        for name, column in named.items()
    }
    scores = scores_in(columns, len(each.responses), f"select: problem {each.problem.id!r}")
    return {name: np.array(column, np.float64) for name, column in scores.items()}


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
