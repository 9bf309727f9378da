"""Rank: a selector orders problems' pools, once per trial. Runs in this process or in a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.contracts import LearnsFromOutcomes, Ranker, RanksMany, Selector, SubsetSelector
from harness.errors import HarnessError, contained, error_text
from harness.plugin_system.picks import needs, picked, subset_of
from harness.plugin_system.registry import RANK_S, named
from harness.records import Floats, Pool, Problem
from harness.store import shards
from harness.store.json_files import write_record

from . import rank_process
from .learning import learnt_order
from .response_scores import read_scores
from .work import Work, component, import_libraries, one_thread, ranking_rng


def rank_problems(work: Work, problems: Sequence[Problem]) -> None:
    """Rank some problems' pools with the selector, for each trial, and write the results into the store.

    The result of a trial is the order up to the first correct response, or from a subset method one subset for each
    budget. The pools are ranked together if the selector has `rank_many` and its `many` is above 1, else one after the
    other. A selector that learns gets the outcome of each of its picks after that pick. A pool without a correct
    response is not ranked: its samples-to-correct is N+1 for every order. With a `rank_timeout` this is done in a child
    process, which is killed if it takes longer.
    """
    assert work.rankings is not None
    if work.rank_timeout is not None:
        return rank_process.call(rank_problems, work, problems)
    selector: Selector = component("selector", work.selector, work.plugin_files)
    import_libraries(selector)
    pools = [_Ranked(problem, load_pool(work, problem), _verdicts(work, problem)) for problem in problems]
    if "logprobs" in needs(selector) and any(np.isnan(each.pool.logprobs).any() for each in pools):
        raise HarnessError(f"selector {work.selector!r} needs log-probabilities, which the pool does not carry")
    solvable = [each for each in pools if any(each.is_correct)]
    with one_thread(work.selector):
        for each, orders in zip(solvable, _together(work, selector, solvable), strict=True):
            each.trials.extend(_trials(work, selector, each, orders))
    kind = "order" if isinstance(selector, Ranker) else "subset"
    for each in pools:
        result = {"kind": kind, "n": len(each.verdicts), "trials": each.trials}  # a selector may break its pool
        write_record(work.rankings.path(each.problem), result)


@dataclass(frozen=True)
class _Ranked:
    """A problem, and its rankings: per trial an order up to the first correct response, or a subset for each budget."""

    problem: Problem
    pool: Pool
    verdicts: Sequence[str]
    trials: list[Any] = field(default_factory=list)

    @property
    def is_correct(self) -> list[bool]:
        return [verdict == "correct" for verdict in self.verdicts]


def _verdicts(work: Work, problem: Problem) -> Sequence[str]:
    return shards.read_verdicts(work.verdicts.path(problem))[: work.n]


def how_many(selector: Selector) -> int:
    """The number of pools that the selector prefers to rank together; 1 for a selector without `rank_many`."""
    return selector.many if isinstance(selector, RanksMany) else 1


def _together(work: Work, selector: Selector, pools: Sequence[_Ranked]) -> Sequence[Any]:
    """For each problem the orders of its trials, from a selector that ranks many pools together; None from others."""
    if not isinstance(selector, RanksMany) or selector.many <= 1 or not pools:
        return [None] * len(pools)
    rngs = [[ranking_rng(work.seed, each.problem, trial) for trial in range(work.trials)] for each in pools]
    try:
        with contained(), ranking_named(work.selector, pools[0].problem):
            return list(selector.rank_many([each.pool for each in pools], rngs))
    except Exception as failure:
        names = ", ".join(repr(each.problem.id) for each in pools[:3])
        raise HarnessError(f"selector {work.selector!r}, problems {names}, ...: {error_text(failure)}") from failure


def _trials(work: Work, selector: Selector, ranked: _Ranked, orders: Sequence[Iterator[Any]] | None) -> list[Any]:
    """The result of each trial. A ranker that used no random numbers gives the same in every trial and runs once."""
    trials: list[Any] = []
    with ranking_named(work.selector, ranked.problem):
        for trial in range(work.trials):
            rng = ranking_rng(work.seed, ranked.problem, trial)
            try:
                with contained():
                    order = orders[trial] if orders else None
                    if isinstance(selector, LearnsFromOutcomes):
                        order = learnt_order(selector, ranked.pool, ranked.verdicts, work.seed, ranked.problem, trial)
                    trials.append(_trial(selector, ranked, rng, order))
            except Exception as failure:
                raise HarnessError(
                    f"selector {work.selector!r}, problem {ranked.problem.id!r}, trial {trial}: {error_text(failure)}"
                ) from failure
            unused = _is_unused(rng, ranking_rng(work.seed, ranked.problem, trial))
            if isinstance(selector, Ranker) and not (orders or isinstance(selector, LearnsFromOutcomes)) and unused:
                return trials * work.trials
    return trials


def _trial(selector: Selector, ranked: _Ranked, rng: np.random.Generator, order: Iterator[Any] | None) -> Any:
    if order is not None:
        return _up_to_correct(order, ranked.is_correct)
    if isinstance(selector, Ranker):
        return _up_to_correct(selector.rank(ranked.pool, rng), ranked.is_correct)
    return _subsets(selector, ranked.pool, len(ranked.verdicts), rng)


def rank_whole(selector: Selector, pool: Pool, trials: int) -> float:
    """Rank all of a pool once, as `rank_problems` does, to be timed; all of a run's trials take so many times as long.

    A selector that ranks many pools together ranks copies of this one. HarnessError if a pick is wrong.
    """
    rngs = np.random.default_rng(0).spawn(trials)
    if isinstance(selector, RanksMany) and selector.many > 1:
        for orders in selector.rank_many([pool] * selector.many, [rngs] * selector.many):
            for order in orders:
                list(picked(order, len(pool)))
        return 1 / selector.many
    if not isinstance(selector, Ranker):
        _subsets(selector, pool, len(pool), rngs[0])
        return trials
    list(picked(selector.rank(pool, rngs[0]), len(pool)))
    return 1 if _is_unused(rngs[0], np.random.default_rng(0).spawn(1)[0]) else trials


def ranking_named(selector: str, problem: Problem) -> AbstractContextManager[None]:
    """A context that prints on stderr which selector is ranking which problem, if this takes long."""
    return named(
        f"selector {selector!r}, problem {problem.id!r}: ranking (`harness run --rank-timeout` bounds it)", RANK_S
    )


def _is_unused(rng: np.random.Generator, fresh: np.random.Generator) -> bool:
    """Whether the rng is unused: no number was taken from it, and no other rng spawned."""
    states = [(each.bit_generator.state, each.bit_generator.seed_seq.n_children_spawned) for each in (rng, fresh)]  # type: ignore[attr-defined]
    return bool(states[0] == states[1])


def _up_to_correct(ranking: Iterable[Any], is_correct: Sequence[bool]) -> list[int]:
    """The indices of a ranking up to its first correct one."""
    order: list[int] = []
    for index in picked(ranking, len(is_correct)):
        order.append(index)
        if is_correct[index]:
            return order
    raise HarnessError(f"the ranking ended after {len(order)} of {len(is_correct)} responses")


def _subsets(selector: SubsetSelector, pool: Pool, n: int, rng: np.random.Generator) -> dict[str, list[int]]:
    """k -> the subset that is chosen for that budget, k = 1, 2, 4, ..., n."""
    from harness.scoring.metrics import budgets  # scipy.stats, which `harness select` does without

    rngs = rng.spawn(len(budgets(n)))
    return {str(k): subset_of(selector, pool, k, own) for k, own in zip(budgets(n), rngs, strict=True)}


# The pool as a selector sees it.


def load_pool(work: Work, problem: Problem) -> Pool:
    """One problem's pool as selectors see it: the first n responses, with vectors centred over them."""
    responses = shards.read_responses(work.pool.path(problem))
    n = len(responses) if work.n is None else work.n
    vectors = np.zeros((n, 0), np.float32)
    if work.embeddings:
        every = shards.read_vectors(work.embeddings.path(problem))
        shards.require_rows(work.embeddings.path(problem), len(every), len(responses))
        vectors = every[:n]
    answers = shards.read_answers(work.verdicts.path(problem))
    shards.require_rows(work.verdicts.path(problem), len(answers), len(responses))
    scores = {**responses.scores, **(read_scores(work.scores, problem, len(responses)) if work.scores else {})}
    return pool_of(
        f"{_source(work)}, problem {problem.id!r}",
        texts=responses.texts[:n],
        embeddings=centred(vectors),
        logprobs=responses.logprobs[:n],
        lengths=responses.lengths[:n],
        answers=answers[:n],
        scores={name: values[:n] for name, values in scores.items()},
    )


def _source(work: Work) -> str:
    """The source of a pool's responses and vectors, for messages."""
    embedder = work.embeddings.inputs.get("embedder", {}).get("name", "given vectors") if work.embeddings else "none"
    return f"pool {work.pool.key}, embedder {embedder}"


def pool_of(source: str, **columns: Any) -> Pool:
    """A pool of these columns; if `Pool` refuses them, the error names their source."""
    try:
        return Pool(**columns)
    except HarnessError as failure:
        raise HarnessError(f"{source}: {failure}") from failure


def centred(vectors: Floats) -> Floats:
    """Vectors (n, d) float32 minus their mean over the n responses (computed in float64)."""
    return (vectors - vectors.mean(axis=0, dtype=np.float64)).astype(np.float32) if vectors.size else vectors
