"""What a worker with a model is sent, and the components that it builds from that."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.contracts import Embedder, Engine, Identified, Report
from harness.errors import HarnessError
from harness.records import Message, Problem, Sampler

from .work import Work, component


@dataclass(frozen=True)
class Group:
    """Problems that go to the engine together, and their prompts."""

    problems: Sequence[Problem]
    prompts: Sequence[Sequence[Message]]


@dataclass(frozen=True)
class ModelWork:
    """What a worker needs beside the group, to sample and to embed.

    engine, sampler, embedder   specs; None where none is needed
    identities                  of the engine and the embedder where the run was planned: they are part of the keys
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


@dataclass(frozen=True)
class Models:
    """The components of a `ModelWork`, built."""

    engine: Engine | None
    sampler: Sampler | None
    embedder: Embedder | None


Step = Callable[[ModelWork, Models, Group, Report], None]


def in_worker(step: Step, todo: ModelWork, group: Group, report: Report) -> None:
    """Do one step in a worker's process, which keeps its engine and embedder for the next group."""
    step(todo, _models(todo), group, report)


def identity(model: Any) -> dict[str, Any]:
    """All that fixes what an engine or embedder gives, beside its parameters; {} where it says nothing."""
    return dict(model.identity()) if isinstance(model, Identified) else {}


def _models(todo: ModelWork) -> Models:
    files = todo.work.plugin_files
    engine = component("engine", todo.engine, files, (("model", todo.model),)) if todo.engine else None
    embedder = component("embedder", todo.embedder, files) if todo.embedder else None
    sampler = component("sampler", todo.sampler, files) if todo.sampler else None
    for kind, spec, built in (("engine", todo.engine, engine), ("embedder", todo.embedder, embedder)):
        planned, own = todo.identities.get(kind, {}), identity(built)
        if built is not None and own != planned:
            raise HarnessError(f"{kind} {spec!r}: {_difference(own, planned)}")
    return Models(engine, sampler, embedder)


def _difference(own: Mapping[str, Any], planned: Mapping[str, Any]) -> str:
    names = [name for name in {**own, **planned} if own.get(name) != planned.get(name)]
    differing = ", ".join(f"{name} {own.get(name)!r} and not {planned.get(name)!r}" for name in names)
    return (
        f"on {platform.node()} it has {differing}, as where the run was started, and would make another pool: name "
        "what differs (a dtype, a device, a revision), or start the run on a machine like it"
    )
