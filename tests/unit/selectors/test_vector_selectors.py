"""Selectors on vectors: every pick is right, by the reference forms, brute force and independent libraries."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from functools import partial
from itertools import combinations, islice, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist, pdist
from scipy.stats import chisquare
from support.processes import printed_by
from support.vector_pools import (
    FAMILIES,
    Floats,
    assert_greedy,
    every_family,
    gains,
    mmr_scores,
    pool_of,
    residuals,
    tiny_sets,
)

from harness import HarnessError, Pool
from harness_selectors import dpp_map, facility_location, kcenter, kmeans_pp, mmr
from harness_selectors.dpp_map import DPPMap, reference_residuals
from harness_selectors.facility_location import FacilityLocation, reference_gains, reference_similarities
from harness_selectors.k_dpp import KDPP, reference_law
from harness_selectors.kcenter import KCenter, reference_distances
from harness_selectors.kmeans import KMeans, reference_choice
from harness_selectors.kmeans_pp import KMeansPP, reference_chances
from harness_selectors.kmedoids import KMedoids, reference_swap_gain
from harness_selectors.mmr import MMR, reference_quality
from harness_selectors.numerics import nearest_pick, projection_sampling, similarity
from harness_selectors.numerics.similarity import reference_cosines, reference_gaussian
from harness_selectors.repexp import RepExp

RANKERS = [
    KCenter(),
    KCenter(first="max"),
    KMeansPP(),
    MMR(),
    MMR(alpha=0.1, quality="logprob"),
    FacilityLocation(),
    FacilityLocation("rbf"),
    FacilityLocation("euclidean"),
    DPPMap(),
    DPPMap("cosine"),
    DPPMap(first="max"),
]
DETERMINISTIC = [ranker for ranker in RANKERS if getattr(ranker, "first", "max") == "max" and ranker != KMeansPP()]
try:
    SUBSETS = [KMeans(), KDPP(), KDPP("linear"), KDPP("rbf"), KMedoids()]
except HarnessError:
    SUBSETS = [KMeans(), KDPP(), KDPP("linear"), KDPP("rbf")]


def ranked(selector, h: Floats, seed: int = 0) -> list[int]:
    return list(selector.rank(pool_of(h), np.random.default_rng(seed)))


# The oracles are the reference forms in the selectors' files.


def distances(h: Floats) -> Floats:
    h = h.astype(np.float64)
    return cdist(h, h)


def median_bandwidth(h: Floats) -> float:
    distinct = np.unique(h.astype(np.float64), axis=0)
    return float(np.median(pdist(distinct))) if len(distinct) > 1 else 1.0


# The reference forms, by independent libraries on a few rows.


def test_the_reference_kernels_are_those_of_scipy():
    h = np.random.default_rng(34).normal(size=(8, 3)).astype(np.float32)
    assert reference_cosines(h) == pytest.approx(1 - cdist(h, h, "cosine"), abs=1e-12)
    assert reference_gaussian(h, 0.7) == pytest.approx(np.exp(-(distances(h) ** 2) / (2 * 0.7**2)), rel=1e-12)
    assert reference_distances(h, [2, 5]) == pytest.approx(distances(h)[:, [2, 5]].min(axis=1) ** 2, rel=1e-12)
    twice = np.vstack([h, h, -0.0 * h[:2]])
    assert reference_gaussian(twice) == pytest.approx(reference_gaussian(twice, median_bandwidth(twice)), rel=1e-12)
    assert reference_cosines(twice)[16:, 14:].tolist() == [[0, 0, 1, 1]] * 2
    squares = distances(h) ** 2
    assert reference_similarities(h, "euclidean") == pytest.approx(squares.max() - squares, abs=1e-9)


def test_the_reference_values_are_those_of_their_objectives():
    h = np.random.default_rng(35).normal(size=(8, 3)).astype(np.float32)
    s, kernel, picked = reference_similarities(h, "rbf"), reference_gaussian(h), [5, 0, 3]
    value = [s[:, [*picked, i]].max(axis=1).sum() - s[:, picked].max(axis=1).sum() for i in range(8)]
    assert reference_gains(s, picked) == pytest.approx(value, abs=1e-12)
    full, others = kernel + 1e-3 * np.eye(8), [1, 2, 4, 6, 7]
    growth = [np.linalg.det(full[np.ix_(c, c)]) for i in others for c in [[*picked, i]]]
    residual = reference_residuals(kernel, 1e-3, picked)[others] + 1e-3
    assert residual == pytest.approx(np.array(growth) / np.linalg.det(full[np.ix_(picked, picked)]), rel=1e-9)


# Every pick is the best one.


@tiny_sets
@every_family
@pytest.mark.usefixtures("blocks")
def test_kcenter_picks_the_farthest(h):
    order = ranked(KCenter(), h)
    assert_greedy(order, len(h), partial(reference_distances, h))
    before = order[-7:]
    rest = list(KCenter().rank_after(pool_of(h), before, np.random.default_rng(0)))
    assert_greedy(before + rest, len(h), partial(reference_distances, h), start=7)


@tiny_sets
@every_family
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.9, 1.0])
def test_mmr_picks_the_best_score(h, alpha):
    assert_greedy(ranked(MMR(alpha), h), len(h), mmr_scores(pool_of(h), alpha), start=0, atol=1e-9)


def test_mmr_can_take_the_whole_log_probability():
    h = FAMILIES["gaussian"]
    order = ranked(MMR(0.5, "logprob"), h)
    assert_greedy(order, len(h), mmr_scores(pool_of(h), 0.5, per_token=False), start=0, atol=1e-9)
    assert order != ranked(MMR(0.5), h)


@tiny_sets
@every_family
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("kind", ["cosine", "rbf", "euclidean"])
def test_facility_location_picks_the_best_gain(h, kind):
    largest = reference_similarities(h, kind).max() * len(h)
    # Similarities are float32: a gain is known to about that share of the sums that it is a difference of.
    assert_greedy(ranked(FacilityLocation(kind), h), len(h), gains(h, kind), 0, rtol=1e-6, atol=3e-7 * largest)


@tiny_sets
@every_family
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("ridge", [1e-6, 1e-2])
def test_dpp_map_picks_the_largest_residual(h, ridge):
    order = ranked(DPPMap(ridge=ridge), h)
    assert_greedy(order, len(h), residuals(reference_gaussian(h), ridge), rtol=1e-7, atol=1e-12)


@every_family
def test_dpp_map_with_the_cosine_kernel_picks_the_largest_residual(h):
    order = ranked(DPPMap("cosine", ridge=1e-4), h)
    assert_greedy(order, len(h), residuals(reference_cosines(h), 1e-4), rtol=1e-7, atol=1e-11)


@settings(max_examples=60)
@given(h=arrays(np.float32, st.tuples(st.integers(1, 8), st.integers(1, 4)), elements=st.integers(-2, 2)))
def test_small_integer_features_full_of_ties_are_ordered_greedily(h):
    assert_greedy(ranked(KCenter(), h), len(h), partial(reference_distances, h))
    assert_greedy(ranked(MMR(), h), len(h), mmr_scores(pool_of(h), 0.5), 0, atol=1e-9)
    assert_greedy(ranked(FacilityLocation(), h), len(h), gains(h, "cosine"), 0, 1e-6, 1e-5)
    assert_greedy(ranked(DPPMap(), h), len(h), residuals(reference_gaussian(h), 1e-6), 1, 1e-7, 1e-12)


def test_greedy_kcenter_has_at_most_twice_the_best_radius():
    h = np.random.default_rng(2).normal(size=(8, 2)).astype(np.float32)
    distance, order = distances(h), ranked(KCenter(), h)
    for k in range(1, 8):
        best = min(distance[:, list(centres)].min(axis=1).max() for centres in combinations(range(8), k))
        assert distance[:, order[:k]].min(axis=1).max() <= 2 * best + 1e-9


@pytest.mark.parametrize("kind", ["cosine", "rbf", "euclidean"])
def test_greedy_facility_location_has_at_least_its_share_of_the_best_value(kind):
    h = np.random.default_rng(3).normal(size=(8, 2)).astype(np.float32)
    s, order = reference_similarities(h, kind), ranked(FacilityLocation(kind), h)
    for k in range(1, 9):
        best = max(s[:, list(chosen)].max(axis=1).sum() for chosen in combinations(range(8), k))
        assert s[:, order[:k]].max(axis=1).sum() >= (1 - 1 / np.e) * best


def test_near_copies_that_set_the_bandwidth_keep_their_digits():
    rng = np.random.default_rng(33)
    h = np.where(rng.random((60, 1)) < 0.2, 9 * rng.normal(size=(60, 6)), 1) + 1e-9 * rng.normal(size=(60, 6))
    kernel = reference_gaussian(h)
    assert similarity.median_distance(similarity.centred(h)) == pytest.approx(median_bandwidth(h), rel=1e-5)
    assert_greedy(ranked(DPPMap(), h), 60, residuals(kernel, 1e-6), rtol=1e-5, atol=1e-9)
    assert_greedy(ranked(FacilityLocation("rbf"), h), 60, gains(h, "rbf"), 0, 1e-5, 1e-5)


def test_dpp_map_maximises_the_log_determinant():
    h = np.random.default_rng(4).normal(size=(8, 3)).astype(np.float32)
    kernel = reference_gaussian(h) + 1e-6 * np.eye(8)
    order = ranked(DPPMap(), h)
    for k in range(1, 8):
        value = {i: np.linalg.slogdet(kernel[np.ix_(s, s)])[1] for i in order[k:] for s in [[*order[:k], i]]}
        assert max(value, key=value.__getitem__) == order[k]


# The whole order of a larger pool is that of the reference.


@pytest.fixture(scope="module")
def large() -> Floats:
    rng = np.random.default_rng(5)
    h = rng.normal(size=(25, 24))[rng.integers(25, size=1500)] + 0.4 * rng.normal(size=(1500, 24))
    return (h - h.mean(axis=0)).astype(np.float32)


def test_kcenter_orders_a_large_pool_as_the_reference(large):
    order = ranked(KCenter(), large)
    assert order == kcenter.reference_order(large, order[:1])


def test_kcenter_orders_tight_clusters_as_the_reference():
    rng = np.random.default_rng(6)
    h = 10 * rng.normal(size=(2, 16))[rng.integers(2, size=1200)] + 1e-3 * rng.normal(size=(1200, 16))
    order = ranked(KCenter(), h.astype(np.float32))
    assert order == kcenter.reference_order(h.astype(np.float32), order[:1])


def test_mmr_orders_a_large_pool_as_the_reference(large):
    h = large[:1000]
    pool = pool_of(h)
    quality = reference_quality(pool.logprobs / pool.lengths)
    assert ranked(MMR(0.5), h) == mmr.reference_order(reference_cosines(h), quality, 0.5)


def test_facility_location_orders_a_large_pool_as_the_reference(large):
    order = ranked(FacilityLocation(), large)
    assert order[:150] == facility_location.reference_order(reference_similarities(large, "cosine"), 150)


@tiny_sets
@pytest.mark.usefixtures("blocks")
def test_dpp_map_orders_a_pool_as_the_reference(large):
    h = large[:500]
    order = ranked(DPPMap(), h)
    assert order == dpp_map.reference_order(reference_gaussian(h), 1e-6, order[:1])


def test_dpp_map_with_the_cosine_kernel_is_repexp_on_unit_vectors(large):
    h = large.astype(np.float64)
    unit_pool = h / np.linalg.norm(h, axis=1, keepdims=True)
    assert ranked(DPPMap("cosine", ridge=1.0), large) == ranked(RepExp(lam=1.0), unit_pool)


def test_the_cosine_kernels_picks_up_to_its_rank_are_those_without_a_ridge(large):
    order = ranked(DPPMap("cosine"), large)
    assert order[:24] == dpp_map.reference_order(reference_cosines(large), 1e-13, order[:1])[:24]


def test_a_bandwidth_given_takes_the_place_of_the_median(large):
    h = large[:200]
    assert ranked(DPPMap(bandwidth=median_bandwidth(h)), h) == ranked(DPPMap(), h)
    assert ranked(DPPMap(bandwidth=0.5), h) != ranked(DPPMap(), h)
    assert ranked(FacilityLocation("rbf", 0.5), h) != ranked(FacilityLocation("rbf"), h)


def test_the_median_distance_of_many_rows_is_near_that_of_all_and_depends_on_no_order():
    h = np.random.default_rng(7).normal(size=(3000, 5)) * [5, 1, 1, 1, 1]
    h -= h.mean(axis=0)
    median = similarity.median_distance(h)
    assert median == pytest.approx(np.median(pdist(h)), rel=0.02)
    assert similarity.median_distance(h[::-1].copy()) == pytest.approx(median, rel=1e-12)


# Random choices have the right law.


@tiny_sets
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("sampler", ["ours", "reference"])
def test_kmeans_pp_samples_every_order_as_often_as_its_chances_say(monkeypatch, active, sampler):
    if active is None:
        monkeypatch.setattr(kmeans_pp, "BLOCK", 64)
    h = np.array([[0.0], [1.0], [1.5], [4.0], [4.2]], np.float32)
    pool, rng, n, draws = pool_of(h), np.random.default_rng(8), len(h), 3000
    orders = partial(KMeansPP().rank, pool) if sampler == "ours" else partial(kmeans_pp.reference_order, h)
    counts = Counter(tuple(orders(rng)) for _ in range(draws))
    expected = {}
    for order in permutations(range(n)):
        chance = 1 / n
        for k in range(1, n):
            chance *= reference_chances(h, order[:k])[order[k]]
        expected[order] = chance * draws
    often = [order for order in expected if expected[order] >= 5]
    seldom = draws - sum(counts[order] for order in often)
    rest = draws - sum(expected[order] for order in often)
    assert chisquare([*(counts[o] for o in often), seldom], [*(expected[o] for o in often), rest]).pvalue > 0.001


def test_kmeans_pp_samples_by_blocks_as_the_reference_does():
    """Among many proposals the refused and the kept ones must leave the law as it is."""
    rng = np.random.default_rng(9)
    h = np.repeat(np.array([[0.0], [3.0], [3.5], [9.0]], np.float32), 30, axis=0)
    h += 0.01 * rng.normal(size=h.shape).astype(np.float32)
    pool, draws = pool_of(h), 800
    sums = np.zeros((2, 4))
    for _ in range(draws):
        order = list(islice(KMeansPP().rank(pool, rng), 5))
        sums[0] += np.bincount(np.array(order) // 30, minlength=4)
        picked: list[int] = []
        while len(picked) < 5:
            picked.append(int(rng.choice(120, p=reference_chances(h, picked))))
        sums[1] += np.bincount(np.array(picked) // 30, minlength=4)
    assert np.abs(sums[0] - sums[1]).max() < 5 * np.sqrt(draws)


def test_kmeans_pp_ranks_the_copies_of_picks_in_random_order():
    h = np.zeros((3, 2), np.float32)
    pool, rng = pool_of(h), np.random.default_rng(10)
    counts = Counter(tuple(KMeansPP().rank(pool, rng)) for _ in range(3000))
    assert chisquare([counts[order] for order in permutations(range(3))]).pvalue > 0.001


@pytest.mark.parametrize("ranker", [KCenter(), KMeansPP(), DPPMap(), DPPMap("cosine")], ids=str)
def test_a_random_first_pick_is_uniform(ranker):
    pool, rng = pool_of(np.array([[0], [1], [1], [5], [-9], [100]], np.float32)), np.random.default_rng(11)
    firsts = Counter(next(ranker.rank(pool, rng)) for _ in range(1800))
    assert chisquare([firsts[i] for i in range(6)]).pvalue > 0.001


def assert_law(selector: KDPP, kernel: Floats, h: Floats, k: int, draws: int = 1500) -> None:
    pool, rng = pool_of(h), np.random.default_rng(12)
    counts = Counter(tuple(selector.select(pool, k, rng)) for _ in range(draws))
    law = reference_law(kernel, selector.ridge, k)
    often = [s for s in law if law[s] * draws >= 5]
    rest = 1 - sum(law[s] for s in often)
    observed, expected = [counts[s] for s in often], [law[s] * draws for s in often]
    if rest * draws > 1:
        observed, expected = [*observed, draws - sum(observed)], [*expected, rest * draws]
    else:
        assert draws - sum(observed) <= 8
        expected = list(np.array(expected) * sum(observed) / sum(expected))
    assert chisquare(observed, expected).pvalue > 0.001


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_k_dpp_samples_each_set_as_often_as_its_determinant_says(k):
    h = np.random.default_rng(13).normal(size=(7, 3)).astype(np.float32)
    assert_law(KDPP("rbf"), reference_gaussian(h), h, k)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_k_dpp_samples_by_the_determinant_below_and_beyond_the_rank(kind, k):
    h = np.random.default_rng(14).normal(size=(6, 3)).astype(np.float32)
    kernel = reference_cosines(h) if kind == "cosine" else h.astype(np.float64) @ h.T
    assert_law(KDPP(kind, ridge=0.05), kernel, h, k)


def test_k_dpp_samples_any_set_of_vectors_that_are_all_zero():
    h = np.zeros((4, 2), np.float32)
    assert_law(KDPP("linear"), np.zeros((4, 4)), h, 2)


@pytest.mark.parametrize("block", [2, 64])
def test_samples_from_a_projection_have_its_minors_as_law(block, monkeypatch):
    monkeypatch.setattr(projection_sampling, "BLOCK", block)
    rng = np.random.default_rng(15)
    basis = np.linalg.qr(rng.normal(size=(6, 4)))[0]
    counts = Counter(tuple(sorted(projection_sampling.sample_rows(basis, rng))) for _ in range(3000))
    law = {s: np.linalg.det(basis[list(s)]) ** 2 for s in combinations(range(6), 4)}
    assert sum(law.values()) == pytest.approx(1)
    assert chisquare([counts[s] for s in law], [3000 * p for p in law.values()]).pvalue > 0.001


def test_a_row_is_sampled_once_whatever_rounding_leaves_of_it():
    for seed in range(50):
        basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 4)))[0]
        accepted, _ = projection_sampling._accept(basis[[0, 0, 1, 0]], np.array([0, 0, 1, 0]), np.zeros(4))
        assert accepted == [0, 2]


def test_eigenvectors_are_chosen_by_the_product_of_their_weights():
    log_weight, rng = np.array([-3.0, -1.0, 0.0, 0.5, 2.0]), np.random.default_rng(16)
    chosen = [projection_sampling.choose_eigenvectors(log_weight, 3, rng) for _ in range(3000)]
    counts = Counter(tuple(np.flatnonzero(which)) for which in chosen)
    weight = {s: np.exp(log_weight[list(s)].sum()) for s in combinations(range(5), 3)}
    expected = [3000 * w / sum(weight.values()) for w in weight.values()]
    assert chisquare([counts[s] for s in weight], expected).pvalue > 0.001


@pytest.mark.parametrize("k", [1, 700, 1999])
def test_eigenvectors_are_chosen_from_weights_that_no_product_could_hold(k):
    log_weight = np.linspace(-900, 900, 2000)
    chosen = projection_sampling.choose_eigenvectors(log_weight, k, np.random.default_rng(17))
    assert chosen.sum() == k
    assert chosen[-1]


def test_k_dpp_prefers_unlike_responses():
    h = np.array([[1, 0], [1, 0.01], [0, 1]], np.float32)
    pool, rng = pool_of(h), np.random.default_rng(18)
    counts = Counter(tuple(KDPP().select(pool, 2, rng)) for _ in range(300))
    assert counts[0, 1] <= 3


def test_k_dpp_takes_all_directions_where_k_exceeds_the_rank():
    h = np.zeros((30, 3), np.float32)
    h[:, 0] = 1
    h[4], h[17] = [0, 1, 0], [0, 0, 1]
    for seed in range(20):
        assert {4, 17} <= set(KDPP().select(pool_of(h), 6, np.random.default_rng(seed)))


# Subset methods.


def test_kmeans_takes_of_each_cluster_the_response_nearest_to_its_centre():
    rng = np.random.default_rng(19)
    centres = 50 * rng.normal(size=(6, 4))
    label = rng.integers(6, size=90)
    h = (centres[label] + rng.normal(size=(90, 4))).astype(np.float32)
    wanted = []
    for c in range(6):
        members = np.flatnonzero(label == c)
        wanted.append(members[((h[members] - h[members].mean(axis=0, dtype=float)) ** 2).sum(axis=1).argmin()])
    assert KMeans().select(pool_of(h), 6, np.random.default_rng(0)) == sorted(wanted)


@pytest.mark.parametrize("k", [2, 5, 9])
def test_kmeans_chooses_as_the_reference_does_from_the_same_start(k):
    h = np.random.default_rng(36).normal(size=(200, 4))
    start = list(islice(KMeansPP().rank(pool_of(h), np.random.default_rng(k)), k))
    assert KMeans().select(pool_of(h), k, np.random.default_rng(k)) == reference_choice(h, start)


def test_kmeans_counts_equal_responses_as_often_as_they_occur():
    h = np.array([[0.0]] * 20 + [[1.0], [2.0], [3.0]], np.float32)
    assert KMeans().select(pool_of(h), 1, np.random.default_rng(0)) == [0]


def test_kmeans_takes_all_distinct_responses_and_then_copies_where_k_asks_for_more():
    h = np.array([[0], [0], [1], [1], [2], [2]], np.float32)
    chosen = {k: KMeans().select(pool_of(h), k, np.random.default_rng(0)) for k in range(1, 7)}
    assert chosen[3] == [0, 2, 4]
    assert chosen[4] == [0, 1, 2, 4]
    assert chosen[6] == [0, 1, 2, 3, 4, 5]


def test_kmeans_finds_k_responses_where_floats_cannot_part_the_clusters():
    h = (1e6 + np.spacing(np.float32(1e6)) * np.arange(12)[:, None] * [1, 0]).astype(np.float32)
    h[:4] = -h[:4]
    for k in range(1, 13):
        assert len(set(KMeans().select(pool_of(h), k, np.random.default_rng(k)))) == k


def test_kmedoids_has_the_least_distance_that_any_single_swap_reaches():
    pytest.importorskip("kmedoids")
    h = np.random.default_rng(20).normal(size=(12, 3)).astype(np.float32)
    for k in (1, 3, 6):
        assert reference_swap_gain(h, KMedoids().select(pool_of(h), k, np.random.default_rng(0))) <= 1e-5


def test_kmedoids_sums_distances_and_not_their_squares():
    pytest.importorskip("kmedoids")
    h = np.array([[0], [1], [2], [3], [100]], np.float32)
    assert KMedoids().select(pool_of(h), 1, np.random.default_rng(0)) == [2]


def test_kmedoids_names_its_extra_where_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "kmedoids", None)
    with pytest.raises(HarnessError, match=r"kmedoids: needs the package kmedoids: pip install .*\[kmedoids\]"):
        KMedoids()


@pytest.mark.parametrize("selector", SUBSETS, ids=str)
@every_family
def test_subsets_are_of_k_distinct_responses_for_every_k(selector, h):
    for k in (1, 2, 7, len(h) - 1, len(h)):
        chosen = selector.select(pool_of(h), k, np.random.default_rng(0))
        assert len(chosen) == len(set(chosen)) == k
        assert set(chosen) <= set(range(len(h)))
        assert chosen == selector.select(pool_of(h), k, np.random.default_rng(0))


@pytest.mark.parametrize("selector", SUBSETS, ids=str)
@pytest.mark.parametrize("k", [0, 6])
def test_a_subset_that_the_pool_cannot_give_is_refused(selector, k):
    with pytest.raises(HarnessError, match=rf"k must be in 1..5, the size of the pool, got {k}"):
        selector.select(pool_of(np.ones((5, 2), np.float32)), k, np.random.default_rng(0))


# Independent libraries. Their warnings are about numpy and scipy of their day.

their_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def covered(s: Floats, order: list[int]) -> Floats:
    """The value of every prefix. Two rows that are each other's nearest tie, and either leads to the same values."""
    return np.maximum.accumulate(s[order], axis=0).sum(axis=1)


@their_warnings
@pytest.mark.parametrize("kind", ["cosine", "rbf", "euclidean"])
def test_facility_location_gains_what_apricot_does(kind, large):
    apricot = pytest.importorskip("apricot")
    s = reference_similarities(large[:300], kind)
    theirs = apricot.FacilityLocationSelection(150, metric="precomputed", optimizer="naive").fit(s).ranking
    order = ranked(FacilityLocation(kind), large[:300])
    assert order[:20] == theirs[:20].tolist()
    assert covered(s, order[:150]) == pytest.approx(covered(s, theirs), rel=1e-9)


@their_warnings
def test_facility_location_gains_what_submodlib_does(large):
    submodlib = pytest.importorskip("submodlib")
    s = reference_similarities(large[:300], "cosine")
    theirs = submodlib.FacilityLocationFunction(n=300, mode="dense", sijs=s, separate_rep=False)
    picks = [index for index, _ in theirs.maximize(budget=150, optimizer="LazyGreedy", show_progress=False)]
    order = ranked(FacilityLocation(), large[:300])
    assert order[:20] == picks[:20]
    assert covered(s, order[:150]) == pytest.approx(covered(s, picks), rel=1e-6)


@their_warnings
def test_dpp_map_picks_as_submodlibs_log_determinant_does(large):
    submodlib = pytest.importorskip("submodlib")
    h = large[:300]
    theirs = submodlib.LogDeterminantFunction(n=300, mode="dense", lambdaVal=1e-2, sijs=reference_gaussian(h))
    picks = [index for index, _ in theirs.maximize(budget=60, optimizer="NaiveGreedy", show_progress=False)]
    starts_there = next(seed for seed in range(9999) if np.random.default_rng(seed).integers(300) == picks[0])
    assert ranked(DPPMap(ridge=1e-2), h, seed=starts_there)[:60] == picks


@their_warnings
def test_k_dpp_samples_as_dppy_does():
    dpps = pytest.importorskip("dppy.finite_dpps")
    h = np.random.default_rng(21).normal(size=(8, 4)).astype(np.float32)
    kernel = reference_gaussian(h)
    theirs, state = dpps.FiniteDPP("likelihood", L=kernel), np.random.RandomState(0)
    counts = Counter(tuple(sorted(theirs.sample_exact_k_dpp(3, random_state=state))) for _ in range(3000))
    law = reference_law(kernel, 1e-6, 3)
    often = [s for s in law if law[s] * 3000 >= 5]
    assert chisquare([counts[s] for s in often], [law[s] * 3000 for s in often], sum_check=False).pvalue > 0.001
    assert_law(KDPP("rbf"), kernel, h, 3)


# What every ranker keeps.


@pytest.mark.parametrize("ranker", RANKERS, ids=str)
@every_family
def test_every_index_comes_once_and_the_same_seed_gives_the_same_order(ranker, h):
    order = ranked(ranker, h, seed=3)
    assert sorted(order) == list(range(len(h)))
    assert all(type(index) is int for index in order)
    assert order == ranked(ranker, h, seed=3)


@pytest.mark.parametrize("ranker", RANKERS, ids=str)
def test_the_first_picks_are_those_of_the_full_order(ranker, large):
    ranking = ranker.rank(pool_of(large), np.random.default_rng(0))
    assert list(islice(ranking, 40)) == ranked(ranker, large)[:40]


@pytest.mark.parametrize("ranker", DETERMINISTIC, ids=str)
def test_deterministic_rankers_use_no_randomness(ranker, large):
    rng = np.random.default_rng(22)
    list(ranker.rank(pool_of(large[:50]), rng))
    assert rng.random() == np.random.default_rng(22).random()


@pytest.mark.parametrize("ranker", [KCenter(), DPPMap(), DPPMap("cosine")], ids=str)
def test_a_random_first_pick_is_the_only_random_number(ranker, large):
    rng, same = np.random.default_rng(23), np.random.default_rng(23)
    order = list(ranker.rank(pool_of(large[:50]), rng))
    assert order[0] == same.integers(50)
    assert rng.random() == same.random()


@pytest.mark.parametrize("ranker", DETERMINISTIC, ids=str)
def test_deterministic_rankers_follow_a_permutation_of_the_pool(ranker):
    h = np.random.default_rng(24).normal(size=(200, 6)).astype(np.float32)
    pool, moved = pool_of(h), np.random.default_rng(25).permutation(200)
    other = Pool(["x"] * 200, h[moved], pool.logprobs[moved], pool.lengths[moved], [None] * 200)
    rng = np.random.default_rng(0)
    assert [moved[i] for i in ranker.rank(other, rng)] == list(ranker.rank(pool, rng))


def test_the_first_pick_at_most_is_farthest_from_the_mean():
    h = FAMILIES["one outlier"]
    for ranker in (KCenter("max"), DPPMap(first="max"), DPPMap("cosine", first="max")):
        assert ranked(ranker, h)[0] == len(h) - 1


@pytest.mark.parametrize("ranker", DETERMINISTIC, ids=str)
def test_ties_go_to_the_lowest_index(ranker):
    same = np.ones((300, 3), np.float32)
    pool = Pool(["x"] * 300, same, np.full(300, -1.0), np.ones(300, np.int64), [None] * 300)
    assert list(ranker.rank(pool, np.random.default_rng(0))) == list(range(300))
    pool = Pool(["x"] * 300, np.eye(300), np.full(300, -1.0), np.ones(300, np.int64), [None] * 300)
    assert list(ranker.rank(pool, np.random.default_rng(0))) == list(range(300))
    orthogonal = np.tile(np.eye(4, dtype=np.float32), (3, 1))
    pool = Pool(["x"] * 12, orthogonal, np.full(12, -1.0), np.ones(12, np.int64), [None] * 12)
    assert list(ranker.rank(pool, np.random.default_rng(0)))[:4] == [0, 1, 2, 3]


def test_ties_between_copies_go_to_the_lowest_index_left():
    h = np.eye(2, dtype=np.float32)[[0, 1, 0, 1, 1, 0]]
    assert ranked(DPPMap(first="max"), h) == [0, 1, 2, 3, 4, 5]


def test_facility_location_ranks_by_index_what_gains_nothing():
    """Rows of a cluster differ by less than float32 similarities can tell."""
    rng = np.random.default_rng(29)
    which = rng.integers(8, size=400)
    h = 30 * rng.normal(size=(8, 3))[which] + 1e-6 * rng.normal(size=(400, 3))
    order = ranked(FacilityLocation("rbf", bandwidth=12), h)
    assert sorted(which[order[:8]]) == list(range(8))
    assert order[8:] == sorted(order[8:])


@pytest.mark.parametrize("ranker", [KCenter(), FacilityLocation(), FacilityLocation("rbf"), DPPMap()], ids=str)
def test_copies_of_picks_come_last(ranker):
    rng = np.random.default_rng(26)
    which = rng.permutation(np.repeat(np.arange(15), 4))
    order = ranked(ranker, rng.normal(size=(15, 5)).astype(np.float32)[which])
    assert sorted(which[order[:15]]) == list(range(15))


@pytest.mark.parametrize("ranker", RANKERS, ids=str)
def test_one_response_is_ranked_alone_and_none_are_not_ranked(ranker):
    assert ranked(ranker, np.ones((1, 4), np.float32)) == [0]
    assert ranked(ranker, np.zeros((1, 4), np.float32)) == [0]
    assert ranked(ranker, np.empty((0, 4), np.float32)) == []


@pytest.mark.parametrize("ranker", [r for r in RANKERS if r not in (DPPMap(), DPPMap(first="max"))], ids=str)
def test_float16_embeddings_are_ranked_as_their_float32_values(ranker):
    h = FAMILIES["gaussian"].astype(np.float16)
    assert ranked(ranker, h) == ranked(ranker, h.astype(np.float32))


@pytest.mark.parametrize("selector", [*RANKERS, *SUBSETS], ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_pool_is_not_changed_nor_the_global_random_state(selector, dtype, large):
    h = large[:120].astype(dtype)
    before, state = h.copy(), str(np.random.get_state())
    pool = pool_of(h)
    if hasattr(selector, "rank"):
        list(selector.rank(pool, np.random.default_rng(0)))
    else:
        selector.select(pool, 9, np.random.default_rng(0))
    assert np.array_equal(h, before)
    assert state == str(np.random.get_state())


@pytest.mark.parametrize("selector", [*RANKERS, *SUBSETS], ids=str)
def test_a_pool_without_embeddings_asks_for_an_embedder(selector):
    with pytest.raises(HarnessError, match=r"^[a-z-]+: the pool has no embeddings; it needs an embedder"):
        start(selector, pool_of(np.empty((5, 0), np.float32)))


def start(selector, pool: Pool) -> object:
    rng = np.random.default_rng(0)
    return selector.rank(pool, rng) if hasattr(selector, "rank") else selector.select(pool, 2, rng)


def test_mmr_refuses_log_probabilities_that_are_missing():
    h = np.ones((3, 2), np.float32)
    for logprobs, message in (([np.nan] * 3, "has no log-probabilities"), ([-1, np.nan, -2], "of response 1 is nan")):
        pool = Pool(["x"] * 3, h, np.array(logprobs), np.ones(3, np.int64), [None] * 3)
        with pytest.raises(HarnessError, match=f"mmr: .*{message}"):
            MMR().rank(pool, np.random.default_rng(0))


def test_mmr_counts_equal_log_probabilities_half():
    h, rng = FAMILIES["gaussian"], np.random.default_rng(30)
    logprobs = rng.choice([-3.0, -2.0, -1.0], size=90, p=[0.1, 0.8, 0.1])
    pool = Pool(["x"] * 90, h, logprobs, np.ones(90, np.int64), [None] * 90)
    order = list(MMR(0.5).rank(pool, rng))
    assert_greedy(order, 90, mmr_scores(pool, 0.5), start=0, atol=1e-9)


def test_mmr_counts_a_response_without_tokens_as_one_token():
    pool = Pool(["", "x"], np.eye(2, dtype=np.float32), np.array([-1.0, -0.5]), np.array([0, 1]), [None] * 2)
    assert list(MMR().rank(pool, np.random.default_rng(0))) == [1, 0]


@pytest.mark.parametrize("selector", [*RANKERS, *SUBSETS], ids=str)
def test_selectors_survive_pickling(selector):
    assert pickle.loads(pickle.dumps(selector)) == selector


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: KCenter(first="min"), "kcenter: first must be 'random' or 'max', got 'min'"),
        (lambda: MMR(alpha=1.5), r"mmr: alpha must be in \[0, 1\], got 1.5"),
        (lambda: MMR(alpha=np.nan), r"mmr: alpha must be in \[0, 1\], got nan"),
        (lambda: MMR(quality="length"), "mmr: quality must be 'mean-logprob' or 'logprob', got 'length'"),
        (
            lambda: FacilityLocation("dot"),
            "facility-location: similarity must be 'cosine', 'rbf' or 'euclidean', got 'dot'",
        ),
        (
            lambda: FacilityLocation("rbf", 0.0),
            "facility-location: bandwidth must be > 0 and finite, or none .* got 0.0",
        ),
        (lambda: DPPMap("poly"), "dpp-map: kernel must be 'rbf' or 'cosine', got 'poly'"),
        (lambda: DPPMap(first="min"), "dpp-map: first must be 'random' or 'max', got 'min'"),
        (lambda: DPPMap(ridge=0.0), "dpp-map: ridge must be >= 1e-10 and finite, got 0.0"),
        (lambda: DPPMap(bandwidth=np.inf), "dpp-map: bandwidth must be > 0 and finite, or none .* got inf"),
        (lambda: KDPP("poly"), "k-dpp: kernel must be 'cosine', 'linear' or 'rbf', got 'poly'"),
        (lambda: KDPP(ridge=np.nan), "k-dpp: ridge must be > 0 and finite, got nan"),
        (lambda: KMeans(max_iter=0), "kmeans: max_iter must be >= 1, got 0"),
        (lambda: KMedoids(max_iter=0), "kmedoids: max_iter must be >= 1, got 0"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(build, message):
    with pytest.raises(HarnessError, match=f"^{message}"):
        build()


def test_the_selectors_say_which_columns_they_need():
    assert MMR.needs == ("embeddings", "logprobs")
    for selector in (KCenter, KMeansPP, FacilityLocation, DPPMap, KMeans, KMedoids, KDPP):
        assert selector.needs == ("embeddings",)


# First picks come at once.


def test_pulling_few_picks_of_the_nearest_pick_order_does_little_of_the_work(monkeypatch):
    work = Counter()
    near = nearest_pick.Sieve.near

    def counted(self, picked, distance):
        work["pairs"] += len(distance) * len(picked.rows)
        return near(self, picked, distance)

    monkeypatch.setattr(nearest_pick.Sieve, "near", counted)
    h = np.random.default_rng(27).normal(size=(3000, 16)).astype(np.float32)
    for ranker in (KCenter(), MMR(), KMeansPP()):
        work.clear()
        ranking = ranker.rank(pool_of(h), np.random.default_rng(0))
        assert not work["pairs"]
        list(islice(ranking, 16))
        few = work["pairs"]
        assert few <= 64 * 3000
        list(ranking)
        assert few * 20 < work["pairs"]


@pytest.mark.parametrize("family", ["tight clusters", "one outlier", "far from the origin"])
def test_few_pairs_need_a_close_look_where_float32_cannot_tell_them_apart(family, monkeypatch):
    work = Counter()
    between = nearest_pick.NearestPick.between

    def counted(self, rows, picks):
        work["pairs"] += len(rows)
        return between(self, rows, picks)

    monkeypatch.setattr(nearest_pick.NearestPick, "between", counted)
    rng, n = np.random.default_rng(31), 1200
    h = rng.normal(size=(n, 8))
    if family == "tight clusters":
        h = 1e-4 * h + 10 * rng.normal(size=(2, 8))[rng.integers(2, size=n)]
    elif family == "one outlier":
        h[5] = 1e6
    else:
        h = 1e-3 * h + 1000
    ranked(KCenter(), h)
    assert work["pairs"] < 30 * n


def test_pulling_few_picks_of_dpp_map_computes_few_kernel_entries(monkeypatch):
    work = Counter()
    block = similarity.Gaussian.block

    def counted(self, left, right):
        entries = block(self, left, right)
        work["entries"] += entries.size
        return entries

    monkeypatch.setattr(similarity.Gaussian, "block", counted)
    h = np.random.default_rng(28).normal(size=(1500, 16)).astype(np.float32)
    ranking = DPPMap().rank(pool_of(h), np.random.default_rng(0))
    assert not work["entries"]
    list(islice(ranking, 16))
    few = work["entries"]
    assert few <= 48 * 1500
    list(ranking)
    assert few * 10 < work["entries"]


def test_facility_location_computes_nothing_before_the_first_pick_and_one_matrix_for_it(monkeypatch):
    made = []
    matrix = similarity.symmetric_matrix

    def counted(n, block):
        made.append(n)
        return matrix(n, block)

    monkeypatch.setattr("harness_selectors.facility_location.symmetric_matrix", counted)
    ranking = FacilityLocation().rank(pool_of(FAMILIES["duplicated"]), np.random.default_rng(0))
    assert made == []
    next(ranking)
    assert made == [9]
    list(ranking)
    assert made == [9]


def test_k_dpp_decomposes_a_pool_once_and_forgets_it_with_the_pool(monkeypatch):
    from harness_selectors import k_dpp

    made = Counter()
    spectrum = KDPP._spectrum

    def counted(self, h):
        made[self] += 1
        return spectrum(self, h)

    monkeypatch.setattr(KDPP, "_spectrum", counted)
    pool = pool_of(FAMILIES["gaussian"])
    before = len(k_dpp._spectra)
    for k in (1, 5, 20):
        KDPP().select(pool, k, np.random.default_rng(0))
        KDPP(ridge=0.1).select(pool, k, np.random.default_rng(0))
    assert made == {KDPP(): 1, KDPP(ridge=0.1): 1}
    assert len(k_dpp._spectra) == before + 1
    del pool
    assert len(k_dpp._spectra) == before


def test_modules_of_vector_selectors_load_without_scipy_stats_sklearn_or_torch():
    names = ["kcenter", "kmeans_pp", "mmr", "facility_location", "dpp_map", "kmeans", "kmedoids", "k_dpp"]
    code = "import sys\n" + "".join(f"import harness_selectors.{name}\n" for name in names)
    code += "print(sorted({'torch', 'sklearn', 'scipy.stats', 'kmedoids'} & set(sys.modules)))"
    assert printed_by(code) == "[]"
