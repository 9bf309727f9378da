"""From a config to a plan: every component built, every key computed, everything that can fail cheaply checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import foreign
from .component import Spec, build, described, parameters, parse_spec, source_hash
from .config import RunConfig
from .contracts import Embedder, Engine, Executor, Task
from .errors import HarnessError, did_you_mean
from .pools import GivenVectors, file_digest
from .progress import Progress
from .records import Message, Problem, Sampler
from .registry import Registry, load_registry
from .store import Stage, Store
from .work import Work


@dataclass(frozen=True)
class Sampling:
    """How the pool is drawn: the engine, the sampler and the sizes."""

    engine: Engine
    sampler: Sampler
    n: int
    max_tokens: int


@dataclass(frozen=True)
class Plan:
    """All that the stages work on. Stages are keyed; a shard that is there is not made again.

    work        what every worker needs; `work.embeddings` is None where no selector needs vectors
    sampling    None where the responses exist already
    engine      the engine whose hidden states are the vectors; None where none is needed
    embedder    None where vectors are given or not needed
    labels      what tables show: task, model, engine, sampler, embedder, split
    """

    config: RunConfig
    registry: Registry
    store: Store
    task: Task
    problems: Sequence[Problem]
    work: Work
    labels: Mapping[str, str]
    executor: Executor
    sampling: Sampling | None = None
    engine: Engine | None = None
    embedder: Embedder | None = None
    given: GivenVectors | None = None

    def prompts(self, problems: Sequence[Problem]) -> list[list[Message]]:
        """The problems as chats."""
        return [self.task.messages(problem) for problem in problems]

    def begin(self) -> None:
        """Make the stages' folders, so that a store that cannot be written is found before the first token."""
        rankings = [self.for_selector(selector).rankings for selector in self.config.selectors]
        for stage in (self.work.pool, self.work.embeddings, self.work.verdicts, *rankings):
            if stage:
                stage.begin()

    def for_selector(self, selector: str) -> Work:
        """The work of ranking with that selector, under its own key."""
        spec = parse_spec(selector)
        component = build(self.registry, "selector", spec)
        needs_vectors = "embeddings" in needs(component)
        inputs = {
            "pool": self.work.pool.key,
            "verdict": self.work.verdicts.key,
            "embedding": self.work.embeddings.key if self.work.embeddings and needs_vectors else None,
            "selector": described(self.registry.find("selector", spec.name), component),
            "n": self.work.n,
            "trials": self.config.trials,
            "seed": self.config.seed,
        }
        return replace(
            self.work,
            selector=selector,
            rankings=self.store.stage("ranking", inputs, ".json"),
            embeddings=self.work.embeddings if needs_vectors else None,
        )


def make_plan(config: RunConfig, progress: Progress) -> Plan:
    """The plan of a run; HarnessError, one line, for whatever is wrong with what was asked."""
    registry = load_registry(config.plugin_files)
    selectors = [build(registry, "selector", spec) for spec in config.selectors]
    _check_selectors(config.selectors, selectors)
    executor = build(registry, "executor", config.executor)
    store = Store(config.store)
    task = build(registry, "task", config.task, data=config.data and str(config.data)) if config.task else None
    needed = any("embeddings" in needs(selector) for selector in selectors)
    if config.pool:
        plan = _pool_plan(config, registry, store, task, executor, needed, progress)
    else:
        assert task is not None  # the config has checked it
        plan = _sampling_plan(config, registry, store, task, executor, progress)
    for spec in config.selectors:
        plan.for_selector(spec)
    return plan


def needs(selector: Any) -> Sequence[str]:
    """The columns that a selector reads beyond texts, lengths and answers; vectors, unless it says otherwise."""
    columns: Sequence[str] = getattr(selector, "needs", ("embeddings",))
    return columns


def _check_selectors(specs: Sequence[str], selectors: Sequence[Any]) -> None:
    for spec, selector in zip(specs, selectors, strict=True):
        if not hasattr(selector, "rank") and not hasattr(selector, "select"):
            raise HarnessError(f"selector {spec!r}: has neither rank(pool, rng) nor select(pool, k, rng)")
        unknown = set(needs(selector)) - {"embeddings", "logprobs"}
        if unknown:
            raise HarnessError(f"selector {spec!r}: needs {sorted(unknown)}; it can need 'embeddings' and 'logprobs'")


def _sampling_plan(
    config: RunConfig, registry: Registry, store: Store, task: Task, executor: Executor, progress: Progress
) -> Plan:
    engine: Engine = build(registry, "engine", config.engine, model=config.model or task.default_model)
    sampling = Sampling(engine, *_sampler_and_sizes(config, registry, task))
    if getattr(sampling.sampler, "steers", False) and not engine.steers:
        raise HarnessError(f"engine {config.engine!r} cannot follow sampler {config.sampler!r}, which steers decoding")
    problems, split = _problems(config, task, engine.name, progress)
    embedder_spec = config.embedder or "hidden-mean"
    embedder: Embedder = build(registry, "embedder", embedder_spec)
    _check_states(config, engine, embedder, embedder_spec)
    plan = Plan(
        config=config,
        registry=registry,
        store=store,
        task=task,
        problems=problems,
        work=_work(config, registry, store, task, _pool_inputs(config, registry, task, sampling)),
        labels={
            "task": config.task or "",
            "split": split,
            "model": engine.name,
            "engine": parse_spec(config.engine).name,
            "sampler": config.sampler or "vanilla",
            "embedder": embedder_spec,
        },
        executor=executor,
        sampling=sampling,
        engine=engine if embedder.state else None,
        embedder=embedder,
    )
    engine.check(plan.prompts(problems), sampling.max_tokens)
    return _with_embeddings(plan, {"embedder": _described(registry, "embedder", embedder_spec, embedder)})


def _pool_plan(
    config: RunConfig,
    registry: Registry,
    store: Store,
    task: Task | None,
    executor: Executor,
    needed: bool,
    progress: Progress,
) -> Plan:
    """A plan over responses that exist already: the file is imported into the store, once."""
    assert config.pool is not None
    imported = foreign.import_pool(config, registry, store, task, progress)
    embedder_spec = config.embedder or ("hidden-mean" if config.model else "tfidf")
    embedder = engine = given = None
    if config.embeddings:
        given = GivenVectors(config.embeddings)
    elif needed or config.embedder:
        embedder = build(registry, "embedder", embedder_spec)
        if not config.embedder and not config.model:
            progress.say("embedder: tfidf, since the pool has neither --embeddings nor --model")
        if embedder.state:
            engine = build(registry, "engine", config.engine, model=config.model or imported.task.default_model)
            _check_states(config, engine, embedder, embedder_spec)
    shown = str(config.embeddings.name) if config.embeddings else embedder_spec if embedder else "none"
    plan = Plan(
        config=config,
        registry=registry,
        store=store,
        task=imported.task,
        problems=imported.problems,
        work=imported.work,
        labels={
            "task": config.task or "pool",
            "split": "pool",
            "model": config.pool.name.split(".")[0],
            "engine": "pool",
            "sampler": "pool",
            "embedder": shown,
        },
        executor=executor,
        engine=engine,
        embedder=embedder,
        given=given,
    )
    if given:
        return _with_embeddings(plan, {"given": file_digest(given.path)})
    if embedder:
        inputs = {"embedder": _described(registry, "embedder", embedder_spec, embedder)}
        return _with_embeddings(plan, inputs | ({"engine": engine.identity()} if engine else {}))
    return plan


def _described(registry: Registry, kind: str, spec: str, component: Any) -> dict[str, Any]:
    return described(registry.find(kind, parse_spec(spec).name), component)


def _with_embeddings(plan: Plan, inputs: Mapping[str, Any]) -> Plan:
    """The plan with its embedding stage: pool, embedder, width and projection seed make the key."""
    key = {"pool": plan.work.pool.key, "dim": plan.config.dim, "projection_seed": plan.config.seed, **inputs}
    stage = plan.store.stage("embedding", key, ".safetensors")
    return replace(plan, work=replace(plan.work, embeddings=stage))


def _check_states(config: RunConfig, engine: Engine, embedder: Embedder, spec: str) -> None:
    if embedder.state and embedder.state not in engine.states:
        raise HarnessError(
            f"embedder {spec!r} needs the model's hidden states, which engine {config.engine!r} does not give: "
            "choose another --embedder"
        )


def _sampler_and_sizes(config: RunConfig, registry: Registry, task: Task) -> tuple[Sampler, int, int]:
    """The sampler, n and max_tokens: as asked, else (with --paper) as the paper's, else the task's small defaults."""
    paper = task.paper if config.paper else {}
    spec = parse_spec(config.sampler or "vanilla")
    if not config.sampler:
        spec = Spec(spec.name, {key: str(value) for key, value in paper.get("sampler", {}).items()})
    sampler: Sampler = build(registry, "sampler", spec)
    n = config.n or paper.get("n") or task.n
    return sampler, n, config.max_tokens or paper.get("max_tokens") or task.max_tokens


def _problems(config: RunConfig, task: Task, model: str, progress: Progress) -> tuple[list[Problem], str]:
    split, remark = (config.split, "") if config.split else task.default_split(model)
    if remark:
        progress.say(remark)
    if split not in task.splits:
        raise HarnessError(f"task {config.task!r}: no split {split!r} {did_you_mean(split, task.splits)}")
    problems = list(task.problems(split))[: config.limit]
    if not problems:
        raise HarnessError(f"task {config.task!r}: split {split!r} has no problems")
    return problems, split


def _pool_inputs(config: RunConfig, registry: Registry, task: Task, sampling: Sampling) -> dict[str, Any]:
    return {
        "task": {"name": config.task, "revision": task.revision},
        "engine": dict(sampling.engine.identity()),
        "sampler": parameters(sampling.sampler),
        "n": sampling.n,
        "max_tokens": sampling.max_tokens,
        "seed": config.seed,
    }


def _work(config: RunConfig, registry: Registry, store: Store, task: Task, pool_inputs: Mapping[str, Any]) -> Work:
    pool = store.stage("pool", pool_inputs, ".parquet")
    return Work(
        task=config.task,
        data=str(config.data) if config.data else None,
        plugin_files=tuple(Path(path) for path in config.plugin_files),
        pool=pool,
        verdicts=store.stage("verdict", grading(config, task, pool), ".parquet"),
        trials=config.trials,
        seed=config.seed,
    )


def grading(config: RunConfig, task: Task, pool: Stage) -> dict[str, Any]:
    """What fixes the verdicts: the pool, the task's grader version and the file that holds the grader."""
    return {"pool": pool.key, "task": config.task, "grader": task.grader, "file": source_hash(task)}
