"""The context of a run: its config, and the components that the config names, each built once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.contracts import Engine, Executor
from harness.plugin_system.component import Spec, build, described, parse_spec, source_hash
from harness.plugin_system.presets import graded_as_the_paper
from harness.plugin_system.registry import Registration, Registry, load_registry
from harness.stages.answers import runs_answers
from harness.stages.work import Work, forget_components
from harness.store.stage import Stage, Store
from harness.system.progress import Progress
from harness.task import Task

from .config import RunConfig


@dataclass(frozen=True)
class Context:
    """A run's config, store and components. `task` is None for a pool that brings its own problems and verdicts."""

    config: RunConfig
    registry: Registry
    store: Store
    task: Task | None
    executor: Executor
    progress: Progress
    _built: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def build(self, kind: str, spec: Spec | str, **context: Any) -> Any:
        """Return the component of that kind and spec; built once, so that equal calls return one object.

        context  further arguments of its constructor, e.g. `model` of an engine
        """
        key = (kind, str(spec), *context.items())
        if key not in self._built:
            self._built[key] = build(self.registry, kind, spec, **context)
        return self._built[key]

    def model(self, task: Task) -> str | None:
        """The config's model, else the task's default; None: the engine's default.

        The task's default is not used if the engine asks a server.
        """
        engine = self._registration("engine", self.config.engine).load()
        return self.config.model or (None if getattr(engine, "served", False) else task.default_model)

    def engine(self, task: Task) -> Engine:
        """The engine of the config, built with `self.model(task)`."""
        engine: Engine = self.build("engine", self.config.engine, model=self.model(task))
        return engine

    def described(self, kind: str, spec: str, component: Any) -> dict[str, Any]:
        """All that fixes the component's behaviour, as it stands in keys."""
        return described(self._registration(kind, spec), component)

    def work(self, task: Task, pool: Stage, *, given: bool = False, n: int | None = None) -> Work:
        """Return the work on a pool: the stages of its verdicts and audits, and the config's settings.

        given  whether the verdicts come with the pool; part of their key, as the grader always is
        n      how many of each problem's responses count; None: all
        """
        config = self.config
        grader = {"task": config.task, "grader": task.grader, "code": self._grading_code(task)}
        graded = grader | ({"task": task.verdicts_as} if task.verdicts_as else {})
        grading = {"pool": pool.key, **grader}
        shared = graded if task.revised_by_problem else {**graded, "revision": task.revision}
        return Work(
            task=config.task,
            data=_text(config.data),
            plugin_files=tuple(Path(path) for path in config.plugin_files),
            pool=pool,
            verdicts=self.store.stage("verdict", grading | {"given": given}, ".parquet"),
            graded=self.store.stage("graded", shared, ".parquet"),
            answers=self.answers(task),
            audits=self.store.stage("audit", grading, ".json"),
            n=n,
            trials=config.trials,
            seed=config.seed,
            rank_timeout=config.rank_timeout,
        )

    def answers(self, task: Task) -> Stage | None:
        """The stage of answers that cost a run of each response; None if the task's answers cost nothing."""
        if not runs_answers(task):
            return None
        inputs = {"task": self.config.task, "revision": task.revision, "code": self._grading_code(task)}
        return self.store.stage("answer", inputs, ".parquet")

    def _registration(self, kind: str, spec: str) -> Registration:
        return self.registry.find(kind, parse_spec(spec).name)

    def _grading_code(self, task: Task) -> str:
        """The hash of the grader's code; "" for a pool that brings its own problems and verdicts."""
        return source_hash(task, self._registration("task", self.config.task)) if self.config.task else ""


def make_context(config: RunConfig, progress: Progress) -> Context:
    """The context of a config; HarnessError for a task or executor that does not exist."""
    forget_components()
    registry = load_registry(config.plugin_files)
    if config.paper and config.task:
        config = replace(config, task=graded_as_the_paper(registry, config.task))
    return Context(
        config=config,
        registry=registry,
        store=Store(config.store),
        task=build(registry, "task", config.task, data=_text(config.data)) if config.task else None,
        executor=build(registry, "executor", config.executor),
        progress=progress,
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
