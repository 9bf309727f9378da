"""Embedding: by an embedder or a second pass of the engine; what it gives is checked, and projected (`project`)."""

from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.random_projection import SparseRandomProjection
from support.models import States, group_of, model_work, models
from support.refusals import refusal_of, wrongly_refused
from support.toy import Letters
from support.works import keep_pool, work_in

from harness import HarnessError, Problem
from harness.columns.vectors import project
from harness.stages.embed import embed, embedded, keep_vectors
from harness.store import shards

PROBLEM = Problem("p", "Say red.")


def gives(value):
    """An embedder that returns one value, or raises it."""
    return SimpleNamespace(state=None, embed=Mock(side_effect=[value]))


@pytest.fixture
def work(tmp_path):
    return work_in(tmp_path, seed=3)


def test_each_stored_problem_is_embedded_by_the_embedder_or_by_the_engine(work):
    problems = keep_pool(work, {"a": ["say red", "say blue"], "b": ["say green"]})
    counts = [Letters().embed(PROBLEM, texts) for texts in (["say red", "say blue"], ["say green"])]
    for embedder, expected in ((Letters(), counts), (States(), [np.eye(8)[[0, 2]], np.eye(8)[[1]]])):
        reported = []
        embed(model_work(work), models(embedder=embedder), group_of(problems), reported.append)
        assert reported == [2, 1]  # responses
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
    for embedder, who in ((gives([[np.nan]]), "embedder 'letters'"), (States(), "engine 'toy'")):
        built = models(embedder=embedder)
        built.engine.encode = lambda *_: {"mean": np.array([[np.inf]])}
        line = refusal_of(embed, model_work(work, embedder="letters"), built, group_of([problem]), lambda rows: None)
        assert line == f"{who}, problem 'a': its vector of response 0 holds NaN or infinity"


NO_VECTORS = [
    (ValueError("no"), "embedder 'x', problem 'p': raised ValueError: no"),
    (HarnessError("x: set a key"), "x: set a key"),
    ([[1], [2, 3]], "embedder 'x': gave no (n, d) array of numbers (setting an array element"),
    *((value, "embedder 'x': gave ") for value in (None, 3.0, [[{}], [{}]])),
    ([["a"], ["b"]], "embedder 'x': gave ndarray of <U1, expected (n, d) numbers"),
    (np.ones(2), "embedder 'x': gave shape (2,) for 2 responses"),
    (np.ones((3, 2)), "embedder 'x': gave shape (3, 2) for 2 responses"),
]


def test_lists_booleans_and_sparse_matrices_are_vectors_and_what_is_no_array_is_one_line():
    for value in ([[1, 2], [3, 4]], np.array([[True], [False]]), csr_matrix(np.eye(2)), np.eye(2, dtype=np.uint8)):
        vectors = embedded(gives(value), "x", PROBLEM, ["a", "b"])
        assert vectors.shape[0] == 2
    assert wrongly_refused(NO_VECTORS, lambda value: embedded(gives(value), "x", PROBLEM, ["a", "b"])) == []


WIDE = np.random.default_rng(0).normal(size=(20, 300))


def test_wide_vectors_are_scikit_learns_sparse_random_projection_of_that_seed_and_narrow_ones_are_left_alone():
    for seed in (0, 7):
        expected = SparseRandomProjection(n_components=64, random_state=seed).fit_transform(WIDE)
        np.testing.assert_allclose(project(WIDE, 64, seed), expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(project(csr_matrix(WIDE), 64, seed), expected, rtol=1e-5, atol=1e-5)
    assert not np.allclose(project(WIDE, 64, 0), project(WIDE, 64, 7))
    np.testing.assert_array_equal(project(WIDE, 300, 0), WIDE.astype(np.float32))
    np.testing.assert_array_equal(project(csr_matrix(WIDE), 512, 0), WIDE.astype(np.float32))


def test_vectors_that_are_not_finite_are_refused():
    vectors = np.ones((3, 40))
    vectors[2, 5] = np.nan
    for given in (vectors, csr_matrix(vectors)):
        for dim in (8, 64):
            with pytest.raises(HarnessError, match="engine 'x': its vector of response 2 holds NaN or infinity"):
                project(given, dim, 0, "engine 'x'")


def test_rows_in_blocks_give_the_same_bits_as_all_at_once():
    many = np.random.default_rng(1).normal(size=(1200, 300)).astype(np.float32)
    for vectors in (many, csr_matrix(np.where(many > 1, many, 0))):
        whole = SparseRandomProjection(n_components=64, random_state=5).fit(many).transform(vectors)
        whole = whole if isinstance(whole, np.ndarray) else whole.toarray()
        np.testing.assert_array_equal(project(vectors, 64, 5), whole.astype(np.float32))
