"""The main job: sample, embed, verify, rank, score. Each stage keeps a shard a problem and makes what is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from harness.errors import HarnessError
from harness.records import Problem
from harness.results import cells
from harness.stages import audit as audits
from harness.stages import chance
from harness.stages import sample as drawing
from harness.stages.measure import measure
from harness.stages.project import project
from harness.stages.work import Work, audit_problems, batches, grade_problems, over, rank_problems
from harness.store import missing_rows, shards
from harness.store.checksums import BadShard
from harness.system.progress import Progress
from harness.upkeep import older_pools

from .config import RunConfig
from .plan import Plan, make_plan
from .preflight import SHORTER, preflight, require_consent


def run(
    config: RunConfig, progress: Progress, scored: Callable[[dict[str, Any]], None] = lambda row: None
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Rows, one a selector, in the order asked for, and one line for each selector that failed (it has no row).

    `scored(row)` is called as each is there.
    """
    plan = make_plan(config, progress)
    plan.begin()
    older_pools.take_over(plan.work, plan.problems, plan.older, progress)
    plan.check_grader()
    _announce(plan, progress)
    drawn = sample(plan, progress)
    embed(plan, drawn, progress)
    verify(plan, progress)
    if config.audit:
        audit(plan, progress)
    rows, failures = [], {}
    for selector in config.selectors:
        try:
            rows.append(score(plan, rank(plan, selector, progress)))
        except BadShard:  # the store's fault, not the selector's
            raise
        except HarnessError as failure:
            failures[selector] = str(failure)
            _keep_failure(plan, selector, str(failure))
        else:
            scored(rows[-1])
    return rows, failures


def _announce(plan: Plan, progress: Progress) -> None:
    """Say what is to be made and by whose weights, where something is, and ask before an hour of it."""
    plan.show_weights(progress)
    ahead = preflight(plan)
    if ahead.responses or ahead.verdicts or ahead.encoded:
        progress.say(str(ahead))
    if ahead.warning:
        progress.say(ahead.warning)
    require_consent("run", ahead.outlook, progress, SHORTER)


def dry_run(config: RunConfig, progress: Progress) -> list[dict[str, Any]]:
    """What a run would make: per stage how many problems are in the store and how many are not."""
    plan = make_plan(config, progress)
    progress.say(str(preflight(plan)))
    stages = {"sample": plan.work.pool, "embed": plan.work.embeddings, "verify": plan.work.verdicts}
    stages |= {f"rank {selector}": plan.for_selector(selector).rankings for selector in config.selectors}
    rows = []
    for name, stage in stages.items():
        if stage is not None:
            missing = len(stage.missing(plan.problems))
            rows.append({"stage": name, "there": len(plan.problems) - missing, "to_make": missing, "key": stage.key})
    return rows


def sample(plan: Plan, progress: Progress) -> set[str]:
    """Sample the responses that are not in the store, and their hidden states in the same pass; whose were sampled.

    Only missing problems go to the engine, as many at a time as it takes best, and each is kept once it is finished.
    """
    if plan.sampling is None:
        return set()
    pool, sampling = plan.work.pool, plan.sampling
    missing = _missing("pool", plan.problems, pool, progress)
    size = sampling.problems_per_call(sampling.n)
    to_sample = [problem for problem in plan.problems if problem.id in missing]
    todo = list(batches(to_sample, size))
    waiting = missing_rows.waiting(pool, plan.problems)
    again = batches([problem for problem in plan.problems if problem.id in waiting], size)
    total = sum(map(len, todo)) * sampling.n + sum(map(len, waiting.values()))
    if not total:
        return missing
    missing_rows.forget_derived(pool, to_sample)
    with progress.stage("sample", total, "responses") as stage:
        _with_models(plan, drawing.draw, todo, stage.advance)
        _with_models(plan, drawing.draw_again, list(again), stage.advance)
    remark = missing_rows.summary(pool, plan.problems, sampling.n)
    if remark:
        progress.say(remark)
    return missing


def embed(plan: Plan, drawn: set[str], progress: Progress) -> None:
    """Make the vectors that are not in the store: given, the embedder's, or the engine's states by a second pass."""
    stage = plan.work.embeddings
    if stage is None:
        return
    missing = _missing("embeddings", [p for p in plan.problems if p.id not in drawn], stage, progress)
    missing |= {problem.id for problem in stage.missing(plan.problems)}
    if not missing:
        return
    todo = [problem for problem in plan.problems if problem.id in missing]
    with progress.stage("embed", len(missing), "problems") as bar:
        if plan.given is None:
            return _with_models(plan, drawing.embed, list(batches(todo, 1)), bar.advance)
        for problem in todo:
            vectors = plan.given.get(problem.id, shards.count_in(plan.work.pool.path(problem)))
            giver = f"embeddings {plan.given.path}: {problem.id!r}"
            shards.write_vectors(stage, problem, project(vectors, plan.config.dim, plan.config.seed, giver))
            bar.advance()


def _with_models(
    plan: Plan, step: drawing.Step, todo: Sequence[Sequence[Problem]], report: Callable[[int], None]
) -> None:
    """Do a step for each group, in processes of the executor's where it keeps models there, else in this one."""
    if not todo:
        return
    here, groups = plan.drawing, map(plan.group, todo)
    if hasattr(plan.setting.executor, "with_models"):
        plan.setting.executor.with_models(partial(drawing.there, step, here), groups, report)
        return
    models = plan.models
    for group in groups:
        step(here, models, group, report)


def verify(plan: Plan, progress: Progress) -> None:
    """Grade the responses that have no verdict in the store."""
    missing = _missing("verdicts", plan.problems, plan.work.verdicts, progress)
    _each("verify", plan, measure(plan, missing, progress), grade_problems, missing, progress)


def audit(plan: Plan, progress: Progress) -> None:
    """Ask the task's second grader about every response, and say how often it disagrees; measure the chance level."""
    ask_second_grader(plan, progress)
    found = audits.summary(plan.work, plan.problems)
    listed = f"`harness pool audit {plan.work.pool.key}` lists them"
    progress.say(f"audit: {found['disputed']} of {found['audited']} verdicts disputed; {listed}")
    chance.measure(plan, progress)


def ask_second_grader(plan: Plan, progress: Progress) -> None:
    """Ask the task's second grader about the responses that it has not said anything of."""
    missing = _missing("audits", plan.problems, plan.work.audits, progress)
    _each("audit", plan, plan.work, audit_problems, missing, progress)


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


def _missing(what: str, problems: Sequence[Problem], stage: shards.Stage, progress: Progress) -> set[str]:
    """The ids of the problems without a shard; says so where some or all are there."""
    missing = stage.missing(problems)
    if len(missing) < len(problems):
        progress.say(f"{what}: reused for {len(problems) - len(missing)} of {len(problems)} problems")
    return {problem.id for problem in missing}


# Score.


def score(plan: Plan, work: Work) -> dict[str, Any]:
    """The row of one cell, computed from verdicts and rankings; the cell is kept in STORE/cells."""
    return cells.keep(plan.setting.store.cells, plan, work)


def _keep_failure(plan: Plan, selector: str, reason: str) -> None:
    """Say in the store why a selector has no row; where not even its key is known, nothing is kept."""
    with suppress(HarnessError):
        cells.write(plan.setting.store.cells, cells.failed(plan, plan.for_selector(selector), reason))
