"""Farthest-first traversal: every pick is the farthest from the picks before it, whichever were made elsewhere."""

from functools import partial

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from support.selector_pools import after, ranked
from support.vector_pools import assert_greedy, large_pool, on_every_family, some_verified, tiny_sets, vector_pool

from harness_selectors.kcenter import KCenter, reference_distances, reference_order


def test_the_reference_distances_are_those_of_scipy():
    h = np.random.default_rng(34).normal(size=(8, 3)).astype(np.float32)
    squares = cdist(h.astype(np.float64), h.astype(np.float64)) ** 2
    assert reference_distances(h, [2, 5]) == pytest.approx(squares[:, [2, 5]].min(axis=1), rel=1e-12)


@tiny_sets
@pytest.mark.usefixtures("blocks")
def test_every_pick_is_the_farthest_from_the_start_and_after_what_was_verified():
    def check(h):
        n, distances, verified = len(h), partial(reference_distances, h), some_verified(len(h))
        assert_greedy(ranked(KCenter(), vector_pool(h)), n, distances)
        assert_greedy(verified + after(KCenter(), vector_pool(h), verified), n, distances, start=len(verified))

    on_every_family(check)


@pytest.mark.parametrize("kind", ["wide clusters", "tight clusters"])
def test_a_large_pool_has_the_order_of_the_reference(kind):
    rng = np.random.default_rng(6)
    tight = 10 * rng.normal(size=(2, 16))[rng.integers(2, size=1200)] + 1e-3 * rng.normal(size=(1200, 16))
    h = large_pool() if kind == "wide clusters" else tight.astype(np.float32)
    order = ranked(KCenter(), vector_pool(h))
    assert order == reference_order(h, order[:1])
