"""k-DPP sampling: every set comes as often as its determinant says, below and beyond the kernel's rank."""

from itertools import combinations

import numpy as np
import pytest
from support.kernels import reference_cosines, reference_gaussian
from support.selector_pools import assert_law, recorded
from support.vector_pools import FAMILIES, vector_pool

from harness_selectors import k_dpp
from harness_selectors.k_dpp import KDPP, choose_eigenvectors, reference_law, sample_rows


def assert_samples(selector, kernel, h, k, draws=400):
    pool, rng = vector_pool(h), np.random.default_rng(12)
    assert_law(lambda: tuple(selector.select(pool, k, rng)), reference_law(kernel, selector.ridge, k), draws)


@pytest.mark.parametrize(("kind", "k"), [("rbf", 1), ("rbf", 3), ("cosine", 2), ("cosine", 5), ("linear", 4)])
def test_each_set_comes_as_often_as_its_determinant_says(kind, k):
    h = np.random.default_rng(14).normal(size=(6, 3)).astype(np.float32)  # of rank 3, but for rbf
    kernel = {"rbf": reference_gaussian(h), "cosine": reference_cosines(h), "linear": h.astype(np.float64) @ h.T}[kind]
    assert_samples(KDPP(kind, ridge=1e-6 if kind == "rbf" else 0.05), kernel, h, k)


def test_beyond_the_rank_any_set_may_come_with_all_directions_in_it():
    assert_samples(KDPP("linear"), np.zeros((4, 4)), np.zeros((4, 2), np.float32), 2)
    h = np.zeros((30, 3), np.float32)
    h[:, 0] = 1
    h[4], h[17] = [0, 1, 0], [0, 0, 1]
    for seed in range(20):
        assert {4, 17} <= set(KDPP().select(vector_pool(h), 6, np.random.default_rng(seed)))


@pytest.mark.parametrize("block", [2, 64])
def test_samples_from_a_projection_have_its_minors_as_law_each_row_once(block, monkeypatch):
    monkeypatch.setattr(k_dpp, "BLOCK", block)
    rng = np.random.default_rng(15)
    basis = np.linalg.qr(rng.normal(size=(6, 4)))[0]
    law = {s: np.linalg.det(basis[list(s)]) ** 2 for s in combinations(range(6), 4)}
    assert_law(lambda: tuple(sorted(sample_rows(basis, rng))), law, 600)
    for seed in range(50):  # whatever rounding leaves of a row
        basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 5)))[0]
        assert len({*sample_rows(basis, np.random.default_rng(seed))}) == 5


def test_eigenvectors_are_chosen_by_the_product_of_their_weights_also_where_none_could_hold_it():
    log_weight, rng = np.array([-3.0, -1.0, 0.0, 0.5, 2.0]), np.random.default_rng(16)
    weight = {s: np.exp(log_weight[list(s)].sum()) for s in combinations(range(5), 3)}
    law = {s: w / sum(weight.values()) for s, w in weight.items()}
    assert_law(lambda: tuple(np.flatnonzero(choose_eigenvectors(log_weight, 3, rng))), law, 600)
    for k in (1, 700, 1999, 2000):
        chosen = choose_eigenvectors(np.linspace(-900, 900, 2000), k, np.random.default_rng(17))
        assert (chosen.sum(), bool(chosen[-1])) == (k, True)


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
