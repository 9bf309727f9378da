"""From a config to a plan: build the components once, compute the keys, check all that can fail cheaply.

Making a plan changes nothing on the disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from harness.contracts import Charges, Embedder, Engine, Identified, KeepsModels, Scorer
from harness.errors import HarnessError, did_you_mean
from harness.plugin_system import licences
from harness.plugin_system.component import Spec, parameters, parse_spec
from harness.plugin_system.picks import needs, require_selector
from harness.pools.given import GivenVectors
from harness.pools.reading import file_digest
from harness.records import Limits, Problem, Sampler, Weights
from harness.store import missing_rows
from harness.store.keys import digest
from harness.store.stage import Stage
from harness.system.progress import Progress
from harness.task import Measured, Task

from . import chosen_problems, older_pools, prerequisites
from .config import RunConfig
from .context import Context, make_context
from .importing import common_size, imported_pool, verdicts_given
from .plan import Plan, Sampling, Vectors, prompt


def make_plan(config: RunConfig, progress: Progress, with_verdicts: bool = True, embedders: Sequence[str] = ()) -> Plan:
    """The plan of a run; HarnessError if the config cannot be carried out, with all that is missing.

    Without `with_verdicts` a pool file is planned up to its vectors, and needs no grader. `embedders`: others, whose
    hidden states are to be kept from the sampling pass too.
    """
    context = make_context(config, progress)
    selectors = {spec: require_selector(spec, context.build("selector", spec)) for spec in config.selectors}
    wants_vectors = any("embeddings" in needs(selector) for selector in selectors.values())
    try:
        if config.pool:
            plan = _imported_plan(context, wants_vectors, with_verdicts)
        else:
            assert context.task is not None  # the config has checked it
            plan = _sampling_plan(context, context.task, wants_vectors)
            plan = replace(plan, more_states=_more_states(plan, embedders))
        plan = _with_scorer(replace(plan, selectors=selectors))
        prerequisites.require_libraries(prerequisites.users(plan))
        _check_engine(plan)
    except HarnessError as failure:
        raise prerequisites.together(failure, context, selectors) from failure
    return plan


def _sampling_plan(context: Context, task: Task, wants_vectors: bool) -> Plan:
    config = context.config
    engine = context.engine(task)
    weights = _weights(context, task, engine)
    sampling = _sampling(context, task, engine)
    problems, split = _problems(context, task, engine.name)
    inputs = {
        "task": {"name": task.pools_as or config.task, "revision": task.revision},
        "prompt": digest(prompt(task, engine, problems[0])),
        "engine": dict(engine.identity()),
        "sampler": _sampler_key(context, sampling),
        "n": sampling.n,
        "max_tokens": sampling.max_tokens,
        "seed": config.seed,
    }
    pool = context.store.stage("pool", inputs, ".parquet")
    charge(context, engine, pool)
    plan = Plan(
        context=context,
        task=task,
        problems=problems,
        work=context.work(task, pool),
        labels={
            "task": config.task or "",
            "split": split,
            "model": engine.name,
            "engine": parse_spec(config.engine).name,
            "sampler": str(sampling.spec),
        },
        sampling=sampling,
        weights=weights,
    )
    # Hidden states come with the sampling pass at no cost, so they are kept: the next selector may need them.
    if config.embedder or wants_vectors or "mean" in engine.states:
        plan = _with_embedder(plan, config.embedder or "hidden-mean", engine)
    if not config.until_correct:  # such a run has no pool
        plan = replace(plan, older=_older(plan))
    return plan


def charge(context: Context, engine: Engine, pool: Stage) -> None:
    """Tell an engine that costs money what the pool may cost; HarnessError if the engine or the executor cannot."""
    config = context.config
    if not isinstance(engine, Charges):
        if config.charges:
            raise HarnessError(
                f"run: {config.charges} goes with an engine that pays for tokens (openai), not with "
                f"{parse_spec(config.engine).name!r}"
            )
        return
    engine.charge(Limits(pool.folder, config.prices, config.max_cost, config.max_tokens_total))
    if engine.is_charged and isinstance(context.executor, KeepsModels):
        raise HarnessError(
            "run: money is counted in one process: leave out --executor, or --prices, --max-cost, --max-tokens-total "
            "and batch=true (`concurrency` of engine openai says how many requests are in flight)"
        )


def _older(plan: Plan) -> list[older_pools.Older]:
    pool, adopt, free = plan.work.pool, plan.config.adopt or (), plan.task.revised_by_problem
    return older_pools.pools(pool, plan.problems, adopt, free)


def _weights(context: Context, grading: Task | None, engine: Engine | None = None) -> dict[str, list[Weights]]:
    """The model weights of each stage. If some are missing, show the work ahead and raise HarnessError."""
    config = context.config
    embedder = context.build("embedder", config.embedder) if config.embedder else None
    parts = {name: part for name, part in (("pool", engine), ("embedding", embedder), ("verdict", grading)) if part}
    weights = {name: licences.of([part]) for name, part in parts.items()}
    every = licences.of(parts.values())
    if engine is not None and grading is not None and any(each.fetch for each in every):
        if isinstance(grading, Measured):
            paper = grading.paper if config.paper else {}
            outlook = grading.outlook(_problems(context, grading, "")[0], config.n or paper.get("n") or grading.n)
            if outlook:
                context.progress.say(outlook)
        licences.require(every)
    return weights


def _check_engine(plan: Plan) -> None:
    """Ask the engine whether it can sample, if it will have to. Done last: with a server it costs a response."""
    sampling = plan.sampling
    if sampling is None:
        return
    adopted = {name for pool in plan.older for name in pool.shards}
    if missing_rows.to_sample(plan.work.pool, [problem for problem in plan.problems if problem.id not in adopted]):
        remark = sampling.engine.check(plan.prompts(plan.problems), sampling.max_tokens)
        if remark:
            plan.context.progress.say(remark)


def _imported_plan(context: Context, wants_vectors: bool, with_verdicts: bool) -> Plan:
    """A plan over the responses of a pool file, which a stage imports into the store once."""
    config, pool = context.config, imported_pool(context)
    given = verdicts_given(context, pool) if with_verdicts else False
    n = common_size(config, pool) if with_verdicts else None
    plan = Plan(
        context=context,
        task=pool.task,
        problems=pool.problems,
        work=context.work(pool.task, pool.stage, given=given, n=n),
        labels={
            "task": config.task or "pool",
            "split": "pool",
            "model": pool.path.name.split(".")[0],
            "engine": "pool",
            "sampler": "pool",
        },
        imported=pool,
        weights=_weights(context, None if given else pool.task),
    )
    if config.embeddings:
        vectors = GivenVectors(config.embeddings, pool.lines, config.max_vectors_gb)
        plan = replace(plan, vectors=Vectors(config.embeddings.name, given=vectors))
        return _with_embeddings(plan, {"given": file_digest(vectors.path)})
    if not wants_vectors and not config.embedder:
        return plan
    return _with_embedder(plan, pool_embedder(config, context.progress), None)


def pool_embedder(config: RunConfig, progress: Progress) -> str:
    """The embedder for a pool file: the config's, else the model's states, else TF-IDF, with a line that says so."""
    if not config.embedder and not config.model:
        progress.say("embedder: tfidf, since the pool has neither --embeddings nor --model")
    return config.embedder or ("hidden-mean" if config.model else "tfidf")


def _with_embedder(plan: Plan, spec: str, engine: Engine | None) -> Plan:
    """The plan with that embedder, and the engine whose hidden states it reads, if it reads any."""
    config, context = plan.config, plan.context
    embedder: Embedder = context.build("embedder", spec)
    inputs: dict[str, Any] = {"embedder": context.described("embedder", spec, embedder)}
    if isinstance(embedder, Identified):
        inputs["model"] = dict(embedder.identity())
    if not embedder.state:
        engine = None
    else:
        engine = engine or context.engine(plan.task)
        if embedder.state not in engine.states:
            raise HarnessError(
                f"embedder {spec!r} needs the model's hidden states, which engine {config.engine!r} does not give: "
                "choose another --embedder, e.g. sentence or tfidf"
            )
        inputs["engine"] = dict(engine.identity())
    return _with_embeddings(replace(plan, vectors=Vectors(spec, embedder, engine)), inputs)


def _more_states(plan: Plan, embedders: Sequence[str]) -> list[tuple[str, Stage]]:
    """(kind of state, stage of its vectors) of those embedders that read the states of the plan's engine."""
    stages = []
    for spec in embedders:
        with suppress(HarnessError):  # shown when it is this embedder's turn
            other = _with_embedder(plan, spec, plan.engine)
            state = other.vectors.embedder.state if other.vectors and other.vectors.embedder else None
            if state and other.work.embeddings:
                stages.append((state, other.work.embeddings))
    return stages


def _with_embeddings(plan: Plan, inputs: Mapping[str, Any]) -> Plan:
    """The plan with its embedding stage, keyed by pool, embedder, width and projection seed."""
    key = {"pool": plan.work.pool.key, "dim": plan.config.dim, "projection_seed": plan.config.seed, **inputs}
    stage = plan.context.store.stage("embedding", key, ".safetensors")
    return replace(plan, work=replace(plan.work, embeddings=stage))


def _with_scorer(plan: Plan) -> Plan:
    """The plan with the config's scorer, if it names one, and the stage of its scores, keyed by pool and scorer."""
    spec, context = plan.config.scorer, plan.context
    if not spec:
        return plan
    scorer: Scorer = context.build("scorer", spec)
    inputs = {"pool": plan.work.pool.key, "scorer": context.described("scorer", spec, scorer)}
    if isinstance(scorer, Identified):
        inputs["model"] = dict(scorer.identity())
    stage = context.store.stage("score", inputs, ".parquet")
    weights = {**plan.weights, "score": licences.of([scorer])}
    return replace(plan, scorer=scorer, weights=weights, work=replace(plan.work, scores=stage))


def _sampling(context: Context, task: Task, engine: Engine) -> Sampling:
    """Sampler and sizes: the config's, else (with --paper) the paper's, else the task's small defaults."""
    config, paper = context.config, task.paper if context.config.paper else {}
    changes = {key: str(value) for key, value in paper.get("sampler", {}).items()}
    spec = parse_spec(config.sampler) if config.sampler else Spec("vanilla", changes)
    sampler: Sampler = context.build("sampler", spec)
    n, max_tokens = config.n or paper.get("n") or task.n, config.max_tokens or paper.get("max_tokens")
    sampling = Sampling(engine, sampler, spec, n, max_tokens or task.max_tokens)
    if sampling.steered and not engine.steers:
        raise HarnessError(f"engine {config.engine!r} cannot follow sampler {str(spec)!r}, which steers decoding")
    return sampling


def _sampler_key(context: Context, sampling: Sampling) -> dict[str, Any]:
    """A sampler's key: its parameters fix all that it does, unless it steers; then its code counts too."""
    sampler, spec = sampling.sampler, sampling.spec
    if not sampling.steered:
        return parameters(sampler)
    code = context.described("sampler", str(spec), sampler)["code"]
    return {"name": spec.name, **parameters(sampler), "code": code}


def _problems(context: Context, task: Task, model: str) -> tuple[list[Problem], str]:
    config = context.config
    chosen = config.split or (task.paper.get("split") if config.paper else None)
    split, remark = (chosen, "") if chosen else task.default_split(model)
    if remark:
        context.progress.say(remark)
    if split not in task.splits:
        raise HarnessError(f"task {config.task!r}: no split {split!r} {did_you_mean(split, task.splits)}")
    where = f"split {split!r} of task {config.task!r}"
    every = list(task.problems(split))
    problems = chosen_problems.only(config.only, every, lambda problem: problem.id, where)[: config.limit]
    if not problems:
        raise HarnessError(f"task {config.task!r}: split {split!r} has no problems")
    return problems, split
