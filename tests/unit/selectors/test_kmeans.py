"""k-means and k-medoids: of each cluster a response, always k of them; D² sampling: orders as often as its law says."""

from collections import Counter
from itertools import islice, permutations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from support.selector_pools import after, assert_equally_often, assert_law, ranked
from support.vector_pools import large_pool, on_every_family, tiny_sets, vector_pool

from harness_selectors.kmeans import KMeans, KMeansPP, KMedoids, reference_chances, reference_choice, reference_order


def chosen(h, k, seed=0):
    return KMeans().select(vector_pool(np.asarray(h, np.float32)), k, np.random.default_rng(seed))


def test_of_each_cluster_the_response_nearest_to_its_centre_is_taken():
    rng = np.random.default_rng(19)
    centres = 50 * rng.normal(size=(6, 4))
    label = rng.integers(6, size=90)
    h = (centres[label] + rng.normal(size=(90, 4))).astype(np.float32)
    nearest = []
    for c in range(6):
        members = np.flatnonzero(label == c)
        nearest.append(members[((h[members] - h[members].mean(axis=0, dtype=float)) ** 2).sum(axis=1).argmin()])
    assert chosen(h, 6) == sorted(nearest)


def test_from_the_same_start_it_chooses_as_the_reference():
    h = np.random.default_rng(36).normal(size=(200, 4))
    for k in (2, 5, 9):
        start = list(islice(KMeansPP().rank(vector_pool(h), np.random.default_rng(k)), k))
        assert KMeans().select(vector_pool(h), k, np.random.default_rng(k)) == reference_choice(h, start)


def test_copies_count_as_often_as_they_occur_and_k_responses_come_where_floats_cannot_part_the_clusters():
    assert chosen([[0.0]] * 20 + [[1.0], [2.0], [3.0]], 1) == [0]
    h = [[0], [0], [1], [1], [2], [2]]
    assert [chosen(h, k) for k in (3, 4, 6)] == [[0, 2, 4], [0, 1, 2, 4], [0, 1, 2, 3, 4, 5]]
    h = 1e6 + np.spacing(np.float32(1e6)) * np.arange(12)[:, None] * [1, 0]
    h[:4] = -h[:4]
    assert [len(set(chosen(h, k, seed=k))) for k in range(1, 13)] == list(range(1, 13))


def test_no_single_swap_lowers_k_medoids_sum_of_distances_which_are_not_squared():
    pytest.importorskip("kmedoids")
    h = np.random.default_rng(20).normal(size=(12, 3)).astype(np.float32)
    distance = cdist(h.astype(np.float64), h.astype(np.float64))
    for k in (1, 3, 6):
        picks = KMedoids().select(vector_pool(h), k, np.random.default_rng(0))
        swaps = [[new if p == old else p for p in picks] for old in picks for new in {*range(12)} - {*picks}]
        least = min(distance[swapped].min(axis=0).sum() for swapped in swaps)
        assert distance[picks].min(axis=0).sum() <= least + 1e-5
    h = np.array([[0], [1], [2], [3], [100]], np.float32)
    assert KMedoids().select(vector_pool(h), 1, np.random.default_rng(0)) == [2]


@tiny_sets
@pytest.mark.usefixtures("blocks")
def test_every_order_comes_as_often_as_its_chances_say():
    line, rng = np.array([[0.0], [1.0], [1.5], [4.0], [4.2]], np.float32), np.random.default_rng(8)
    orders = list(permutations(range(5)))
    law = {order: np.prod([reference_chances(line, order[:k])[order[k]] for k in range(5)]) for order in orders}
    pool = vector_pool(line)
    assert_law(lambda: tuple(KMeansPP().rank(pool, rng)), law, 800)
    assert_law(lambda: tuple(reference_order(line, rng)), law, 600)
    assert_equally_often(KMeansPP(), vector_pool(np.zeros((3, 2), np.float32)), permutations(range(3)), 600)


def test_every_response_is_ranked_once_by_the_distance_from_what_was_verified():
    def check(h):
        assert sorted(ranked(KMeansPP(), vector_pool(h))) == list(range(len(h)))

    on_every_family(check)
    h = np.array([[0.0], [10.0], [11.0], [13.0], [3.0], [10.0]], np.float32)
    pool, rng = vector_pool(h), np.random.default_rng(5)
    law = {2: 1 / 19, 3: 9 / 19, 4: 9 / 19}  # index 5 is a copy of a verified one
    assert_law(lambda: next(KMeansPP().rank_after(pool, (0, 1), rng)), law, 1000)
    order = after(KMeansPP(), pool, (0, 1))
    assert (sorted(order), order[-1]) == ([2, 3, 4, 5], 5)
    verified = list(range(0, 1500, 2))  # more than a block holds
    assert Counter(after(KMeansPP(), vector_pool(large_pool()), verified)) == Counter(range(1, 1500, 2))
