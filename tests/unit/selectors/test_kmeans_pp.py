"""D² sampling: every order comes as often as its definition says, also by blocks and after what was verified."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from support.selector_pools import after, assert_equally_often, assert_law, ranked
from support.vector_pools import large_pool, on_every_family, tiny_sets, vector_pool

from harness_selectors.kmeans import KMeansPP, reference_chances, reference_order

LINE = np.array([[0.0], [1.0], [1.5], [4.0], [4.2]], np.float32)


def law_of(h):
    """The probability of every order, from the chances at each pick."""
    return {order: np.prod([reference_chances(h, order[:k])[order[k]] for k in range(len(h))]) for order in every(h)}


def every(h):
    return permutations(range(len(h)))


@tiny_sets
@pytest.mark.usefixtures("blocks")
def test_every_order_comes_as_often_as_its_chances_say():
    pool, rng = vector_pool(LINE), np.random.default_rng(8)
    assert_law(lambda: tuple(KMeansPP().rank(pool, rng)), law_of(LINE), 1200)


def test_the_reference_samples_by_its_own_chances():
    rng = np.random.default_rng(8)
    assert_law(lambda: tuple(reference_order(LINE, rng)), law_of(LINE), 600)


def test_copies_of_picks_are_ranked_in_random_order():
    pool = vector_pool(np.zeros((3, 2), np.float32))
    assert_equally_often(KMeansPP(), pool, permutations(range(3)), 1000)


def test_every_response_is_ranked_once_whatever_the_vectors():
    def check(h):
        assert sorted(ranked(KMeansPP(), vector_pool(h))) == list(range(len(h)))

    on_every_family(check)


def test_it_goes_on_by_the_distance_from_what_was_verified():
    h = np.array([[0.0], [10.0], [11.0], [13.0], [3.0], [10.0]], np.float32)
    pool, rng = vector_pool(h), np.random.default_rng(5)
    law = {2: 1 / 19, 3: 9 / 19, 4: 9 / 19}  # index 5 is a copy of a verified one
    assert_law(lambda: next(KMeansPP().rank_after(pool, (0, 1), rng)), law, 1500)
    for seed in range(5):
        order = after(KMeansPP(), pool, (0, 1), seed)
        assert sorted(order) == [2, 3, 4, 5]
        assert order[-1] == 5


def test_more_verified_than_a_block_holds_are_all_taken():
    verified = list(range(0, 1500, 2))
    assert Counter(after(KMeansPP(), vector_pool(large_pool()), verified)) == Counter(range(1, 1500, 2))
