"""k-means: of each cluster the response nearest to its centre, always k of them; and k-medoids."""

from itertools import islice

import numpy as np
import pytest
from support.vector_pools import vector_pool

from harness_selectors.kmeans import KMeans, KMeansPP, KMedoids, reference_choice


def swap_gain(h, chosen) -> float:
    """Return by how much the best swap of a chosen row for another lowers k-medoids' sum; <= 0 if none does.

    PAM ends when no swap lowers the sum. So for the choice of `KMedoids.select` this must be at most the rounding of n
    float32 distances, if it ends within `max_iter` passes. The local minimum that it reaches depends on the start.
    """
    rows = h.astype(np.float64)
    distance = np.array([np.sqrt(((rows - row) ** 2).sum(axis=1)) for row in rows])  # (n, n)
    others = set(range(len(rows))) - set(chosen)
    swaps = [[new if p == old else p for p in chosen] for old in chosen for new in others]
    sums = [distance[:, swapped].min(axis=1).sum() for swapped in swaps]
    return float(distance[:, list(chosen)].min(axis=1).sum() - min(sums))


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


@pytest.mark.parametrize("k", [2, 5, 9])
def test_from_the_same_start_it_chooses_as_the_reference(k):
    h = np.random.default_rng(36).normal(size=(200, 4))
    start = list(islice(KMeansPP().rank(vector_pool(h), np.random.default_rng(k)), k))
    assert KMeans().select(vector_pool(h), k, np.random.default_rng(k)) == reference_choice(h, start)


def test_equal_responses_count_as_often_as_they_occur():
    assert chosen([[0.0]] * 20 + [[1.0], [2.0], [3.0]], 1) == [0]


def test_where_k_asks_for_more_all_distinct_responses_are_taken_and_then_copies():
    h = [[0], [0], [1], [1], [2], [2]]
    assert [chosen(h, k) for k in (3, 4, 6)] == [[0, 2, 4], [0, 1, 2, 4], [0, 1, 2, 3, 4, 5]]


def test_k_responses_are_found_where_floats_cannot_part_the_clusters():
    h = 1e6 + np.spacing(np.float32(1e6)) * np.arange(12)[:, None] * [1, 0]
    h[:4] = -h[:4]
    assert [len(set(chosen(h, k, seed=k))) for k in range(1, 13)] == list(range(1, 13))


def test_no_single_swap_lowers_the_sum_of_distances():
    pytest.importorskip("kmedoids")
    h = np.random.default_rng(20).normal(size=(12, 3)).astype(np.float32)
    for k in (1, 3, 6):
        assert swap_gain(h, KMedoids().select(vector_pool(h), k, np.random.default_rng(0))) <= 1e-5


def test_distances_are_summed_and_not_their_squares():
    pytest.importorskip("kmedoids")
    h = np.array([[0], [1], [2], [3], [100]], np.float32)
    assert KMedoids().select(vector_pool(h), 1, np.random.default_rng(0)) == [2]
