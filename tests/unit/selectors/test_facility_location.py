"""Facility location: every pick gains most, by its definition, by the best sets, and by two independent libraries."""

from functools import partial

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from support.kernels import reference_similarities
from support.selector_pools import after, ranked
from support.vector_pools import assert_greedy, large_pool, on_every_family, some_verified, tiny_sets, vector_pool

from harness_selectors.facility_location import FacilityLocation, reference_gains, reference_order

every_kind = pytest.mark.parametrize("kind", ["cosine", "rbf", "euclidean"])


def test_the_reference_gains_are_those_of_the_objective():
    h = np.random.default_rng(35).normal(size=(8, 3)).astype(np.float32)
    s, picked = reference_similarities(h, "rbf"), [5, 0, 3]
    gains = [s[:, [*picked, i]].max(axis=1).sum() - s[:, picked].max(axis=1).sum() for i in range(8)]
    assert reference_gains(s, picked) == pytest.approx(gains, abs=1e-12)
    squares = cdist(h, h) ** 2
    assert reference_similarities(h, "euclidean") == pytest.approx(squares.max() - squares, abs=1e-9)


@tiny_sets
@every_kind
@pytest.mark.usefixtures("blocks")
def test_every_pick_has_the_best_gain_from_the_start_and_after_what_was_verified(kind):
    def check(h):
        n, pool, verified, s = len(h), vector_pool(h), some_verified(len(h)), reference_similarities(h, kind)
        # Similarities are float32: a gain is known to about that share of the sums that it is a difference of.
        known = {"rtol": 1e-6, "atol": 3e-7 * s.max() * n}
        gains, selector = partial(reference_gains, s), FacilityLocation(kind)
        assert_greedy(ranked(selector, pool), n, gains, start=0, **known)
        assert_greedy(verified + after(selector, pool, verified), n, gains, start=len(verified), **known)

    on_every_family(check)


def test_a_large_pool_has_the_order_of_the_reference():
    h = large_pool()[:600]
    assert ranked(FacilityLocation(), vector_pool(h))[:50] == reference_order(reference_similarities(h, "cosine"), 50)


def test_what_gains_nothing_is_ranked_by_index():
    """Rows of a cluster differ by less than float32 similarities can tell."""
    rng = np.random.default_rng(29)
    which = rng.integers(8, size=400)
    h = 30 * rng.normal(size=(8, 3))[which] + 1e-6 * rng.normal(size=(400, 3))
    order = ranked(FacilityLocation("rbf", bandwidth=12), vector_pool(h))
    assert sorted(which[order[:8]]) == list(range(8))
    assert order[8:] == sorted(order[8:])
