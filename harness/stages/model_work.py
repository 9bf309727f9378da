"""What a worker that runs models is sent, and the components that it builds from that."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.contracts import Embedder, Engine, Identified, Report, Scorer
from harness.errors import HarnessError
from harness.records import Message, Problem, Sampler
from harness.store.stage import Stage

from .work import Work, component


@dataclass(frozen=True)
class Group:
    """Problems that go to the engine in one call, and their prompts."""

    problems: Sequence[Problem]
    prompts: Sequence[Sequence[Message]]


@dataclass(frozen=True)
class ModelWork:
    """What a worker needs to sample, to embed and to score, beside the group of problems.

    engine, sampler, embedder, scorer   specs; None if not needed
    n                           responses to each problem
    dim                         vectors with more features are projected to this number
    identities                  "engine", "embedder", "scorer" -> identity of the planned one, part of the keys
    more_states                 (kind of state, its stage of vectors) that the sampling pass keeps beside the embedder's
    """

    work: Work
    engine: str | None
    model: str | None
    sampler: str | None
    embedder: str | None
    n: int
    max_tokens: int
    dim: int
    identities: Mapping[str, Mapping[str, Any]]
    scorer: str | None = None
    more_states: Sequence[tuple[str, Stage]] = ()


@dataclass(frozen=True)
class Models:
    """The built components of a `ModelWork`."""

    engine: Engine | None
    sampler: Sampler | None
    embedder: Embedder | None
    scorer: Scorer | None = None


Step = Callable[[ModelWork, Models, Group, Report], None]


def in_worker(step: Step, todo: ModelWork, group: Group, report: Report) -> None:
    """Call `step` for a group, with models that the worker builds once and uses again for the next group.

    HarnessError if an engine or embedder that is built here has another identity than the planned one.
    """
    step(todo, _models(todo), group, report)


def identity(model: Any) -> dict[str, Any]:
    """The identity of an engine or embedder: all that fixes its output beside its parameters; {} if it has none."""
    return dict(model.identity()) if isinstance(model, Identified) else {}


def _models(todo: ModelWork) -> Models:
    files = todo.work.plugin_files
    engine = component("engine", todo.engine, files, (("model", todo.model),)) if todo.engine else None
    embedder = component("embedder", todo.embedder, files) if todo.embedder else None
    sampler = component("sampler", todo.sampler, files) if todo.sampler else None
    scorer = component("scorer", todo.scorer, files) if todo.scorer else None
    checked = (("engine", todo.engine, engine), ("embedder", todo.embedder, embedder), ("scorer", todo.scorer, scorer))
    for kind, spec, built in checked:
        planned, own = todo.identities.get(kind, {}), identity(built)
        if built is not None and own != planned:
            raise HarnessError(f"{kind} {spec!r}: {_difference(own, planned)}")
    return Models(engine, sampler, embedder, scorer)


def _difference(own: Mapping[str, Any], planned: Mapping[str, Any]) -> str:
    names = [name for name in {**own, **planned} if own.get(name) != planned.get(name)]
    differing = ", ".join(f"{name} {own.get(name)!r} and not {planned.get(name)!r}" for name in names)
    return (
        f"on {platform.node()} it has {differing}, as where the run was started, and would make another pool: name "
        "what differs (a dtype, a device, a revision), or start the run on a machine like it"
    )
