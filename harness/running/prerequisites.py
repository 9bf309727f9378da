"""What a run needs and may lack: libraries, data, model weights, a grader. What is missing is named together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.contracts import Identified, NamesWeights, NeedsLibraries, Selector
from harness.errors import HarnessError, Lacking
from harness.plugin_system.component import require_weights, weights_of
from harness.store.stage import Stage
from harness.system import extras
from harness.task import Task

from .context import Context
from .plan import Plan

Check = Callable[[], Any]


def require_libraries(components: Mapping[str, Any]) -> None:
    """Raise HarnessError, one line, if libraries of these components (by names like "selector rnd") are missing."""
    extras.require_all({who: part.libraries for who, part in components.items() if isinstance(part, NeedsLibraries)})


def users(plan: Plan) -> dict[str, Any]:
    """The components that a run of the plan will use, by names like "engine vllm": those with something to make."""

    def lacks(stage: Stage | None) -> bool:
        return stage is not None and bool(stage.missing(plan.problems))

    config, vectors = plan.config, plan.vectors
    embeds, samples = lacks(plan.work.embeddings), plan.sampling is not None and lacks(plan.work.pool)
    used: dict[str, Any] = {f"executor {config.executor}": plan.context.executor}
    if plan.engine and (embeds or samples):
        used[f"engine {config.engine}"] = plan.engine
    if vectors and vectors.embedder and embeds:
        used[f"embedder {vectors.spec}"] = vectors.embedder
    if plan.scorer and lacks(plan.work.scores):
        used[f"scorer {config.scorer}"] = plan.scorer
    ranks = {spec: part for spec, part in plan.selectors.items() if lacks(plan.for_selector(spec).rankings)}
    return used | {f"selector {spec}": part for spec, part in ranks.items()}


def together(first: HarnessError, context: Context, selectors: Mapping[str, Selector]) -> HarnessError:
    """An error that says what else stands in the way of a run whose planning failed; `first` itself if nothing does."""
    faults = {str(first): first}
    for check in _checks(context, selectors, str(first)):
        try:
            check()
        except HarnessError as failure:
            faults.setdefault(str(failure), failure)
    if len(faults) == 1:
        return first
    listed = "; ".join(f"({number}) {fault}" for number, fault in enumerate(faults, 1))
    kind = Lacking if all(isinstance(fault, Lacking) for fault in faults.values()) else HarnessError
    return kind(f"{len(faults)} things stand in the way: {listed}")


def _checks(context: Context, selectors: Mapping[str, Selector], known: str) -> Iterator[Check]:
    """What to try, each raising HarnessError if it is lacking; weights that `known` names are not named again."""
    config, task = context.config, context.task
    components: dict[str, Any] = {f"selector {spec}": part for spec, part in selectors.items()}
    embedder = context.build("embedder", config.embedder) if config.embedder else None
    if embedder:
        components[f"embedder {config.embedder}"] = embedder
    runs_model = not config.pool or bool(config.model) or bool(getattr(embedder, "state", None))
    engine = context.engine(task) if task and runs_model else None
    if engine:
        components[f"engine {config.engine}"] = engine
    yield lambda: require_libraries(components)
    weights = weights_of([*filter(None, (engine, embedder)), *([task] if task and not config.pool else [])])
    yield lambda: require_weights([each for each in weights if str(each) not in known])
    if isinstance(engine, Identified) and not isinstance(engine, NamesWeights):
        yield engine.identity
    if task:
        split = config.split or task.default_split("")[0]
        yield lambda: list(task.problems(split))
    if task and not config.pool and not isinstance(task, NamesWeights):
        yield lambda: _check_grader(task, config.unsafe_exec)


def _check_grader(task: Task, unsafe_exec: bool) -> None:
    try:
        task.check(unsafe_exec=unsafe_exec)
    except HarnessError as failure:
        raise Lacking(str(failure)) from failure
