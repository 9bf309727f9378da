"""Columns of vectors and of scores: what a model makes of responses that exist, and that is no verdict."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.contracts import Embedder, Scorer
from harness.errors import HarnessError, contained, error_text
from harness.pools.given import GivenVectors
from harness.records import Floats, Message, Problem
from harness.system.json_text import storable

from .column import Column, Out, Part, Question, Todo
from .responses import SCORE, responses_of
from .store import count_rows, table

BLOCK = 512  # rows that are projected at once: 6,400 x 4,096 take a quarter of the time and memory so


class OfResponses(Column):
    """A column with a row for each response, made from the responses and what they answer; progress counts rows."""

    by_rows: ClassVar[bool] = True
    reports: ClassVar[bool] = True

    def rows(self, question: Question, read_from: Sequence[Path]) -> int:
        return sum(map(count_rows, read_from[:1]))


@dataclass(frozen=True)
class Vectors(OfResponses):
    """Vectors (n, d) float32 of an embedder, or of the engine's hidden states; projected to `dim`, not centred."""

    kind: ClassVar[str] = "vectors"
    verb: ClassVar[str] = "embed"
    noun: ClassVar[str] = "embeddings"
    uses_model: ClassVar[bool] = True

    embedder: Part
    responses: Column
    engine: Part | None  # that computes the states; None for an embedder that needs none
    dim: int
    projection_seed: int

    @property
    def state(self) -> str:
        """The kind of hidden state; "" for vectors of texts."""
        return self.embedder.built.state or ""

    @property
    def shown(self) -> str:
        return self.embedder.spec

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        """Embed: by a second pass of the engine, or by the embedder."""
        out.require_same()
        for each in todo:
            responses, reported = responses_of(each.given["responses"]), 0

            def count(rows: int) -> None:
                nonlocal reported
                reported += rows
                out.report(rows)

            if self.engine:
                states = self.engine.built.encode(each.question.chat, responses, [self.state], count)
                rows = self.of_states(states[self.state], each.problem)
            else:
                vectors = embedded(self.embedder.built, self.embedder.spec, each.problem, responses.texts)
                source = f"embedder {self.embedder.spec!r}, problem {each.problem.id!r}"
                rows = project(vectors, self.dim, self.projection_seed, source)
            out.keep(each, rows)
            out.report(len(responses) - reported)

    def of_states(self, states: Any, problem: Problem) -> Floats:
        """The rows of an engine's hidden states (n, d); HarnessError for NaN and infinity."""
        assert self.engine is not None
        source = f"engine {self.engine.spec!r}, problem {problem.id!r}"
        return project(states, self.dim, self.projection_seed, source)


@dataclass(frozen=True)
class OwnVectors(OfResponses):
    """Vectors (n, d) float32 from a file of the user's (`--embeddings`)."""

    kind: ClassVar[str] = "vectors"
    verb: ClassVar[str] = "embed"
    noun: ClassVar[str] = "embeddings"

    given: str  # the file's hash
    responses: Column
    dim: int
    projection_seed: int
    file: GivenVectors = field(compare=False, repr=False)

    here: ClassVar[bool] = True  # the file need not be on other machines

    @functools.cached_property
    def name(self) -> str:
        return self.file.path.name.partition(".")[0] or "vectors"

    @property
    def shown(self) -> str:
        return self.file.path.name

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        for each in todo:
            n = len(each.given["responses"])
            source = f"embeddings {self.file.path}: {each.problem.id!r}"
            vectors = self.file.get(each.problem.id, n)
            out.keep(each, project(vectors, self.dim, self.projection_seed, source))
            out.report(n)


def embedded(embedder: Embedder, spec: str, problem: Problem, texts: Sequence[str]) -> Any:
    """The embedder's vectors of texts, (n, d) dense or scipy-sparse; HarnessError if it raises or returns others.

    Lists, tensors and data frames are converted to arrays. `spec`: the embedder's name in messages.
    """
    with named_failure(f"embedder {spec!r}", problem, passes=True):
        vectors = embedder.embed(problem, texts)
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


@contextmanager
def named_failure(who: str, problem: Problem | str, passes: bool = False) -> Iterator[None]:
    """A context for calls of a plugin: what it raises becomes a HarnessError that names it and the problem.

    passes  whether a HarnessError is left as it is
    """
    name = problem if isinstance(problem, str) else repr(problem.id)
    try:
        with contained():
            yield
    except Exception as failure:
        if passes and isinstance(failure, HarnessError):
            raise
        raise HarnessError(f"{who}, problem {name}: {error_text(failure)}") from failure


def projection_of(embedder: Embedder, dim: int, seed: int) -> tuple[int, int]:
    """`dim` and `seed` as `project` takes them; an embedder's own `width` and 0 where it says one: no projection."""
    width = getattr(embedder, "width", None)
    return (width, 0) if width else (dim, seed)


def project(vectors: Any, dim: int, seed: int, giver: str) -> Floats:
    """Vectors (n, d), dense or scipy-sparse, as (n, min(d, dim)) float32: projected if d > dim, else unchanged.

    A sparse random projection (Li, Hastie & Church 2006). The matrix depends on (d, dim, seed) alone, so every problem
    and every run with that seed shares it. HarnessError if vectors hold NaN or infinity; `giver` names their source.
    """
    width = vectors.shape[1]
    if width <= dim:
        result = _dense(vectors)
    else:
        _require_finite(vectors, giver)  # scikit-learn's own error is ten lines long and does not name the source
        projection, blocks = _projection(width, dim, seed), range(0, max(1, vectors.shape[0]), BLOCK)
        result = np.concatenate([_dense(projection.transform(vectors[start : start + BLOCK])) for start in blocks])
    _require_finite(result, giver)
    return result


def _require_finite(vectors: Any, giver: str) -> None:
    """HarnessError for a row, dense or sparse, that holds NaN or infinity."""
    if isinstance(vectors, np.ndarray):
        finite = np.isfinite(vectors).all(axis=1)  # (n,)
    else:
        entries = vectors.tocoo()
        finite = np.ones(vectors.shape[0], bool)
        finite[entries.row[~np.isfinite(entries.data)]] = False
    if not finite.all():
        raise HarnessError(f"{giver}: its vector of response {finite.argmin()} holds NaN or infinity")


def _dense(vectors: Any) -> Floats:
    dense = vectors if isinstance(vectors, np.ndarray) else vectors.toarray()
    return np.ascontiguousarray(dense, np.float32)


@functools.lru_cache(maxsize=4)
def _projection(width: int, dim: int, seed: int) -> Any:
    from sklearn.random_projection import SparseRandomProjection  # takes a second to import; most models do not need it

    return SparseRandomProjection(n_components=dim, random_state=seed).fit(np.zeros((1, width), np.float32))


@dataclass(frozen=True)
class Scores(OfResponses):
    """A number for each response by a scorer, such as a reward model. Its name is the scorer's."""

    kind: ClassVar[str] = "scores"
    verb: ClassVar[str] = "score"
    noun: ClassVar[str] = "scores"
    is_costly: ClassVar[bool] = True
    uses_model: ClassVar[bool] = True

    scorer: Part
    responses: Column

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        out.require_same()
        for each in todo:
            texts = each.given["responses"]["text"].to_pylist()
            scores = scored(self.scorer.built, self.scorer.spec, each.problem, each.question.chat, texts)
            out.keep(each, table({SCORE + storable(self.scorer.name): scores}))
            out.report(len(texts))


def scored(scorer: Scorer, spec: str, problem: Problem, prompt: Sequence[Message], texts: Sequence[str]) -> Floats:
    """The scorer's score of each text, (n,) float64; HarnessError if it raises, or gives something else.

    spec  the scorer's name in messages
    """
    with named_failure(f"scorer {spec!r}", problem, passes=True):
        scores = np.asarray(scorer.score(problem, prompt, texts), np.float64)
    if scores.shape != (len(texts),) or np.isinf(scores).any():
        raise HarnessError(
            f"scorer {spec!r}, problem {problem.id!r}: gave shape {scores.shape} for {len(texts)} responses, or "
            "infinity: a number each, NaN if unknown"
        )
    return scores
