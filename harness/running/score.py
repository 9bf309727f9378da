"""Score: the cell of a ranking, and its row; the cell is kept in STORE/cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from harness.records import Problem
from harness.results import cells
from harness.results.cells import Cell
from harness.results.rows import Row, row
from harness.scoring import votes
from harness.scoring.metrics import budgets
from harness.stages import audit, chance, response_scores
from harness.stages.work import Work
from harness.store import shards
from harness.store.json_files import read_record
from harness.store.keys import storable
from harness.store.stage import Stage

from .plan import Plan
from .study import recorded


def keep_cell(plan: Plan, work: Work) -> Row:
    """Write the cell of a ranking that is in the store, and return its row. Only one problem's orders are in memory."""
    about = _about(plan, work)
    about["conditions"] = _conditions(plan.problems, work)
    kept: list[dict[str, Any]] = []
    by_chance = chance.stage_of(plan.context.store, work, plan.task, plan.problems)

    def entries() -> Iterator[dict[str, Any]]:
        for problem in plan.problems:
            entry = _entry(work, problem, by_chance)
            yield entry
            kept.append(cells.without_orders(entry))

    key = cells.write_entries(plan.context.store.cells, about, entries())
    return row({**about, "problems": kept}, key)


def keep_failure(plan: Plan, work: Work, reason: str) -> None:
    """Write a cell that says why a selector has no row."""
    problems = [{"id": storable(problem.id)} for problem in plan.problems]
    cells.write(plan.context.store.cells, _about(plan, work) | {"problems": problems, "failed": reason})


def _about(plan: Plan, work: Work) -> Cell:
    """How a cell was made: labels, inputs of its stages, options, versions."""
    embedder = plan.embedder if work.embeddings else "none"
    made = {"embedder": embedder, "selector": work.selector, "trials": work.trials, "seed": work.seed}
    stages = {"pool": work.pool, "embedding": work.embeddings, "verdict": work.verdicts, "ranking": work.rankings}
    stages["score"] = work.scores
    inputs = {name: {"key": stage.key, **stage.inputs} for name, stage in stages.items() if stage}
    parts = [part for stage in inputs.values() for part in stage.values() if isinstance(part, dict)]
    plugins = [str(part["dist"]) for part in parts if "dist" in part]
    weights = [each.to_json() for each in dict.fromkeys(each for stage in plan.weights.values() for each in stage)]
    return {
        "kind": cells.KIND,
        "schema": cells.SCHEMA,
        **({"weights": weights} if weights else {}),
        "labels": {**plan.labels, **made},
        "grader": cells.grader({"inputs": inputs}),
        "inputs": inputs,
        "config": recorded(plan.config, work.selector),
        **cells.made_with(plugins),
    }


def _entry(work: Work, problem: Problem, by_chance: Stage | None) -> dict[str, Any]:
    """The entry of a problem: N, c, errors, disputed grades (None without --audit); per trial order and rank, or hits.

    An order ends at the first correct response. Counts of the chance level are left out where there are none, and so is
    the cost of the answers, [responses, CPU seconds].
    """
    assert work.rankings is not None
    ranking = read_record(work.rankings.path(problem))
    n, trials = ranking["n"], ranking["trials"]
    verdicts, routes = shards.read_routes(work.verdicts.path(problem))
    shards.require_rows(work.rankings.path(problem), n, work.n or len(verdicts))
    shards.require_rows(work.verdicts.path(problem), len(verdicts), max(n, len(verdicts)))
    verdicts, routes = verdicts[:n], routes[:n]
    counts = {"n": n, "c": verdicts.count("correct"), "errors": verdicts.count("error")}
    result = {"id": storable(problem.id), **counts, "disputed": audit.disputed(work, problem, n)}
    result["routes"] = _by_route(verdicts, routes)
    if (cpu_s := shards.read_answers_cpu_s(work.verdicts.path(problem))) is not None:
        result["answering"] = [shards.count_rows(work.verdicts.path(problem)), round(cpu_s, 3)]
    if (gradings := chance.counts_in(by_chance, problem)) is not None:
        result["chance"] = gradings
    result |= _one_answer(work, problem, verdicts)
    if ranking["kind"] == "subset":
        hits = {k: [_holds(trial[str(k)], verdicts) for trial in trials] or [False] * work.trials for k in budgets(n)}
        return result | {"hits": {str(k): hit for k, hit in hits.items()}}
    ranks = [len(order) for order in trials] if trials else [n + 1] * work.trials
    return result | {"ranks": ranks, "orders": trials}


def _one_answer(work: Work, problem: Problem, verdicts: Sequence[str]) -> dict[str, Any]:
    """maj@k, if a response has an answer, and best-of-k by each score of the cell, at `budgets`: six decimals."""
    n, ks = len(verdicts), budgets(len(verdicts))
    correct = [verdict == "correct" for verdict in verdicts]
    answers = shards.read_answers(work.verdicts.path(problem))
    ratings = shards.read_ratings(work.pool.path(problem))
    if work.scores:
        ratings |= response_scores.read_scores(work.scores, problem, len(answers))

    def by_k(chances: Sequence[float]) -> dict[str, float]:
        return {str(k): round(chance, 6) for k, chance in zip(ks, chances, strict=True)}

    best = {name: by_k(votes.best_of_k(values[:n], correct, ks)) for name, values in ratings.items()}
    voted = any(answer is not None for answer in answers[:n])
    majority = {"maj_at_k": by_k(votes.majority_at_k(answers[:n], correct, ks))} if voted else {}
    return majority | {"best_of_k": best}


def _by_route(verdicts: Sequence[str], routes: Sequence[str]) -> dict[str, int]:
    """The number of correct verdicts by route; a route's name ends at its first comma."""
    correct = (route for verdict, route in zip(verdicts, routes, strict=True) if verdict == "correct")
    return dict(sorted(Counter(route.partition(",")[0] or "-" for route in correct).items()))


def _holds(subset: Sequence[int], verdicts: Sequence[str]) -> bool:
    return any(verdicts[index] == "correct" for index in subset)


def _conditions(problems: Sequence[Problem], work: Work) -> dict[str, list[str]]:
    """The conditions under which the verdicts were made (the sandbox's tier), with all values that occur."""
    conditions: dict[str, set[str]] = {}
    for problem in problems:
        for name, value in shards.read_conditions(work.verdicts.path(problem)).items():
            conditions.setdefault(name, set()).add(value)
    return {name: sorted(values) for name, values in sorted(conditions.items())}
