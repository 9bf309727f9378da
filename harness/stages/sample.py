"""Sample: a group of problems' responses from the engine, each problem's kept as soon as it is finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from harness.contracts import Report, tokens_of
from harness.records import Problem, Responses, SampleRequest
from harness.store import missing_rows, shards
from harness.store.stage import Stage

from .embed import keep_vectors, source
from .model_work import Group, Models, ModelWork
from .work import problem_seed

Keep = Callable[[Problem, Responses], None]


def sample(todo: ModelWork, models: Models, group: Group, report: Report) -> None:
    """Sample the responses to a group's problems that have no shard yet, and write each problem's once it is finished.

    So a worker that takes over the group of a lost worker samples only what the lost one has not written. HarnessError
    if more than half of the responses did not arrive.
    """
    wanted = _wanted_states(todo, models)
    missing = _without_shard(todo, group)
    report(todo.n * (len(group.problems) - len(missing.problems)))
    if missing.problems:
        states = list(dict.fromkeys(state for state, _ in wanted))
        missing_rows.require_most(_sample(todo, models, missing, report, partial(_keep, todo, wanted), states=states))


def sample_missing(todo: ModelWork, models: Models, group: Group, report: Report) -> None:
    """Sample the responses that are missing from the shards of a group's problems, and add them to these shards."""
    pool = todo.work.pool
    rows = [sorted(shards.read_missing(pool.path(problem))) for problem in group.problems]
    _sample(todo, models, group, report, partial(missing_rows.fill, pool), rows=rows)


def _wanted_states(todo: ModelWork, models: Models) -> list[tuple[str, Stage | None]]:
    """The kinds of states to take while sampling, each with its stage of vectors: the embedder's, and the grid's."""
    state = models.embedder.state if models.embedder else None
    return [*([(state, todo.work.embeddings)] if state else []), *todo.more_states]


def _without_shard(todo: ModelWork, group: Group) -> Group:
    """The part of a group whose responses are not in the store."""
    pairs = zip(group.problems, group.prompts, strict=True)
    missing = [(problem, prompt) for problem, prompt in pairs if not todo.work.pool.path(problem).exists()]
    return replace(group, problems=[problem for problem, _ in missing], prompts=[prompt for _, prompt in missing])


def _sample(
    todo: ModelWork,
    models: Models,
    group: Group,
    report: Report,
    keep: Keep,
    states: Sequence[str] = (),
    rows: Sequence[Sequence[int]] | None = None,
) -> list[Responses]:
    """Sample a group's responses, and keep each problem's once it is finished; an engine may report a problem twice."""
    assert models.engine is not None
    assert models.sampler is not None
    journals = [missing_rows.journal(todo.work.pool, problem) for problem in group.problems]

    def keep_paid(j: int, responses: Responses) -> None:
        keep(group.problems[j], responses)
        journals[j].unlink(missing_ok=True)

    sampled = models.engine.sample(
        SampleRequest(
            prompts=group.prompts,
            n=todo.n,
            sampler=models.sampler,
            max_tokens=todo.max_tokens,
            seeds=[problem_seed("sample", todo.work.seed, problem) for problem in group.problems],
            states=states,
            rows=rows,
            report=report,
            tokens=tokens_of(report),
            journals=journals,
            done=keep_paid,
        )
    )
    for j, responses in enumerate(sampled):
        keep_paid(j, responses)
    return sampled


def _keep(todo: ModelWork, wanted: Sequence[tuple[str, Stage | None]], problem: Problem, responses: Responses) -> None:
    """Keep a problem's responses that the store lacks. Their vectors, if any, are written before the texts."""
    work = todo.work
    is_new = not work.pool.path(problem).exists()
    if is_new:
        missing_rows.mark(work.pool, problem, responses.missing)
    if not len(responses) and responses.missing:
        return
    for state, stage in wanted:
        vectors = responses.states.get(state)
        if vectors is not None and stage and (is_new or not stage.path(problem).exists()):
            of_stage = replace(todo, work=replace(work, embeddings=stage))
            keep_vectors(of_stage, problem, vectors, source(todo, problem, of_engine=True))
    if is_new:
        shards.write_responses(work.pool.path(problem), problem, responses)
