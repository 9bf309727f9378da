"""k-DPP sampling: every set comes as often as its determinant says, below and beyond the kernel's rank."""

import numpy as np
import pytest
from support.kernels import reference_cosines, reference_gaussian
from support.selector_pools import assert_law, recorded
from support.vector_pools import FAMILIES, vector_pool

from harness_selectors import k_dpp
from harness_selectors.k_dpp import KDPP, reference_law


def assert_samples(selector, kernel, h, k, draws=400):
    pool, rng = vector_pool(h), np.random.default_rng(12)
    assert_law(lambda: tuple(selector.select(pool, k, rng)), reference_law(kernel, selector.ridge, k), draws)


@pytest.mark.parametrize(("kind", "k"), [("rbf", 1), ("rbf", 3), ("cosine", 2), ("cosine", 5), ("linear", 4)])
def test_each_set_comes_as_often_as_its_determinant_says(kind, k):
    h = np.random.default_rng(14).normal(size=(6, 3)).astype(np.float32)  # of rank 3, but for rbf
    kernel = {"rbf": reference_gaussian(h), "cosine": reference_cosines(h), "linear": h.astype(np.float64) @ h.T}[kind]
    assert_samples(KDPP(kind, ridge=1e-6 if kind == "rbf" else 0.05), kernel, h, k)


def test_of_vectors_that_are_all_zero_any_set_may_come():
    assert_samples(KDPP("linear"), np.zeros((4, 4)), np.zeros((4, 2), np.float32), 2)


def test_all_directions_are_taken_where_k_exceeds_the_rank():
    h = np.zeros((30, 3), np.float32)
    h[:, 0] = 1
    h[4], h[17] = [0, 1, 0], [0, 0, 1]
    for seed in range(20):
        assert {4, 17} <= set(KDPP().select(vector_pool(h), 6, np.random.default_rng(seed)))


def test_a_pool_is_decomposed_once_for_all_k_and_forgotten_with_the_pool(monkeypatch):
    calls = recorded(monkeypatch, KDPP, "_spectrum", lambda _, selector, h: selector)
    pool = vector_pool(FAMILIES["gaussian"])
    before = len(k_dpp._spectra)
    for k in (1, 5, 20):
        KDPP().select(pool, k, np.random.default_rng(0))
        KDPP(ridge=0.1).select(pool, k, np.random.default_rng(0))
    assert calls == [KDPP(), KDPP(ridge=0.1)]
    assert len(k_dpp._spectra) == before + 1
    del pool
    assert len(k_dpp._spectra) == before
