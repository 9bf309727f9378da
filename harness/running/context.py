"""What every plan starts from: the config, and what it names, found and built."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.contracts import Engine, Executor, Task
from harness.plugin_system.component import Spec, build, described, parse_spec, source_hash
from harness.plugin_system.presets import graded_as_the_paper
from harness.plugin_system.registry import Registry, load_registry
from harness.stages.work import Work, forget_components
from harness.store.shards import Stage, Store
from harness.system.progress import Progress

from .config import RunConfig


@dataclass(frozen=True)
class Setting:
    """A run's surroundings. `task` is None for a pool that brings its own problems and verdicts."""

    config: RunConfig
    registry: Registry
    store: Store
    task: Task | None
    executor: Executor
    progress: Progress

    def build(self, kind: str, spec: Spec | str, **context: Any) -> Any:
        """The component of that kind and spec."""
        return build(self.registry, kind, spec, **context)

    def model(self, task: Task) -> str | None:
        """The model that was asked for, else the task's own; None (the engine's) too where models are a server's."""
        engine = self.registry.find("engine", parse_spec(self.config.engine).name).load()
        return self.config.model or (None if getattr(engine, "served", False) else task.default_model)

    def engine(self, task: Task) -> Engine:
        """The engine that was asked for, with that model."""
        built: Engine = self.build("engine", self.config.engine, model=self.model(task))
        return built

    def described(self, kind: str, spec: str, component: Any) -> dict[str, Any]:
        """What fixes the component's behaviour, for keys."""
        return described(self.registry.find(kind, parse_spec(spec).name), component)

    def work(self, task: Task, pool: Stage, *, given: bool = False, n: int | None = None) -> Work:
        """The work on a pool. Its verdicts are fixed by the grader's version and code, or are `given` with the pool."""
        config = self.config
        grader = {"task": config.task, "grader": task.grader, "code": self._grading_code(task)}
        grading = {"pool": pool.key, **grader}
        return Work(
            task=config.task,
            data=_text(config.data),
            plugin_files=tuple(Path(path) for path in config.plugin_files),
            pool=pool,
            verdicts=self.store.stage("verdict", grading | {"given": given}, ".parquet"),
            graded=self.store.stage("graded", {**grader, "revision": task.revision}, ".parquet"),
            audits=self.store.stage("audit", grading, ".json"),
            n=n,
            trials=config.trials,
            seed=config.seed,
            rank_timeout=config.rank_timeout,
        )

    def _grading_code(self, task: Task) -> str:
        """The hash of what grades; "" for a pool that brings its own problems and verdicts."""
        name = self.config.task
        return source_hash(task, self.registry.find("task", parse_spec(name).name)) if name else ""


def make_setting(config: RunConfig, progress: Progress) -> Setting:
    """The setting of a config; HarnessError for a task or executor that is not there."""
    forget_components()
    registry = load_registry(config.plugin_files)
    if config.paper and config.task:
        config = replace(config, task=graded_as_the_paper(registry, config.task))
    return Setting(
        config=config,
        registry=registry,
        store=Store(config.store),
        task=build(registry, "task", config.task, data=_text(config.data)) if config.task else None,
        executor=build(registry, "executor", config.executor),
        progress=progress,
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
