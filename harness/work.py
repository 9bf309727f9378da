"""What is done for one problem: grade its responses, rank them. Runs in this process or in a worker's.

A `Work` is plain data, so that any executor can send it; components are built from their specs where the work is done.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from . import store
from .component import build
from .contracts import Task
from .errors import HarnessError
from .metrics import budgets
from .records import Floats, Pool, Problem, Verdict, error
from .registry import Registry, load_registry
from .store import Stage


@dataclass(frozen=True)
class Work:
    """What a worker needs beside the problem: where the shards are, and how to build task and selector.

    `graded`: verdicts by what they depend on, shared by all pools of a store; `audits`: a second grader's.
    `n`: how many of a pool's responses count; None = all.
    """

    task: str | None
    data: str | None
    plugin_files: tuple[Path, ...]
    pool: Stage
    verdicts: Stage
    graded: Stage
    audits: Stage
    embeddings: Stage | None = None
    rankings: Stage | None = None
    selector: str = ""
    n: int | None = None
    trials: int = 1
    seed: int = 0


@functools.cache
def _registry(plugin_files: tuple[Path, ...]) -> Registry:
    return load_registry(plugin_files)


@functools.lru_cache(maxsize=8)
def _component(kind: str, spec: str, plugin_files: tuple[Path, ...], context: tuple[tuple[str, Any], ...]) -> Any:
    return build(_registry(plugin_files), kind, spec, **dict(context))


def forget_components() -> None:
    """Build anew what is asked for next: a plugin may have been installed or edited since the last run."""
    _registry.cache_clear()
    _component.cache_clear()


@functools.lru_cache(maxsize=8)
def _threads(selector: str) -> ThreadpoolController:
    """The thread pools of all libraries loaded so far; asked once the selector's own are (finding them takes long)."""
    return ThreadpoolController()


def problem_seed(purpose: str, seed: int, problem: Problem) -> int:
    """A 64-bit seed of a problem's own, other for every purpose; never depends on a selector."""
    return int(store.digest([purpose, seed, problem.id], 16), 16)


# Verify.


def grade_problem(work: Work, problem: Problem) -> None:
    """Grade one problem's responses and extract their answers; keep both, and what other pools can use of them."""
    task = _task(work)
    texts = store.read_responses(work.pool, problem).texts
    known = store.read_graded(work.graded, problem)
    before = len(known)
    verdicts, answers = graded(task, problem, texts, known)
    if len(known) > before:
        store.write_graded(work.graded, problem, known)
    store.write_verdicts(work.verdicts, problem, verdicts, answers, task.conditions())


def audit_problem(work: Work, problem: Problem) -> None:
    """Ask the task's second grader about one problem's responses; keep what it says."""
    task = _task(work)
    texts = store.read_responses(work.pool, problem).texts
    said = {text: task.audit(problem, text) for text in dict.fromkeys(texts)}
    store.write_audit(work.audits, problem, [said[text] for text in texts])


def _task(work: Work) -> Task:
    task: Task = _component("task", work.task or "", work.plugin_files, (("data", work.data),))
    return task


def graded(
    task: Task, problem: Problem, texts: Sequence[str], known: dict[str, Verdict] | None = None
) -> tuple[list[Verdict], list[str | None]]:
    """The verdict on each text and its canonical answer; a verifier that raises gives `error`, never `wrong`.

    One text is graded of those that are equal or have equal verdict keys, and none where `known` (the hash of a key ->
    verdict) has the verdict; verdicts found are added to it, errors excepted: they are no property of the response.
    """
    known = {} if known is None else known
    distinct = list(dict.fromkeys(texts))
    answers = dict(zip(distinct, _answers(task, problem, distinct), strict=True))
    hashes = {text: _key_hash(task, problem, text, answers[text]) for text in distinct}
    first: dict[str, str] = {}
    for text, hashed in hashes.items():
        if hashed and hashed not in known:
            first.setdefault(hashed, text)
    todo = [text for text, hashed in hashes.items() if not hashed or first.get(hashed) == text]
    fresh = dict(zip(todo, _verdicts(task, problem, todo), strict=True))
    known.update({hashed: fresh[text] for hashed, text in first.items() if fresh[text].status != "error"})

    def verdict(text: str) -> Verdict:
        hashed = hashes[text]
        return known[hashed] if hashed in known else fresh[first[hashed] if hashed else text]

    return [verdict(text) for text in texts], [answers[text] for text in texts]


def _verdicts(task: Task, problem: Problem, texts: Sequence[str]) -> list[Verdict]:
    try:
        verdicts = list(task.verify_all(problem, texts)) if texts else []
    except HarnessError:  # what the user can mend: no verdict at all is better than an error for every response
        raise
    except Exception:
        verdicts = [_verdict(task, problem, text) for text in texts]
    if len(verdicts) != len(texts):
        raise HarnessError(f"task {type(task).__name__}: verify_all gave {len(verdicts)} verdicts for {len(texts)}")
    return verdicts


def _verdict(task: Task, problem: Problem, text: str) -> Verdict:
    try:
        return task.verify(problem, text)
    except HarnessError:
        raise
    except Exception as failure:
        return error(f"{type(failure).__name__}: {failure}")


def _key_hash(task: Task, problem: Problem, text: str, answer: str | None) -> str | None:
    try:
        key = task.verdict_key(problem, text, answer)
    except Exception:
        return None
    return None if key is None else store.digest(key, 32)


def _answers(task: Task, problem: Problem, texts: Sequence[str]) -> list[str | None]:
    try:
        answers = list(task.answers(problem, texts))
    except Exception:
        answers = []
    return answers if len(answers) == len(texts) else [answer_or_none(task, problem, text) for text in texts]


def answer_or_none(task: Task, problem: Problem, text: str) -> str | None:
    """The canonical answer; None where there is none or the extraction raises."""
    try:
        return task.answer(problem, text)
    except Exception:
        return None


# Rank.


def rank_problem(work: Work, problem: Problem) -> None:
    """Let the selector order one problem's pool, once a trial, as far as the first correct response; keep the orders.

    A pool without a correct response is not ranked: its samples-to-correct is N+1 whatever the order.
    """
    assert work.rankings is not None
    selector = _component("selector", work.selector, work.plugin_files, ())
    pool = load_pool(work, problem)
    if "logprobs" in getattr(selector, "needs", ()) and np.isnan(pool.logprobs).any():
        raise HarnessError(f"selector {work.selector!r} needs log-probabilities, which the pool does not carry")
    is_correct = [verdict == "correct" for verdict in store.read_verdicts(work.verdicts, problem)[: len(pool)]]
    draw = _pulled if hasattr(selector, "rank") else _subsets
    trials = []
    with _threads(work.selector).limit(limits=1):  # the same sums, hence the same order, in any process
        for trial in range(work.trials if any(is_correct) else 0):
            rng = np.random.default_rng([problem_seed("rank", work.seed, problem), trial])
            try:
                trials.append(draw(selector, pool, rng, is_correct))
            except Exception as failure:
                raise HarnessError(
                    f"selector {work.selector!r}, problem {problem.id!r}, trial {trial}: {_said(failure)}"
                ) from failure
    kind = "order" if draw is _pulled else "subset"
    store.write_json(work.rankings.path(problem), {"kind": kind, "n": len(pool), "trials": trials})


def load_pool(work: Work, problem: Problem) -> Pool:
    """One problem's pool as selectors see it: the first n responses, vectors centred over them."""
    responses = store.read_responses(work.pool, problem)
    n = len(responses) if work.n is None else work.n
    vectors = store.read_vectors(work.embeddings, problem)[:n] if work.embeddings else np.zeros((n, 0), np.float32)
    return Pool(
        texts=responses.texts[:n],
        embeddings=centred(vectors),
        logprobs=responses.logprobs[:n],
        lengths=responses.lengths[:n],
        answers=store.read_answers(work.verdicts, problem)[:n],
    )


def centred(vectors: Floats) -> Floats:
    """(n, d) float32 less its mean over the n responses (the mean taken in float64)."""
    return (vectors - vectors.mean(axis=0, dtype=np.float64)).astype(np.float32) if vectors.size else vectors


def _pulled(selector: Any, pool: Pool, rng: np.random.Generator, is_correct: Sequence[bool]) -> list[int]:
    """Indices as far as the first correct one; each checked as it comes."""
    order: list[int] = []
    seen: set[int] = set()
    for raw in selector.rank(pool, rng):
        index = _checked(raw, len(pool), seen)
        order.append(index)
        if is_correct[index]:
            return order
    raise HarnessError(f"the ranking ended after {len(order)} of {len(pool)} responses")


def _subsets(selector: Any, pool: Pool, rng: np.random.Generator, is_correct: Sequence[bool]) -> dict[str, list[int]]:
    """k -> the subset chosen for that budget, k = 1, 2, 4, ..., n."""
    chosen = {}
    for k, own_rng in zip(budgets(len(pool)), rng.spawn(len(budgets(len(pool)))), strict=True):
        seen: set[int] = set()
        subset = [_checked(raw, len(pool), seen) for raw in selector.select(pool, k, own_rng)]
        if len(subset) != k:
            raise HarnessError(f"select gave {len(subset)} indices for k = {k}")
        chosen[str(k)] = subset
    return chosen


def _checked(raw: Any, n: int, seen: set[int]) -> int:
    if not isinstance(raw, (int, np.integer)) or isinstance(raw, bool):
        raise HarnessError(f"an index must be an integer, got {raw!r:.40}")
    index = int(raw)
    if not 0 <= index < n:
        raise HarnessError(f"index {index} is outside the pool of {n}")
    if index in seen:
        raise HarnessError(f"index {index} was picked twice")
    seen.add(index)
    return index


def _said(failure: Exception) -> str:
    """What went wrong, and for foreign code the line where it did."""
    if isinstance(failure, HarnessError):
        return str(failure)
    frame = traceback.extract_tb(failure.__traceback__)[-1]
    return f"raised {type(failure).__name__}: {failure} ({Path(frame.filename).name}:{frame.lineno})"


# Executors hand the problems to these.


def over(work: Work, function: Callable[[Work, Problem], None]) -> Callable[[Problem], None]:
    """The function with its work bound: picklable, one argument."""
    return functools.partial(function, work)


def batches(problems: Sequence[Problem], size: int) -> Iterator[Sequence[Problem]]:
    """The problems in groups of `size`, in order."""
    for start in range(0, len(problems), size):
        yield problems[start : start + size]
