"""The main job: sample, embed, verify, rank, score. Each stage keeps a shard a problem and makes what is missing."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from . import audits, store
from .config import RunConfig
from .errors import HarnessError
from .metrics import Outcomes, budgets, summary
from .plan import Plan, make_plan, prompt
from .progress import Progress
from .projection import project
from .records import Problem, Responses
from .work import Work, audit_problems, batches, embedded, grade_problems, over, problem_seed, rank_problems

SCHEMA = 1


def run(config: RunConfig, progress: Progress) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Rows, one a selector, in the order asked for, and one line for each selector that failed (it has no row)."""
    plan = make_plan(config, progress)
    plan.begin()
    plan.check_grader()
    drawn = sample(plan, progress)
    embed(plan, drawn, progress)
    verify(plan, progress)
    if config.audit:
        audit(plan, progress)
    rows, failures = [], {}
    for selector in config.selectors:
        try:
            rows.append(score(plan, rank(plan, selector, progress)))
        except HarnessError as failure:
            failures[selector] = str(failure)
    return rows, failures


def dry_run(config: RunConfig, progress: Progress) -> list[dict[str, Any]]:
    """What a run would make: per stage how many problems are in the store and how many are not."""
    plan = make_plan(config, progress)
    stages = {"sample": plan.work.pool, "embed": plan.work.embeddings, "verify": plan.work.verdicts}
    stages |= {f"rank {selector}": plan.for_selector(selector).rankings for selector in config.selectors}
    rows = []
    for name, stage in stages.items():
        if stage is not None:
            missing = len(stage.missing(plan.problems))
            rows.append({"stage": name, "there": len(plan.problems) - missing, "to_make": missing, "key": stage.key})
    return rows


def sample(plan: Plan, progress: Progress) -> set[str]:
    """Draw the responses that are not in the store, and their hidden states in the same pass; whose were drawn.

    Problems go to the engine in fixed groups; a group with a missing problem is drawn whole, so that a resumed run does
    the same arithmetic as an unkilled one. Vectors are kept before texts: a text shard says that both are there.
    """
    if plan.sampling is None:
        return set()
    pool, sampling, engine = plan.work.pool, plan.sampling, plan.sampling.engine
    missing = _missing("pool", plan.problems, pool, progress)
    state = plan.embedder.state if plan.embedder else None
    groups = batches(plan.problems, engine.problems_per_call(sampling.n))
    todo = [group for group in groups if any(problem.id in missing for problem in group)]
    if not todo:
        return missing
    with progress.stage("sample", sum(map(len, todo)) * sampling.n, "responses") as stage:
        for group in todo:
            drawn = engine.sample(
                plan.prompts(group),
                n=sampling.n,
                sampler=sampling.sampler,
                max_tokens=sampling.max_tokens,
                seeds=[problem_seed("sample", plan.config.seed, problem) for problem in group],
                states=[state] if state else [],
                report=stage.advance,
            )
            for problem, responses in zip(group, drawn, strict=True):
                if problem.id in missing:
                    _keep(plan, problem, responses)
    return missing


def _keep(plan: Plan, problem: Problem, responses: Responses) -> None:
    if plan.embedder and plan.embedder.state and plan.work.embeddings:
        vectors = responses.states[plan.embedder.state]
        store.write_vectors(plan.work.embeddings, problem, _projected(plan, vectors))
    store.write_responses(plan.work.pool, problem, responses)


def embed(plan: Plan, drawn: set[str], progress: Progress) -> None:
    """Make the vectors that are not in the store: given, the embedder's, or the engine's states by a second pass."""
    stage = plan.work.embeddings
    if stage is None:
        return
    missing = _missing("embeddings", [p for p in plan.problems if p.id not in drawn], stage, progress)
    missing |= {problem.id for problem in stage.missing(plan.problems)}
    if not missing:
        return
    with progress.stage("embed", len(missing), "problems") as bar:
        for problem in plan.problems:
            if problem.id in missing:
                responses = store.read_responses(plan.work.pool, problem)
                store.write_vectors(stage, problem, _projected(plan, _vectors(plan, problem, responses)))
                bar.advance()


def _vectors(plan: Plan, problem: Problem, responses: Responses) -> Any:
    if plan.given:
        return plan.given.get(problem.id, len(responses))
    assert plan.embedder is not None  # there is an embedding stage, and no vectors were given
    if plan.embedder.state and plan.engine:
        chat = prompt(plan.task, plan.engine, problem)
        return plan.engine.encode(chat, responses, [plan.embedder.state])[plan.embedder.state]
    return embedded(plan.embedder, plan.labels["embedder"], problem, responses.texts)


def _projected(plan: Plan, vectors: Any) -> Any:
    return project(vectors, plan.config.dim, plan.config.seed)


def verify(plan: Plan, progress: Progress) -> None:
    """Grade the responses that have no verdict in the store."""
    missing = _missing("verdicts", plan.problems, plan.work.verdicts, progress)
    _each("verify", plan, plan.work, grade_problems, missing, progress)


def audit(plan: Plan, progress: Progress) -> None:
    """Ask the task's second grader about every response, and say how often it disagrees."""
    missing = _missing("audits", plan.problems, plan.work.audits, progress)
    _each("audit", plan, plan.work, audit_problems, missing, progress)
    found = audits.summary(plan.work, plan.problems)
    listed = f"`harness pool audit {plan.work.pool.key}` lists them"
    progress.say(f"audit: {found['disputed']} of {found['audited']} verdicts disputed; {listed}")


def rank(plan: Plan, selector: str, progress: Progress) -> Work:
    """Order every problem's pool with one selector; returns the work, which says where the orders are."""
    work = plan.for_selector(selector)
    assert work.rankings is not None
    missing = _missing(f"rankings of {selector}", plan.problems, work.rankings, progress)
    many = getattr(plan.setting.build("selector", selector), "many", 1)
    _each(f"rank {selector}", plan, work, rank_problems, missing, progress, size=many)
    return work


def _each(
    name: str, plan: Plan, work: Work, function: Any, missing: set[str], progress: Progress, size: int = 1
) -> None:
    """Call the function, wherever the executor likes, with `size` missing problems at a time."""
    todo = list(batches([problem for problem in plan.problems if problem.id in missing], size))
    if todo:
        with progress.stage(name, len(missing), "problems") as stage:
            for group, _ in zip(todo, plan.setting.executor.map(over(work, function), todo), strict=True):
                stage.advance(len(group))


def _missing(what: str, problems: Sequence[Problem], stage: store.Stage, progress: Progress) -> set[str]:
    """The ids of the problems without a shard; says so where some or all are there."""
    missing = stage.missing(problems)
    if len(missing) < len(problems):
        progress.say(f"{what}: reused for {len(problems) - len(missing)} of {len(problems)} problems")
    return {problem.id for problem in missing}


# Score.


def score(plan: Plan, work: Work) -> dict[str, Any]:
    """The row of one cell, computed from verdicts and rankings; the cell is kept in STORE/cells."""
    cell = _cell(plan, work)
    key = store.digest({**cell["inputs"], "problems": [entry["id"] for entry in cell["problems"]]})
    store.write_json(plan.setting.store.cell_path(key), cell)
    return row(cell, key)


def row(cell: dict[str, Any], key: str) -> dict[str, Any]:
    """A cell's row: its labels and its figures. The same cell gives the same row, bootstrap included."""
    made = {"conditions": cell["conditions"], "disputed": cell["disputed"]}
    return {**cell["labels"], "cell": key, **made, **summary(outcomes(cell), seed=int(key[:8], 16))}


def outcomes(cell: dict[str, Any]) -> Outcomes:
    """A cell's outcomes as arrays."""
    entries = cell["problems"]
    n = np.array([entry["n"] for entry in entries], np.int64)
    c = np.array([entry["c"] for entry in entries], np.int64)
    errors = np.array([entry["errors"] for entry in entries], np.int64)
    if "hits" in entries[0]:
        ks = sorted({int(k) for entry in entries for k in entry["hits"]})
        hits = {k: np.array([entry["hits"][str(k)] for entry in entries if str(k) in entry["hits"]]) for k in ks}
        return Outcomes(n, c, errors, hits=hits)
    return Outcomes(n, c, errors, ranks=np.array([entry["ranks"] for entry in entries], np.int64))


def _cell(plan: Plan, work: Work) -> dict[str, Any]:
    embedder = plan.labels["embedder"] if work.embeddings else "none"
    stages = {"pool": work.pool, "embedding": work.embeddings, "verdict": work.verdicts, "ranking": work.rankings}
    return {
        "schema": SCHEMA,
        "labels": {
            **plan.labels,
            "embedder": embedder,
            "selector": work.selector,
            "trials": work.trials,
            "seed": work.seed,
        },
        "inputs": {name: {"key": stage.key, **stage.inputs} for name, stage in stages.items() if stage},
        "versions": _versions(),
        "conditions": _conditions(plan, work),
        "disputed": audits.summary(work, plan.problems)["disputed"] if plan.config.audit else None,
        "problems": [_result(work, problem) for problem in plan.problems],
    }


def _result(work: Work, problem: Problem) -> dict[str, Any]:
    """N, c, errors, and per trial the rank of the first correct response, or per budget the subset's hits."""
    assert work.rankings is not None
    ranking = store.read_json(work.rankings.path(problem))
    n, trials = ranking["n"], ranking["trials"]
    verdicts = store.read_verdicts(work.verdicts, problem)[:n]
    result = {"id": problem.id, "n": n, "c": verdicts.count("correct"), "errors": verdicts.count("error")}
    if ranking["kind"] == "subset":
        hits = {k: [_holds(trial[str(k)], verdicts) for trial in trials] or [False] * work.trials for k in budgets(n)}
        return result | {"hits": {str(k): found for k, found in hits.items()}}
    return result | {"ranks": [len(order) for order in trials] if trials else [n + 1] * work.trials}


def _conditions(plan: Plan, work: Work) -> dict[str, list[str]]:
    """Under what the verdicts were made: per kind of condition each that occurs."""
    found: dict[str, set[str]] = {}
    for problem in plan.problems:
        for name, value in store.conditions_in(work.verdicts.path(problem)).items():
            found.setdefault(name, set()).add(value)
    return {name: sorted(values) for name, values in sorted(found.items())}


def _holds(subset: Sequence[int], verdicts: Sequence[str]) -> bool:
    return any(verdicts[index] == "correct" for index in subset)


def _versions() -> dict[str, str]:
    """What the figures were made with."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("diversity-harness", "numpy", "scipy", "scikit-learn", "torch", "transformers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
