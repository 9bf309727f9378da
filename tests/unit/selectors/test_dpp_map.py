"""Greedy MAP of a determinantal point process: every pick adds most to the log-determinant of the kernel."""

from functools import partial

import numpy as np
import pytest
from support.kernels import reference_cosines, reference_gaussian
from support.selector_pools import after, ranked
from support.vector_pools import assert_greedy, large_pool, on_every_family, some_verified, tiny_sets, vector_pool

from harness_selectors.dpp_map import DPPMap, reference_order, reference_residuals
from harness_selectors.numerics import similarity


def test_the_reference_residuals_are_by_what_the_determinant_grows():
    h = np.random.default_rng(35).normal(size=(8, 3)).astype(np.float32)
    kernel, picked, others = reference_gaussian(h), [5, 0, 3], [1, 2, 4, 6, 7]
    full = kernel + 1e-3 * np.eye(8)
    growth = [np.linalg.det(full[np.ix_(c, c)]) for i in others for c in [[*picked, i]]]
    residual = reference_residuals(kernel, 1e-3, picked)[others] + 1e-3
    assert residual == pytest.approx(np.array(growth) / np.linalg.det(full[np.ix_(picked, picked)]), rel=1e-9)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(
    ("selector", "kernel", "active", "atol"),
    [
        (DPPMap(ridge=1e-6), reference_gaussian, 4, 1e-12),
        (DPPMap(ridge=1e-2), reference_gaussian, None, 1e-12),
        (DPPMap("cosine", ridge=1e-4), reference_cosines, None, 1e-11),
    ],
    ids=["tiny blocks", "usual blocks", "cosine"],
)
def test_every_pick_has_the_largest_residual_from_the_start_and_after_what_was_verified(selector, kernel, atol):
    def check(h):
        n, pool, verified = len(h), vector_pool(h), some_verified(len(h))
        residuals = partial(reference_residuals, kernel(h), selector.ridge)
        assert_greedy(ranked(selector, pool), n, residuals, rtol=1e-7, atol=atol)
        order = verified + after(selector, pool, verified)
        assert_greedy(order, n, residuals, start=len(verified), rtol=1e-7, atol=atol)

    on_every_family(check)


@tiny_sets
@pytest.mark.usefixtures("blocks")
def test_a_larger_pool_has_the_order_of_the_reference():
    h = large_pool()[:500]
    order = ranked(DPPMap(), vector_pool(h))
    assert order == reference_order(reference_gaussian(h), 1e-6, order[:1])


def test_a_bandwidth_given_takes_the_place_of_the_median():
    h = large_pool()[:200]
    median = similarity.median_distance(similarity.centred(h))
    assert ranked(DPPMap(bandwidth=median), vector_pool(h)) == ranked(DPPMap(), vector_pool(h))
    assert ranked(DPPMap(bandwidth=0.5), vector_pool(h)) != ranked(DPPMap(), vector_pool(h))


def test_ties_between_copies_go_to_the_lowest_index_left():
    h = np.eye(2, dtype=np.float32)[[0, 1, 0, 1, 1, 0]]
    assert ranked(DPPMap(first="max"), vector_pool(h)) == [0, 1, 2, 3, 4, 5]
