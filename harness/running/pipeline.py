"""The main job: get the pool, embed, verify, rank, score. Each stage makes only the shards that are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import Any

from harness.contracts import FitsMemory, KeepsModels, Report
from harness.errors import HarnessError, Lacking, LacksLibrary
from harness.plugin_system.registry import is_own
from harness.records import Problem
from harness.results.rows import Row
from harness.stages import audit as audits
from harness.stages import chance, response_scores
from harness.stages import sample as sampling_stage
from harness.stages.embed import embed as embed_step
from harness.stages.measure import measure
from harness.stages.model_work import Step, in_worker
from harness.stages.project import project
from harness.stages.rank import how_many, rank_problems
from harness.stages.verify import grade_problems
from harness.stages.work import Work, batches, over
from harness.store import in_use, missing_rows, shards
from harness.store.checksums import BadShard
from harness.store.stage import Stage
from harness.system.progress import Progress

from . import assumed, older_pools, score
from .billing import billed
from .config import RunConfig
from .context import make_context
from .importing import bring_in
from .plan import Plan
from .planning import make_plan
from .preflight import SHORTER, preflight, require_consent


@in_use.until_done
def run(
    config: RunConfig,
    progress: Progress,
    scored: Callable[[Row], None] = lambda row: None,
    embedders: Sequence[str] = (),
) -> tuple[list[Row], dict[str, str]]:
    """Run the config. Return a row for each selector that did not fail, in the config's order, and the failures.

    The failures are selector -> one line.
    `scored(row)` is called with each row as it is made.
    `embedders` are those of later runs with the same pool: hidden states that they read come from this sampling pass.
    """
    assumed.ask_before_fetching(config, progress)
    try:
        with progress.waiting("preparing the run"):
            plan = make_plan(config, progress, embedders=embedders)
            plan.begin()
    except Lacking as failure:
        if not isinstance(failure, LacksLibrary):
            assumed.say_price(make_context(config, progress), only_long=True)
        raise
    verify(plan, progress, get_pool(plan, progress))
    if config.audit:
        audit(plan, progress)
    rows, failures = [], {}
    for selector in config.selectors:
        try:
            work = rank(plan, selector, progress)
            with progress.waiting(f"scoring {selector}"):
                rows.append(score.keep_cell(plan, work))
        except BadShard:  # the store's fault, not the selector's
            raise
        except HarnessError as failure:
            failures[selector] = str(failure)
            with suppress(HarnessError):  # where not even its key is known, nothing is kept
                score.keep_failure(plan, plan.for_selector(selector), str(failure))
        else:
            scored(rows[-1])
    return rows, failures


def get_pool(plan: Plan, progress: Progress) -> Set[str]:
    """Bring responses and vectors into the store: import them, take over older ones, sample those that are missing.

    Shows what will be made and which model weights it uses. Asks before work of an hour or more. Return the ids of the
    problems whose responses were not in the store.
    """
    older_pools.take_over(plan.work, plan.problems, plan.older, progress)
    new = {problem.id for problem in plan.work.pool.missing(plan.problems)}
    if plan.imported:
        if plan.work.answers and plan.work.verdicts.inputs["given"]:
            plan.check_grader()  # answers are run while the given verdicts are kept
        bring_in(plan.imported, plan.work, progress)
    plan.check_grader()
    plan.show_weights(progress)
    costs = preflight(plan)
    if costs.responses or costs.verdicts or costs.encoded or costs.scored or costs.ranking_s:
        progress.say(str(costs))
    if costs.warning:
        progress.say(costs.warning)
    require_consent("run", costs.outlook, progress, SHORTER)
    sample(plan, progress)
    embed(plan, new, progress)
    add_scores(plan, progress)
    return new


def dry_run(config: RunConfig, progress: Progress) -> list[dict[str, Any]]:
    """Return for each stage of a run how many problems the store has ("there") and lacks ("to_make"), and its key.

    The costs are shown too, for which a short probe may be sampled; nothing is stored. Where libraries, data or weights
    are not on this machine, the costs are computed from what is known, and counts and keys of stages may be None.
    """
    try:
        with progress.waiting("preparing the run"):
            plan = make_plan(config, progress)
    except Lacking as failure:
        return assumed.rows(make_context(config, progress), failure)
    progress.say(str(preflight(plan)))
    work = plan.work
    stages = {"sample": work.pool, "embed": work.embeddings, "score": work.scores, "verify": work.verdicts}
    stages |= {f"rank {selector}": plan.for_selector(selector).rankings for selector in config.selectors}
    rows = []
    for name, stage in stages.items():
        if stage is not None:
            missing = len(stage.missing(plan.problems))
            rows.append({"stage": name, "there": len(plan.problems) - missing, "to_make": missing, "key": stage.key})
    return rows


def sample(plan: Plan, progress: Progress) -> None:
    """Sample the responses that the store lacks, with their hidden states.

    Problems of which only some responses are missing get these too, without states. Problems go to the engine in groups
    of the size that suits it best, and each one's responses are stored once they are finished.
    """
    if plan.sampling is None:
        return
    pool, sampling = plan.work.pool, plan.sampling
    missing = _missing("pool", plan.problems, pool, progress)
    size = sampling.problems_per_call(sampling.n)
    to_sample = [problem for problem in plan.problems if problem.id in missing]
    waiting = missing_rows.waiting(pool, plan.problems)
    again = [problem for problem in plan.problems if problem.id in waiting]
    total = len(to_sample) * sampling.n + sum(map(len, waiting.values()))
    if not total:
        return
    missing_rows.forget_derived(pool, to_sample)
    most = sampling.max_tokens
    with billed(sampling.engine, progress) as cost, progress.stage("sample", total, "responses", True, most) as stage:
        stage.note = cost
        _with_models(plan, sampling_stage.sample, list(batches(to_sample, size)), stage)
        _with_models(plan, sampling_stage.sample_missing, list(batches(again, size)), stage)
    remark = missing_rows.summary(pool, plan.problems, sampling.n)
    if remark:
        progress.say(remark)


def embed(plan: Plan, new: Set[str], progress: Progress) -> None:
    """Make the vectors that the store lacks: from a file, by the embedder, or by a second pass of the engine.

    new  ids of the problems whose responses came just now, perhaps with vectors, which are not shown as reused
    """
    stage = plan.work.embeddings
    if stage is None or plan.vectors is None:
        return
    missing = _missing("embeddings", plan.problems, stage, progress, new)
    if not missing:
        return
    todo, given = [problem for problem in plan.problems if problem.id in missing], plan.vectors.given
    rows = {problem.id: shards.count_rows(plan.work.pool.path(problem)) for problem in todo}
    with progress.stage("embed", sum(rows.values()), "responses") as bar:
        if given is None:
            return _with_models(plan, embed_step, list(batches(todo, 1)), bar)
        for problem in todo:
            vectors = given.get(problem.id, rows[problem.id])
            source = f"embeddings {given.path}: {problem.id!r}"
            shards.write_vectors(stage.path(problem), project(vectors, plan.config.dim, plan.config.seed, source))
            bar.advance(rows[problem.id])


def add_scores(plan: Plan, progress: Progress) -> None:
    """Let the config's scorer, if there is one, score the responses that have no scores in the store."""
    stage = plan.work.scores
    missing = _missing("scores", plan.problems, stage, progress) if stage else ()
    if missing:
        todo = [problem for problem in plan.problems if problem.id in missing]
        rows = sum(shards.count_rows(plan.work.pool.path(problem)) for problem in todo)
        with progress.stage("score", rows, "responses") as bar:
            _with_models(plan, response_scores.add_scores, list(batches(todo, 1)), bar)


def _with_models(plan: Plan, step: Step, todo: Sequence[Sequence[Problem]], report: Report) -> None:
    """Do a step for each group: in the executor's workers if they keep models, else in this process."""
    if not todo:
        return
    work, groups, executor = plan.model_work, map(plan.group, todo), plan.context.executor
    if isinstance(executor, KeepsModels):
        if isinstance(executor, FitsMemory):
            executor.expect(plan.model_bytes)
        executor.with_models(partial(in_worker, step, work), groups, report)
        return
    models = plan.models
    for group in groups:
        step(work, models, group, report)


def verify(plan: Plan, progress: Progress, new: Set[str] = frozenset()) -> None:
    """Grade the responses that have no verdict in the store.

    new  ids of the problems whose responses came just now, perhaps with verdicts, which are not shown as reused
    """
    missing = _missing("verdicts", plan.problems, plan.work.verdicts, progress, new)
    ungraded = [problem for problem in plan.problems if problem.id in missing]
    work = measure(plan.context.store, plan.task, plan.work, ungraded, progress)
    _each("verify", plan, work, grade_problems, missing, progress)


def audit(plan: Plan, progress: Progress) -> None:
    """Grade every response by the task's second grader, show how often it disagrees, and measure the chance level."""
    ask_second_grader(plan, progress)
    summary = audits.summary(plan.work, plan.problems)
    listed = f"`harness pool audit {plan.work.pool.key}` lists them"
    progress.say(f"audit: {summary['disputed']} of {summary['audited']} verdicts disputed; {listed}")
    chance.measure(plan.context.store, plan.context.executor, plan.work, plan.task, plan.problems, progress)


def ask_second_grader(plan: Plan, progress: Progress) -> None:
    """Grade by the task's second grader the responses that it has not graded yet."""
    missing = _missing("audits", plan.problems, plan.work.audits, progress)
    _each("audit", plan, plan.work, audits.audit_problems, missing, progress)


def rank(plan: Plan, selector: str, progress: Progress) -> Work:
    """Order every problem's pool by one selector; return the work, which says where the orders are."""
    work = plan.for_selector(selector)
    assert work.rankings is not None
    missing = _missing(f"rankings of {selector}", plan.problems, work.rankings, progress)
    size = how_many(plan.selectors[selector])
    _each(f"rank {selector}", plan, work, rank_problems, missing, progress, size)
    return work


def _each(
    name: str, plan: Plan, work: Work, function: Any, missing: set[str], progress: Progress, size: int = 1
) -> None:
    """Call the function through the executor, with `size` missing problems at a time.

    Selectors that are objects of the caller's rank in this process.
    """
    todo = list(batches([problem for problem in plan.problems if problem.id in missing], size))
    apply = map if is_own(work.selector) else plan.context.executor.map
    if todo:
        with progress.stage(name, len(missing), "problems") as stage:
            for group, _ in zip(todo, apply(over(work, function), todo), strict=True):
                stage.advance(len(group))


def _missing(
    what: str, problems: Sequence[Problem], stage: Stage, progress: Progress, new: Set[str] = frozenset()
) -> set[str]:
    """The ids of the problems without a shard; shows how many of those that are not `new` have one."""
    missing = {problem.id for problem in stage.missing(problems)}
    reused = sum(problem.id not in missing and problem.id not in new for problem in problems)
    if reused:
        progress.say(f"{what}: reused for {reused} of {len(problems)} problems")
    return missing
