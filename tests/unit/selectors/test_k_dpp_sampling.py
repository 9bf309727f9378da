"""Exact samples of eigenvectors and of rows: every set comes as often as its determinant says."""

from itertools import combinations

import numpy as np
import pytest
from support.selector_pools import assert_law

from harness_selectors import k_dpp
from harness_selectors.k_dpp import choose_eigenvectors, sample_rows


@pytest.mark.parametrize("block", [2, 64])
def test_samples_from_a_projection_have_its_minors_as_law(block, monkeypatch):
    monkeypatch.setattr(k_dpp, "BLOCK", block)
    rng = np.random.default_rng(15)
    basis = np.linalg.qr(rng.normal(size=(6, 4)))[0]
    law = {s: np.linalg.det(basis[list(s)]) ** 2 for s in combinations(range(6), 4)}
    assert sum(law.values()) == pytest.approx(1)
    assert_law(lambda: tuple(sorted(sample_rows(basis, rng))), law, 1000)


def test_a_row_is_sampled_once_whatever_rounding_leaves_of_it():
    for seed in range(50):
        basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 5)))[0]
        assert len({*sample_rows(basis, np.random.default_rng(seed))}) == 5


def test_eigenvectors_are_chosen_by_the_product_of_their_weights():
    log_weight, rng = np.array([-3.0, -1.0, 0.0, 0.5, 2.0]), np.random.default_rng(16)
    weight = {s: np.exp(log_weight[list(s)].sum()) for s in combinations(range(5), 3)}
    law = {s: w / sum(weight.values()) for s, w in weight.items()}
    assert_law(lambda: tuple(np.flatnonzero(choose_eigenvectors(log_weight, 3, rng))), law, 1000)


@pytest.mark.parametrize("k", [1, 700, 1999, 2000])
def test_eigenvectors_are_chosen_from_weights_that_no_product_could_hold(k):
    chosen = choose_eigenvectors(np.linspace(-900, 900, 2000), k, np.random.default_rng(17))
    assert chosen.sum() == k
    assert chosen[-1]
