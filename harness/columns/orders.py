"""Columns of orders and of choices: what a selector makes of a pool, and what one chosen answer is worth."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import ThreadpoolController

from harness.contracts import LearnsFromOutcomes, Ranker
from harness.errors import HarnessError
from harness.plugin_system.calls import needs, picked, subset_of
from harness.plugin_system.registry import RANK_S, is_own, named
from harness.records import Floats, Outcome, Pool, Problem

from .column import CACHES, LATER, Column, Out, Part, Todo
from .responses import responses_of, scores_of, seed_of
from .store import table
from .vectors import named_failure

KNOWN = {"correct": 1.0, "wrong": 0.0}  # the outcomes that a selector may learn from; an error is none


@dataclass(frozen=True)
class Orders(Column):
    """What a selector picks, trial by trial: the order up to a correct response, or a subset for each budget.

    A problem with too few correct responses has no rows: every order needs N+1 calls.

    n             how many of a problem's responses count; None: all
    unit          rows are divided by their length before they are centred
    correct       orders end at this correct response, the first, the second, ...
    enrichment    but not before 5 % of the pool, where a problem has any correct response at all
    rank_timeout  seconds for one problem, all trials together; None: no limit
    """

    kind: ClassVar[str] = "orders"

    selector: Part
    responses: Column
    verdicts: Column
    vectors: Column | None
    scores: Column | None
    n: int | None
    trials: int
    seed: int
    rank_timeout: float | None = field(default=None, compare=False)
    unit: bool = field(default=False, kw_only=True, metadata=LATER)
    correct: int = field(default=1, kw_only=True, metadata=LATER)
    enrichment: bool = field(default=False, kw_only=True, metadata=LATER)

    @property
    def verb(self) -> str:  # type: ignore[override]
        return f"rank {self.selector.spec}"

    @property
    def noun(self) -> str:  # type: ignore[override]
        return f"rankings of {self.selector.spec}"

    @property
    def here(self) -> bool:  # type: ignore[override]
        """Where the selector is an object of the caller's session."""
        return is_own(self.selector.spec)

    @property
    def learns(self) -> bool:
        """Whether it learns from the outcomes of its picks."""
        return isinstance(self.selector.built, LearnsFromOutcomes)

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        """Rank the pools, in one thread, so that sums, and hence orders, are the same in any process."""
        if self.rank_timeout is not None:
            return _in_time(replace(self, rank_timeout=None), todo, out, self.rank_timeout)
        from harness.scoring.metrics import SHARES, budgets, size_of  # scipy, which `harness select` does without

        selector, spec, learns = self.selector.built, self.selector.spec, self.learns
        import_libraries(selector)
        for each in todo:
            given, problem = each.given, each.problem
            pool = pool_of(given, self.n, f"pool {self.pool.key}, problem {problem.id!r}", self.unit)
            if "logprobs" in needs(selector) and np.isnan(pool.logprobs).any():
                raise HarnessError(f"selector {spec!r} needs log-probabilities, which the pool does not carry")
            status = given["verdicts"]["status"].to_pylist()[: self.n]
            c, picks = status.count("correct"), list[tuple[int, int, list[int]]]()  # trial, budget or 0, indices
            wanted = self.correct if c >= self.correct else 0
            least = size_of(max(SHARES), len(status)) if self.enrichment and c else 0
            with one_thread(spec), waiting_named(spec, problem):
                for trial in range(self.trials if wanted or least else 0):
                    rng = ranking_rng(self.seed, problem, trial)
                    with named_failure(f"selector {spec!r}", f"{problem.id!r}, trial {trial}"):
                        if not isinstance(selector, Ranker):
                            ks = budgets(len(pool))
                            each_rng = zip(ks, rng.spawn(len(ks)), strict=True)
                            picks += [(trial, k, subset_of(selector, pool, k, own)) for k, own in each_rng]
                            continue
                        if isinstance(selector, LearnsFromOutcomes):
                            ranking: Iterable[int] = learnt_order(selector, pool, status, self.seed, problem, trial)
                        else:
                            ranking = selector.rank(pool, rng)
                        picks.append((trial, 0, up_to_correct(ranking, status, wanted, least)))
                    if not (trial or learns) and _is_fresh(rng, ranking_rng(self.seed, problem, 0)):
                        # a ranker that used no random numbers gives the same in every trial
                        picks += [(other, 0, picks[0][2]) for other in range(1, self.trials)]
                        break
            columns = dict(zip(("trial", "k", "picks"), zip(*picks, strict=True), strict=True)) if picks else {}
            kind = "order" if isinstance(selector, Ranker) else "subset"
            # n is not the pool's length, which a selector may break
            out.keep(each, table(columns, {"kind": kind, "n": len(status), "trials": self.trials}))


START_S = 300.0  # to start a process, import and build the selector; the machine may be busy


def _in_time(orders: Orders, todo: Sequence[Todo], out: Out, seconds: float) -> None:
    """Rank in a child process, which is killed when it is late, and kept for the next problems if it is not."""
    from harness.system.children import end_limited, limited

    if end_limited not in CACHES:  # its process has built the selector
        CACHES.append(end_limited)
    make = functools.partial(orders.make, out=replace(out, column=orders))
    for each in todo:
        who = f"selector {orders.selector.spec!r}, problem {each.problem.id!r}"
        try:
            limited(_load, orders.selector, START_S)
            limited(make, [each], seconds)
        except TimeoutError:
            raise HarnessError(
                f"{who}: ranking took longer than {seconds:g} s and was ended (--rank-timeout)"
            ) from None
        except EOFError:
            raise HarnessError(f"{who}: the process that ranked it died (out of memory?)") from None


def _load(selector: Part) -> None:
    """All that takes time before the first ranking."""
    from harness.scoring import metrics  # noqa: F401

    import_libraries(selector.built)
    _threads(selector.spec)


def pool_of(given: Mapping[str, Any], n: int | None, where: str, unit: bool = False) -> Pool:
    """A problem's first n responses (None: all) as a selector sees them: with answers, without verdicts.

    given  kind -> the rows of the columns that the selector reads
    where  begins the HarnessError for rows that no selector can be given
    unit   as for `Orders`
    """
    responses = responses_of(given["responses"])
    size = len(responses) if n is None else n
    vectors = given["vectors"][:size] if "vectors" in given else np.zeros((size, 0), np.float32)
    answers = given["verdicts"]["answer"].to_pylist() if "verdicts" in given else [None] * len(responses)
    scores = {**responses.scores, **(scores_of(given["scores"]) if "scores" in given else {})}
    return checked_pool(
        where,
        texts=responses.texts[:size],
        **centred(vectors, unit),
        logprobs=responses.logprobs[:size],
        lengths=responses.lengths[:size],
        answers=answers[:size],
        scores={name: values[:size] for name, values in scores.items()},
    )


def checked_pool(where: str, **columns: Any) -> Pool:
    """A pool of these columns; if `Pool` refuses them, the error says where they are from."""
    try:
        return Pool(**columns)
    except HarnessError as failure:
        raise HarnessError(f"{where}: {failure}") from failure


def centred(vectors: Floats, unit: bool = False, centre: bool = True) -> dict[str, Any]:
    """The columns `embeddings` and `mean` of a pool: vectors (n, d) float32 minus their mean (computed in float64).

    unit  rows are divided by their length first, so that no row is far from the mean by its size alone: the other way
          round every row would have the same length, a usual one too. Zero rows stay.
    """
    if not vectors.size:
        return {"embeddings": vectors}
    if unit:
        length = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        vectors = (vectors / np.where(length, length, 1.0)).astype(np.float32)
    if not centre:
        return {"embeddings": vectors}
    mean = vectors.mean(axis=0, dtype=np.float64)
    return {"embeddings": (vectors - mean).astype(np.float32), "mean": mean.astype(np.float32)}


def ranking_rng(seed: int, problem: Problem, trial: int) -> np.random.Generator:
    """The random stream of one trial of ranking a problem's pool; it does not depend on the selector."""
    return np.random.default_rng([seed_of("rank", seed, problem), trial])


def _is_fresh(rng: np.random.Generator, fresh: np.random.Generator) -> bool:
    """Whether no number was taken from the rng, and no other rng spawned."""
    states = [(each.bit_generator.state, each.bit_generator.seed_seq.n_children_spawned) for each in (rng, fresh)]  # type: ignore[attr-defined]
    return bool(states[0] == states[1])


def import_libraries(selector: Any) -> None:
    """Import the libraries that a selector names, so that `one_thread` limits their threads too."""
    for name in getattr(selector, "libraries", ()):
        importlib.import_module(name)


def one_thread(selector: str) -> AbstractContextManager[Any]:
    """A context that limits libraries to one thread, so that sums, and hence orders, are the same in any process."""
    limit: AbstractContextManager[Any] = _threads(selector).limit(limits=1)
    return limit


@functools.lru_cache(maxsize=8)
def _threads(selector: str) -> ThreadpoolController:
    return ThreadpoolController()  # finding the libraries' thread pools is slow: once for each selector


def waiting_named(selector: str, problem: Problem) -> AbstractContextManager[None]:
    """A context that prints on stderr which selector is ranking which problem, if this takes long."""
    return named(
        f"selector {selector!r}, problem {problem.id!r}: ranking (`harness run --rank-timeout` bounds it)", RANK_S
    )


def up_to_correct(ranking: Iterable[Any], status: Sequence[str], wanted: int = 1, least: int = 0) -> list[int]:
    """The indices of a ranking up to so many correct ones, and at least so many indices."""
    order: list[int] = []
    for index in picked(ranking, len(status)):
        order.append(index)
        wanted -= status[index] == "correct"
        if wanted <= 0 and len(order) >= least:
            return order
    raise HarnessError(f"the ranking ended after {len(order)} of {len(status)} responses")


def pick_after(
    selector: LearnsFromOutcomes, pool: Pool, outcomes: Sequence[Outcome], seed: int, problem: Problem, trial: int = 0
) -> int:
    """The selector's next pick, checked: an index of the pool that is not in `outcomes`."""
    rng = np.random.default_rng([seed_of("rank", seed, problem), trial, len(outcomes)])
    index = selector.pick_after(pool, tuple(outcomes), rng)
    *_, last = picked([*(outcome.index for outcome in outcomes), index], len(pool))
    return last


def learnt_order(
    selector: LearnsFromOutcomes, pool: Pool, status: Sequence[str], seed: int, problem: Problem, trial: int
) -> Iterator[int]:
    """Yield the picks of a selector that is told the outcomes of its own earlier picks, and no other."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(pool):
        index = pick_after(selector, pool, outcomes, seed, problem, trial)
        yield index
        outcomes.append(Outcome(index, KNOWN.get(status[index])))


@dataclass(frozen=True)
class Choices(Column):
    """What one answer chosen from k of a pool's responses is worth: maj@k, and best-of-k by each score.

    Exact expectations over all subsets, for k = 1, 2, 4, ..., n. Columns: k; maj if a response has an answer;
    best:SCORE for the pool's scores, a scorer's, and the mean log-probability of a token.
    """

    kind: ClassVar[str] = "choices"
    verb: ClassVar[str] = "choose one"

    name: ClassVar[str] = "by-k"

    responses: Column
    verdicts: Column
    scores: Column | None
    n: int | None

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        from harness.scoring.metrics import best_of_k, budgets, majority_at_k

        for each in todo:
            given = each.given
            responses, verdicts = given["responses"], given["verdicts"]
            answers = verdicts["answer"].to_pylist()[: self.n]
            correct = [status == "correct" for status in verdicts["status"].to_pylist()[: self.n]]
            per_token = responses["logprob"].to_numpy() / np.maximum(responses["length"].to_numpy(), 1)
            ratings = scores_of(responses) | {"mean-logprob": per_token}
            ratings = {name: values for name, values in ratings.items() if not np.isnan(values).all()}
            ratings |= scores_of(given["scores"]) if "scores" in given else {}
            ks = budgets(len(correct))
            columns: dict[str, Any] = {"k": ks}
            if any(answer is not None for answer in answers):
                columns["maj"] = majority_at_k(answers, correct, ks)
            for name, values in ratings.items():
                columns[f"best:{name}"] = best_of_k(values[: len(correct)], correct, ks)
            out.keep(each, table(columns))
