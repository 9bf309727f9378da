"""What is done for a problem, or a few at once: grade responses, rank them. Runs in this process or in a worker's.

A `Work` is plain data, so that any executor can send it; components are built from their specs where the work is done.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from harness.contracts import Embedder, Task
from harness.errors import HarnessError, contained, said
from harness.plugin_system.component import build
from harness.plugin_system.patience import RANK_S, named
from harness.plugin_system.registry import Registry, load_registry
from harness.records import Floats, Pool, Problem, Responses, Verdict, error
from harness.store import shards
from harness.store.shards import Stage

from . import finish as ending
from . import rank_process

Item = TypeVar("Item")
Ended: TypeAlias = tuple[str, str]  # a response and how it ended: "stop", "length", "" where that counts for nothing


@dataclass(frozen=True)
class Work:
    """What a worker needs beside the problem: where the shards are, and how to build task and selector.

    `graded`: verdicts by what they depend on, shared by all pools of a store; `audits`: a second grader's;
    `measured`: figures that the task judges by, where it does.
    `n`: how many of a pool's responses count; None = all. `rank_timeout`: seconds for one problem's ranking, all
    trials together; None = no bound.
    """

    task: str | None
    data: str | None
    plugin_files: tuple[Path, ...]
    pool: Stage
    verdicts: Stage
    graded: Stage
    audits: Stage
    measured: Stage | None = None
    embeddings: Stage | None = None
    rankings: Stage | None = None
    selector: str = ""
    n: int | None = None
    trials: int = 1
    seed: int = 0
    rank_timeout: float | None = None


@functools.cache
def _registry(plugin_files: tuple[Path, ...]) -> Registry:
    return load_registry(plugin_files)


@functools.lru_cache(maxsize=8)
def component(kind: str, spec: str, plugin_files: tuple[Path, ...], context: tuple[tuple[str, Any], ...] = ()) -> Any:
    """The component of that spec, built once in a process."""
    return build(_registry(plugin_files), kind, spec, **dict(context))


def forget_components() -> None:
    """Build anew what is asked for next: a plugin may have been installed or edited since the last run."""
    _registry.cache_clear()
    component.cache_clear()
    rank_process.forget()


@functools.lru_cache(maxsize=8)
def _threads(selector: str) -> ThreadpoolController:
    """The thread pools of all libraries loaded so far; asked once the selector's own are (finding them takes long)."""
    return ThreadpoolController()


def one_thread(selector: str) -> AbstractContextManager[Any]:
    """Rank in one thread: the same sums, hence the same order, in any process."""
    limit: AbstractContextManager[Any] = _threads(selector).limit(limits=1)
    return limit


def ranking_rng(seed: int, problem: Problem, trial: int) -> np.random.Generator:
    """The stream that a trial of ranking a problem's pool draws from; never depends on a selector."""
    return np.random.default_rng([problem_seed("rank", seed, problem), trial])


def problem_seed(purpose: str, seed: int, problem: Problem) -> int:
    """A 64-bit seed of a problem's own, other for every purpose; never depends on a selector."""
    return int(shards.digest([purpose, seed, problem.id], 16), 16)


# Verify.


def grade_problems(work: Work, problems: Sequence[Problem]) -> None:
    """Grade some problems' responses and extract their answers; keep both, and what other pools can use of them."""
    for problem in problems:
        _grade(work, _task(work), problem)


def _grade(work: Work, task: Task, problem: Problem) -> None:
    responses = shards.read_responses(work.pool, problem)
    if work.measured:
        figures = shards.read_figures(work.measured, problem)
        verdicts, answers = judged(task, problem, responses, figures)
        shards.write_verdicts(work.verdicts, problem, verdicts, answers, task.conditions())
        return
    known = shards.read_graded(work.graded, problem)
    before = len(known)
    verdicts, answers = graded(task, problem, responses.texts, known, responses.finish)
    if len(known) > before:
        shards.write_graded(work.graded, problem, known)
    shards.write_verdicts(work.verdicts, problem, verdicts, answers, task.conditions())


def judged(
    task: Task, problem: Problem, responses: Responses, figures: Mapping[str, Mapping[str, float]]
) -> tuple[list[Verdict], list[str | None]]:
    """The verdict on each text by its figures (a text's hash -> them) and its answer; `error` where none can be."""
    verdicts: list[Verdict] = []
    for text in responses.texts:
        try:
            with contained():
                verdicts.append(task.judge(problem, text, figures.get(shards.text_hash(text), {})))
        except Exception as failure:
            verdicts.append(error(f"{type(failure).__name__}: {failure}"))
    return verdicts, answers_of(task, problem, responses.texts, responses.finish)


def audit_problems(work: Work, problems: Sequence[Problem]) -> None:
    """Ask the task's second grader about some problems' responses; keep what it says."""
    task = _task(work)
    for problem in problems:
        pool = shards.read_responses(work.pool, problem)
        responses = _ended(task, pool.texts, pool.finish)
        distinct = dict.fromkeys(responses)
        verdicts = {one: task.audit(problem, one[0], **ending.keyword(task, "audit", one[1])) for one in distinct}
        shards.write_audit(work.audits, problem, [verdicts[one] for one in responses])


def _task(work: Work) -> Task:
    task: Task = component("task", work.task or "", work.plugin_files, (("data", work.data),))
    return task


def graded(
    task: Task,
    problem: Problem,
    texts: Sequence[str],
    known: dict[str, Verdict] | None = None,
    finish: Sequence[str] | None = None,
) -> tuple[list[Verdict], list[str | None]]:
    """The verdict on each text and its canonical answer; a verifier that raises gives `error`, never `wrong`.

    One response is graded of those that are equal or have equal verdict keys, and none where `known` (the hash of a key
    -> verdict) has the verdict; verdicts found are added to it, errors excepted: they are no property of the response.
    `finish`: how each ended, for a task that reads it; None: unknown.
    """
    known = {} if known is None else known
    every = _ended(task, texts, finish)
    distinct = list(dict.fromkeys(every))
    answers = dict(zip(distinct, answers_of(task, problem, *_columns(distinct)), strict=True))
    hashes = {one: _key_hash(task, problem, one, answers[one]) for one in distinct}
    first: dict[str, Ended] = {}
    for one, hashed in hashes.items():
        if hashed and hashed not in known:
            first.setdefault(hashed, one)
    todo = [one for one, hashed in hashes.items() if not hashed or first.get(hashed) == one]
    fresh = dict(zip(todo, _verdicts(task, problem, todo), strict=True))
    known.update({hashed: fresh[one] for hashed, one in first.items() if fresh[one].status != "error"})

    def verdict(one: Ended) -> Verdict:
        hashed = hashes[one]
        return known[hashed] if hashed in known else fresh[first[hashed] if hashed else one]

    return [verdict(one) for one in every], [answers[one] for one in every]


def _ended(task: Task, texts: Sequence[str], finish: Sequence[str] | None) -> list[Ended]:
    """Each text with how it ended: "" where the task does not read that, or nobody knows it."""
    ends = finish if finish is not None and ending.reads_finish(task) else [""] * len(texts)
    return list(zip(texts, ends, strict=True))


def _columns(responses: Sequence[Ended]) -> tuple[list[str], list[str]]:
    """The texts, and how they ended."""
    return [text for text, _ in responses], [finish for _, finish in responses]


def _verdicts(task: Task, problem: Problem, responses: Sequence[Ended]) -> list[Verdict]:
    texts, finish = _columns(responses)
    try:
        with contained():
            verdicts = ending.verify_all(task, problem, texts, finish) if texts else []
    except HarnessError:  # what the user can mend: no verdict at all is better than an error for every response
        raise
    except Exception:
        verdicts = [_verdict(task, problem, one) for one in responses]
    if len(verdicts) != len(texts):
        raise HarnessError(f"task {type(task).__name__}: verify_all gave {len(verdicts)} verdicts for {len(texts)}")
    return verdicts


def _verdict(task: Task, problem: Problem, response: Ended) -> Verdict:
    text, finish = response
    try:
        with contained():
            return task.verify(problem, text, **ending.keyword(task, "verify", finish))
    except HarnessError:
        raise
    except Exception as failure:
        return error(f"{type(failure).__name__}: {failure}")


def _key_hash(task: Task, problem: Problem, response: Ended, answer: str | None) -> str | None:
    text, finish = response
    try:
        with contained():
            key = task.verdict_key(problem, text, answer, **ending.keyword(task, "verdict_key", finish))
    except Exception:
        return None
    return None if key is None else shards.digest(key, 32)


def answers_of(
    task: Task, problem: Problem, texts: Sequence[str], finish: Sequence[str] | None = None
) -> list[str | None]:
    """The canonical answers; None where there is none or the extraction raises. `finish` as in `graded`."""
    ends = _columns(_ended(task, texts, finish))[1]
    try:
        with contained():
            answers = ending.answers(task, problem, texts, ends)
    except Exception:
        answers = []
    if len(answers) == len(texts):
        return answers
    return [answer_or_none(task, problem, text, end) for text, end in zip(texts, ends, strict=True)]


def answer_or_none(task: Task, problem: Problem, text: str, finish: str = "") -> str | None:
    """The canonical answer; None where there is none or the extraction raises."""
    try:
        with contained():
            return task.answer(problem, text, **ending.keyword(task, "answer", finish))
    except Exception:
        return None


# Rank.


def rank_problems(work: Work, problems: Sequence[Problem]) -> None:
    """Let the selector order some problems' pools, once a trial, as far as the first correct response; keep the orders.

    They are ranked all at once where the selector has `rank_many`, else one after the other. A pool without a correct
    response is not ranked: its samples-to-correct is N+1 whatever the order. With a `rank_timeout` all of it is done in
    a child process, which is killed when it is late.
    """
    assert work.rankings is not None
    if work.rank_timeout is not None:
        return rank_process.rank(work, problems)
    selector = component("selector", work.selector, work.plugin_files)
    found = [_Ranked(problem, load_pool(work, problem), _is_correct(work, problem)) for problem in problems]
    if "logprobs" in getattr(selector, "needs", ()) and any(np.isnan(one.pool.logprobs).any() for one in found):
        raise HarnessError(f"selector {work.selector!r} needs log-probabilities, which the pool does not carry")
    solvable = [one for one in found if any(one.is_correct)]
    with one_thread(work.selector):
        for one, orders in zip(solvable, _together(work, selector, solvable), strict=True):
            one.trials.extend(_trials(work, selector, one, orders))
    kind = "order" if hasattr(selector, "rank") else "subset"
    for one in found:
        result = {"kind": kind, "n": len(one.pool), "trials": one.trials}
        shards.write_record(work.rankings.path(one.problem), result)


@dataclass(frozen=True)
class _Ranked:
    """A problem being ranked; per trial an order as far as the first correct response, or a subset a budget."""

    problem: Problem
    pool: Pool
    is_correct: Sequence[bool]
    trials: list[Any] = field(default_factory=list)


def _is_correct(work: Work, problem: Problem) -> list[bool]:
    return [verdict == "correct" for verdict in shards.read_verdicts(work.verdicts, problem)[: work.n]]


def _together(work: Work, selector: Any, found: Sequence[_Ranked]) -> list[Any]:
    """Per problem an iterator for each trial, from a selector that ranks many pools at once; None from any other."""
    if getattr(selector, "many", 1) <= 1 or not found:
        return [None] * len(found)
    rngs = [[ranking_rng(work.seed, one.problem, trial) for trial in range(work.trials)] for one in found]
    try:
        with contained(), ranking_named(work.selector, found[0].problem):
            return list(selector.rank_many([one.pool for one in found], rngs))
    except Exception as failure:
        names = ", ".join(repr(one.problem.id) for one in found[:3])
        raise HarnessError(f"selector {work.selector!r}, problems {names}, ...: {said(failure)}") from failure


def _trials(work: Work, selector: Any, one: _Ranked, orders: Sequence[Iterator[Any]] | None) -> list[Any]:
    """What each trial gives. A ranker that drew nothing from its rng would give the same in every trial."""
    found: list[Any] = []
    with ranking_named(work.selector, one.problem):
        for trial in range(work.trials):
            rng = ranking_rng(work.seed, one.problem, trial)
            try:
                with contained():
                    found.append(_trial(selector, one, rng, orders[trial] if orders else None))
            except Exception as failure:
                raise HarnessError(
                    f"selector {work.selector!r}, problem {one.problem.id!r}, trial {trial}: {said(failure)}"
                ) from failure
            if not orders and hasattr(selector, "rank") and _is_unused(rng, ranking_rng(work.seed, one.problem, trial)):
                return found * work.trials
    return found


def _trial(selector: Any, one: _Ranked, rng: np.random.Generator, order: Iterator[Any] | None) -> Any:
    if not hasattr(selector, "rank"):
        return _subsets(selector, one.pool, rng)
    return _pulled(selector.rank(one.pool, rng) if order is None else order, one.is_correct)


def ranking_named(selector: str, problem: Problem) -> AbstractContextManager[None]:
    """Say on stderr which selector is ranking which problem, where it takes long."""
    return named(
        f"selector {selector!r}, problem {problem.id!r}: ranking (`harness run --rank-timeout` bounds it)", RANK_S
    )


def _is_unused(rng: np.random.Generator, fresh: np.random.Generator) -> bool:
    """Whether nothing was drawn from the rng, and no other made from it."""
    streams = [(one.bit_generator.state, one.bit_generator.seed_seq.n_children_spawned) for one in (rng, fresh)]  # type: ignore[attr-defined]
    return bool(streams[0] == streams[1])


def load_pool(work: Work, problem: Problem) -> Pool:
    """One problem's pool as selectors see it: the first n responses, vectors centred over them."""
    responses = shards.read_responses(work.pool, problem)
    n = len(responses) if work.n is None else work.n
    vectors = np.zeros((n, 0), np.float32)
    if work.embeddings:
        every = shards.read_vectors(work.embeddings, problem)
        shards.require_rows(work.embeddings.path(problem), len(every), len(responses))
        vectors = every[:n]
    answers = shards.read_answers(work.verdicts, problem)
    shards.require_rows(work.verdicts.path(problem), len(answers), len(responses))
    return pool_of(
        f"{_giver(work)}, problem {problem.id!r}",
        texts=responses.texts[:n],
        embeddings=centred(vectors),
        logprobs=responses.logprobs[:n],
        lengths=responses.lengths[:n],
        answers=answers[:n],
    )


def _giver(work: Work) -> str:
    """Whose responses and vectors a pool has, for a message."""
    embedder = work.embeddings.inputs.get("embedder", {}).get("name", "given vectors") if work.embeddings else "none"
    return f"pool {work.pool.key}, embedder {embedder}"


def pool_of(giver: str, **columns: Any) -> Pool:
    """A pool of columns; where they are refused, the line names who gave them."""
    try:
        return Pool(**columns)
    except HarnessError as failure:
        raise HarnessError(f"{giver}: {failure}") from failure


def embedded(embedder: Embedder, spec: str, problem: Problem, texts: Sequence[str]) -> Any:
    """The embedder's vectors of texts, (n, d) dense or scipy-sparse; HarnessError where they are no such numbers.

    What is like an array (lists, tensors, frames) is made one.
    """
    try:
        with contained():
            vectors = embedder.embed(problem, texts)
    except HarnessError:
        raise
    except Exception as failure:
        raise HarnessError(f"embedder {spec!r}, problem {problem.id!r}: {said(failure)}") from failure
    if not hasattr(vectors, "toarray"):
        try:
            vectors = np.asarray(vectors)
        except (ValueError, TypeError, RuntimeError) as failure:
            raise HarnessError(f"embedder {spec!r}: gave no (n, d) array of numbers ({failure})") from failure
    if vectors.dtype.kind not in "fiub":
        raise HarnessError(
            f"embedder {spec!r}: gave {type(vectors).__name__} of {vectors.dtype}, expected (n, d) numbers"
        )
    if len(vectors.shape) != 2 or vectors.shape[0] != len(texts):
        raise HarnessError(f"embedder {spec!r}: gave shape {vectors.shape} for {len(texts)} responses")
    return vectors


def centred(vectors: Floats) -> Floats:
    """(n, d) float32 less its mean over the n responses (the mean taken in float64)."""
    return (vectors - vectors.mean(axis=0, dtype=np.float64)).astype(np.float32) if vectors.size else vectors


def pulled(ranking: Iterable[Any], n: int) -> Iterator[int]:
    """The indices of a ranking of n responses, each checked as it comes."""
    seen: set[int] = set()
    for raw in ranking:
        yield checked(raw, n, seen)


def _pulled(ranking: Iterable[Any], is_correct: Sequence[bool]) -> list[int]:
    """Indices as far as the first correct one."""
    order: list[int] = []
    for index in pulled(ranking, len(is_correct)):
        order.append(index)
        if is_correct[index]:
            return order
    raise HarnessError(f"the ranking ended after {len(order)} of {len(is_correct)} responses")


def _subsets(selector: Any, pool: Pool, rng: np.random.Generator) -> dict[str, list[int]]:
    """k -> the subset chosen for that budget, k = 1, 2, 4, ..., n."""
    from harness.scoring.metrics import budgets  # scipy.stats, which `harness select` does without

    rngs = rng.spawn(len(budgets(len(pool))))
    return {str(k): subset_of(selector, pool, k, own_rng) for k, own_rng in zip(budgets(len(pool)), rngs, strict=True)}


def subset_of(selector: Any, pool: Pool, k: int, rng: np.random.Generator) -> list[int]:
    """The k indices that a subset method chooses, each checked."""
    subset = list(pulled(selector.select(pool, k, rng), len(pool)))
    if len(subset) != k:
        raise HarnessError(f"select gave {len(subset)} indices for k = {k}")
    return subset


def checked(raw: Any, n: int, seen: set[int]) -> int:
    """The index that a selector gave, where it is one of n and new; it is then among those `seen`."""
    if not isinstance(raw, (int, np.integer)) or isinstance(raw, bool):
        raise HarnessError(f"an index must be an integer, got {raw!r:.40}")
    index = int(raw)
    if not 0 <= index < n:
        raise HarnessError(f"index {index} is outside the pool of {n}")
    if index in seen:
        raise HarnessError(f"index {index} was picked twice")
    seen.add(index)
    return index


# Executors hand the problems to these.


def over(work: Work, function: Callable[[Work, Any], None]) -> Callable[[Any], None]:
    """The function with its work bound: picklable, one argument."""
    return functools.partial(function, work)


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items in groups of `size`, in order."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
