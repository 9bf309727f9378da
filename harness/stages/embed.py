"""Embed: compute the vectors of responses, by an embedder or a second pass of the engine; project and keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.contracts import Embedder, Report
from harness.errors import HarnessError, contained, error_text
from harness.records import Message, Problem, Responses
from harness.store import shards

from .model_work import Group, Models, ModelWork
from .project import project


def embed(todo: ModelWork, models: Models, group: Group, report: Report) -> None:
    """Embed a group's stored responses, by the embedder or by a second pass of the engine, and write the vectors.

    Responses are reported as the engine passes them, the rest once their vectors are written.
    """
    for problem, prompt in zip(group.problems, group.prompts, strict=True):
        responses = shards.read_responses(todo.work.pool.path(problem))
        reported = 0

        def count(rows: int) -> None:
            nonlocal reported
            reported += rows
            report(rows)

        vectors = _vectors(todo, models, problem, prompt, responses, count)
        of_engine = bool(models.embedder and models.embedder.state)
        keep_vectors(todo, problem, vectors, source(todo, problem, of_engine))
        report(len(responses) - reported)


def keep_vectors(todo: ModelWork, problem: Problem, vectors: Any, source: str) -> None:
    """Write one problem's vectors into its shard, projected to `dim` features if they have more.

    vectors  (n, d), dense or scipy-sparse
    source   who made them; it begins the HarnessError for a vector that holds NaN or infinity
    """
    assert todo.work.embeddings is not None
    shards.write_vectors(todo.work.embeddings.path(problem), project(vectors, todo.dim, todo.work.seed, source))


def source(todo: ModelWork, problem: Problem, of_engine: bool) -> str:
    """The source of a problem's vectors, for messages: the engine or the embedder."""
    name = f"engine {todo.engine!r}" if of_engine else f"embedder {todo.embedder!r}"
    return f"{name}, problem {problem.id!r}"


def _vectors(
    todo: ModelWork, models: Models, problem: Problem, prompt: Sequence[Message], responses: Responses, report: Report
) -> Any:
    assert models.embedder is not None
    state = models.embedder.state
    if state and models.engine:
        return models.engine.encode(prompt, responses, [state], report)[state]
    return embedded(models.embedder, todo.embedder or "", problem, responses.texts)


def embedded(embedder: Embedder, spec: str, problem: Problem, texts: Sequence[str]) -> Any:
    """The embedder's vectors of texts, (n, d) dense or scipy-sparse; HarnessError if it raises or returns others.

    Lists, tensors and data frames are converted to arrays. `spec`: the embedder's name in messages.
    """
    try:
        with contained():
            vectors = embedder.embed(problem, texts)
    except HarnessError:
        raise
    except Exception as failure:
        raise HarnessError(f"embedder {spec!r}, problem {problem.id!r}: {error_text(failure)}") from failure
    if not hasattr(vectors, "toarray"):
        try:
            vectors = np.asarray(vectors)
        except (ValueError, TypeError, RuntimeError) as failure:
            raise HarnessError(f"embedder {spec!r}: gave no (n, d) array of numbers ({failure})") from failure
    if vectors.dtype.kind not in "fiub":
        raise HarnessError(
            f"embedder {spec!r}: gave {type(vectors).__name__} of {vectors.dtype}, expected (n, d) numbers"
        )
    if len(vectors.shape) != 2 or vectors.shape[0] != len(texts):
        raise HarnessError(f"embedder {spec!r}: gave shape {vectors.shape} for {len(texts)} responses")
    return vectors
