"""What is done with a model for a few problems: draw their responses, embed them. Here or in a worker's process.

A `Drawing` is plain data, so that any executor can send it; `there` builds engine and embedder from it where the work
is done, and keeps them. A run without such an executor uses the `Models` that it has built already.
"""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from harness.contracts import Embedder, Engine
from harness.errors import HarnessError
from harness.records import Message, Problem, Responses, Sampler
from harness.store import missing_rows, shards

from .project import project
from .work import Work, component, embedded, problem_seed

Report = Callable[[int], None]
Keep = Callable[[Problem, Responses], None]


@dataclass(frozen=True)
class Group:
    """Problems that go to the engine together, and how its model is asked them."""

    problems: Sequence[Problem]
    prompts: Sequence[Sequence[Message]]


@dataclass(frozen=True)
class Drawing:
    """What a worker needs beside the group.

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
    """The components of a `Drawing`, built."""

    engine: Engine | None
    sampler: Sampler | None
    embedder: Embedder | None


Step = Callable[[Drawing, Models, Group, Report], None]


def there(step: Step, drawing: Drawing, group: Group, report: Report) -> None:
    """One step in a worker's process, which keeps its engine and embedder for the next group."""
    step(drawing, _models(drawing), group, report)


def identity(component: Any) -> dict[str, Any]:
    """All that fixes what an engine or embedder gives, beside its parameters; {} where it says nothing."""
    return dict(component.identity()) if hasattr(component, "identity") else {}


def _models(drawing: Drawing) -> Models:
    files = drawing.work.plugin_files
    engine = component("engine", drawing.engine, files, (("model", drawing.model),)) if drawing.engine else None
    embedder = component("embedder", drawing.embedder, files) if drawing.embedder else None
    for kind, one in (("engine", engine), ("embedder", embedder)):
        planned = drawing.identities.get(kind, {})
        found = identity(one)
        if one is not None and found != planned:
            raise HarnessError(f"{kind} {getattr(drawing, kind)!r}: {_difference(found, planned)}")
    return Models(engine, component("sampler", drawing.sampler, files) if drawing.sampler else None, embedder)


def _difference(found: Mapping[str, Any], planned: Mapping[str, Any]) -> str:
    names = [name for name in {**found, **planned} if found.get(name) != planned.get(name)]
    said = ", ".join(f"{name} {found.get(name)!r} and not {planned.get(name)!r}" for name in names)
    return (
        f"on {platform.node()} it has {said}, as where the run was started, and would make another pool: name what "
        "differs (a dtype, a device, a revision), or start the run on a machine like it"
    )


# The steps.


def draw(drawing: Drawing, models: Models, group: Group, report: Report) -> None:
    """Sample the responses of a group's problems that the store lacks, and keep each problem's once they are finished.

    A worker that takes over a lost one's group samples only what that one has not kept.
    """
    state = models.embedder.state if models.embedder else None
    left = _without_shard(drawing, group)
    report(drawing.n * (len(group.problems) - len(left.problems)))
    if left.problems:
        keep = partial(_keep, drawing, state)
        missing_rows.require_most(_ask(drawing, models, left, report, keep, states=[state] if state else []))


def draw_again(drawing: Drawing, models: Models, group: Group, report: Report) -> None:
    """Ask for the responses that did not come before, and put them among the others."""
    pool = drawing.work.pool
    rows = [sorted(shards.missing_in(pool.path(problem))) for problem in group.problems]
    _ask(drawing, models, group, report, partial(missing_rows.fill, pool), rows=rows)


def embed(drawing: Drawing, models: Models, group: Group, report: Report) -> None:
    """Embed a group's responses, which are in the store: by the embedder, or by a second pass of the engine."""
    work = drawing.work
    assert work.embeddings is not None
    for problem, chat in zip(group.problems, group.prompts, strict=True):
        responses = shards.read_responses(work.pool, problem)
        vectors = _vectors(drawing, models, problem, chat, responses)
        giver = _giver(drawing, bool(models.embedder and models.embedder.state), problem)
        shards.write_vectors(work.embeddings, problem, project(vectors, drawing.dim, work.seed, giver))
        report(1)


def _without_shard(drawing: Drawing, group: Group) -> Group:
    """The part of a group whose responses are not in the store."""
    pairs = zip(group.problems, group.prompts, strict=True)
    left = [(problem, prompt) for problem, prompt in pairs if not drawing.work.pool.path(problem).exists()]
    return replace(group, problems=[problem for problem, _ in left], prompts=[prompt for _, prompt in left])


def _ask(drawing: Drawing, models: Models, group: Group, report: Report, keep: Keep, **which: Any) -> list[Responses]:
    """A group's responses, each problem's kept as soon as the engine has finished them; an engine may say so twice."""
    assert models.engine is not None
    assert models.sampler is not None
    if says_done(models.engine):
        which["done"] = lambda j, responses: keep(group.problems[j], responses)
    sampled = models.engine.sample(
        group.prompts,
        n=drawing.n,
        sampler=models.sampler,
        max_tokens=drawing.max_tokens,
        seeds=[problem_seed("sample", drawing.work.seed, problem) for problem in group.problems],
        report=report,
        **which,
    )
    for problem, responses in zip(group.problems, sampled, strict=True):
        keep(problem, responses)
    return sampled


def says_done(engine: Engine) -> bool:
    """Whether `sample` names a parameter `done`. One that passes on any options may change what comes of it: no."""
    return "done" in inspect.signature(engine.sample).parameters


def _keep(drawing: Drawing, state: str | None, problem: Problem, responses: Responses) -> None:
    """Keep what the store lacks of a problem's responses. Vectors, where they are there, are kept before the texts."""
    work = drawing.work
    is_new = not work.pool.path(problem).exists()
    if is_new:
        missing_rows.mark(work.pool, problem, responses.missing)
    if not len(responses) and responses.missing:
        return
    vectors = responses.states.get(state) if state else None
    if vectors is not None and work.embeddings and (is_new or not work.embeddings.path(problem).exists()):
        projected = project(vectors, drawing.dim, work.seed, _giver(drawing, True, problem))
        shards.write_vectors(work.embeddings, problem, projected)
    if is_new:
        shards.write_responses(work.pool, problem, responses)


def _giver(drawing: Drawing, states: bool, problem: Problem) -> str:
    """Who gives a problem's vectors, for a message: the engine its states, or the embedder."""
    who = f"engine {drawing.engine!r}" if states else f"embedder {drawing.embedder!r}"
    return f"{who}, problem {problem.id!r}"


def _vectors(drawing: Drawing, models: Models, problem: Problem, chat: Sequence[Message], responses: Responses) -> Any:
    assert models.embedder is not None
    state = models.embedder.state
    if state and models.engine:
        return models.engine.encode(chat, responses, [state])[state]
    return embedded(models.embedder, drawing.embedder or "", problem, responses.texts)
