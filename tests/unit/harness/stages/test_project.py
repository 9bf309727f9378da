"""Vectors are projected from a recorded seed, and left alone where they are narrow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.random_projection import SparseRandomProjection

from harness import HarnessError
from harness.stages.project import project

WIDE = np.random.default_rng(0).normal(size=(20, 300))


def test_wide_vectors_are_scikit_learns_sparse_random_projection_of_that_seed():
    for seed in (0, 7):
        expected = SparseRandomProjection(n_components=64, random_state=seed).fit_transform(WIDE)
        np.testing.assert_allclose(project(WIDE, 64, seed), expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(project(csr_matrix(WIDE), 64, seed), expected, rtol=1e-5, atol=1e-5)
    assert not np.allclose(project(WIDE, 64, 0), project(WIDE, 64, 7))


def test_narrow_vectors_are_left_alone():
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
