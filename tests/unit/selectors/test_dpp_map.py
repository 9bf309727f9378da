"""Greedy MAP of a determinantal point process: every pick adds most to the log-determinant of the kernel."""

from functools import partial

import numpy as np
import pytest
from support.selector_pools import after, ranked, recorded
from support.vector_pools import assert_greedy, large_pool, on_every_family, some_verified, tiny_sets, vector_pool

from harness_selectors.dpp_map import DPPMap, reference_order, reference_residuals
from harness_selectors.facility_location import FacilityLocation, reference_gains, reference_similarities
from harness_selectors.numerics import similarity
from harness_selectors.numerics.similarity import reference_cosines, reference_gaussian
from harness_selectors.repexp import RepExp


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


def test_near_copies_that_set_the_bandwidth_keep_their_digits():
    rng = np.random.default_rng(33)
    h = np.where(rng.random((60, 1)) < 0.2, 9 * rng.normal(size=(60, 6)), 1) + 1e-9 * rng.normal(size=(60, 6))
    pool, gains = vector_pool(h), partial(reference_gains, reference_similarities(h, "rbf"))
    residuals = partial(reference_residuals, reference_gaussian(h), 1e-6)
    assert_greedy(ranked(DPPMap(), pool), 60, residuals, rtol=1e-5, atol=1e-9)
    assert_greedy(ranked(FacilityLocation("rbf"), pool), 60, gains, start=0, rtol=1e-5, atol=1e-5)


@tiny_sets
@pytest.mark.usefixtures("blocks")
def test_a_larger_pool_has_the_order_of_the_reference():
    h = large_pool()[:500]
    order = ranked(DPPMap(), vector_pool(h))
    assert order == reference_order(reference_gaussian(h), 1e-6, order[:1])


def test_more_verified_than_a_block_holds_are_all_taken():
    h, verified, left = large_pool()[:800], list(range(0, 800, 2)), np.arange(1, 800, 2)
    first = after(DPPMap(), vector_pool(h), verified)[0]
    assert first == left[reference_residuals(reference_gaussian(h), 1e-6, verified)[left].argmax()]


def test_with_the_cosine_kernel_it_is_repexp_on_unit_vectors():
    h = large_pool().astype(np.float64)
    unit_pool = vector_pool(h / np.linalg.norm(h, axis=1, keepdims=True))
    assert ranked(DPPMap("cosine", ridge=1.0), vector_pool(large_pool())) == ranked(RepExp(lam=1.0), unit_pool)


def test_the_cosine_kernels_picks_up_to_its_rank_are_those_without_a_ridge():
    h = large_pool()[:700]
    order = ranked(DPPMap("cosine"), vector_pool(h))
    assert order[:24] == reference_order(reference_cosines(h), 1e-13, order[:1])[:24]


def test_a_bandwidth_given_takes_the_place_of_the_median():
    h = large_pool()[:200]
    median = similarity.median_distance(similarity.centred(h))
    assert ranked(DPPMap(bandwidth=median), vector_pool(h)) == ranked(DPPMap(), vector_pool(h))
    assert ranked(DPPMap(bandwidth=0.5), vector_pool(h)) != ranked(DPPMap(), vector_pool(h))


def test_ties_between_copies_go_to_the_lowest_index_left():
    h = np.eye(2, dtype=np.float32)[[0, 1, 0, 1, 1, 0]]
    assert ranked(DPPMap(first="max"), vector_pool(h)) == [0, 1, 2, 3, 4, 5]


def test_pulling_few_picks_computes_few_kernel_entries(monkeypatch):
    sizes = recorded(monkeypatch, similarity.Gaussian, "block", lambda entries, *_: entries.size)
    h = np.random.default_rng(28).normal(size=(1500, 16)).astype(np.float32)
    ranking = DPPMap().rank(vector_pool(h), np.random.default_rng(0))
    assert not sizes
    for _ in range(16):
        next(ranking)
    few = sum(sizes)
    assert few <= 48 * 1500
    list(ranking)
    assert few * 10 < sum(sizes)
