"""Embedding: by an embedder or a second pass of the engine; what an embedder gives is checked."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from support.models import States, group_of, model_work, models
from support.refusals import refusal_of
from support.toy import Letters
from support.works import keep_pool, work_in

from harness import HarnessError, Problem
from harness.stages.embed import embed, embedded, keep_vectors
from harness.store import shards

PROBLEM = Problem("p", "Say red.")


class Gives:
    """An embedder that returns one value, or raises it."""

    state = None

    def __init__(self, value):
        self.value = value

    def embed(self, problem, texts):
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


@pytest.fixture
def work(tmp_path):
    return work_in(tmp_path, seed=3)


def test_each_stored_problem_is_embedded_by_the_embedder_or_by_the_engine(work):
    problems = keep_pool(work, {"a": ["say red", "say blue"], "b": ["say green"]})
    for embedder, expected in (
        (
            Letters(),
            [
                Letters().embed(problem, texts)
                for problem, texts in zip(problems, (["say red", "say blue"], ["say green"]), strict=True)
            ],
        ),
        (States(), [np.eye(8)[[0, 2]], np.eye(8)[[1]]]),
    ):
        reported = []
        embed(model_work(work), models(embedder=embedder), group_of(problems), reported.append)
        assert reported == [1, 1]
        for problem, vectors in zip(problems, expected, strict=True):
            np.testing.assert_array_equal(shards.read_vectors(work.embeddings.path(problem)), vectors)


def test_wide_vectors_are_kept_projected_by_the_seed_of_the_run(work):
    wide = np.random.default_rng(0).normal(size=(4, 40))
    kept = []
    for seed in (3, 4):
        own = work_in(work.pool.folder.parents[1] / str(seed), seed=seed)
        keep_vectors(model_work(own), PROBLEM, wide, "")
        kept.append(shards.read_vectors(own.embeddings.path(PROBLEM)))
    assert kept[0].shape == (4, 8)
    assert not np.array_equal(*kept)


def test_the_source_of_bad_vectors_is_named(work):
    [problem] = keep_pool(work, {"a": ["say red"]})
    for embedder, who in ((Gives([[np.nan]]), "embedder 'letters'"), (States(), "engine 'toy'")):
        built = models(embedder=embedder)
        built.engine.encode = lambda *_: {"mean": np.array([[np.inf]])}
        line = refusal_of(embed, model_work(work, embedder="letters"), built, group_of([problem]), lambda rows: None)
        assert line == f"{who}, problem 'a': its vector of response 0 holds NaN or infinity"


def test_lists_booleans_and_sparse_matrices_are_vectors():
    for value in ([[1, 2], [3, 4]], np.array([[True], [False]]), csr_matrix(np.eye(2)), np.eye(2, dtype=np.uint8)):
        vectors = embedded(Gives(value), "x", PROBLEM, ["a", "b"])
        assert vectors.shape[0] == 2


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (ValueError("no"), "embedder 'x', problem 'p': raised ValueError: no"),
        (HarnessError("x: set a key"), "x: set a key"),
        ([[1], [2, 3]], "embedder 'x': gave no (n, d) array of numbers (setting an array element"),
        *((value, "embedder 'x': gave ") for value in (None, 3.0, [[{}], [{}]])),
        ([["a"], ["b"]], "embedder 'x': gave ndarray of <U1, expected (n, d) numbers"),
        (np.ones(2), "embedder 'x': gave shape (2,) for 2 responses"),
        (np.ones((3, 2)), "embedder 'x': gave shape (3, 2) for 2 responses"),
    ],
)
def test_what_is_no_array_of_vectors_is_one_line(value, line):
    assert refusal_of(embedded, Gives(value), "x", PROBLEM, ["a", "b"]).startswith(line)
