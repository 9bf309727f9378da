"""One selector against random: the laws meet enumeration, and the tests meet their error rates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nhypergeom
from support.calibration import calibration

from harness.scoring import stats


def ranks_of_placings(n: int, c: int) -> list[int]:
    return [min(places) + 1 for places in itertools.combinations(range(n), c)]


def random_ranks(n, c, trials, rng):
    """Ranks (problems, trials) in random orders; N+1 where c = 0."""
    return np.array([[min(rng.permutation(n)[:k], default=n) + 1 for _ in range(trials)] for k in c])


def two_sided(sums: list[int], total: int) -> float:
    sums = np.array(sums)
    return min(1.0, 2 * min((sums <= total).mean(), (sums >= total).mean()))


pools = st.lists(
    st.integers(2, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))), min_size=1, max_size=3
)


@settings(max_examples=30)
@given(pools, st.data())
def test_the_test_against_random_is_the_share_of_all_placings(pools, data):
    n, c = np.array(pools).T
    every = [ranks_of_placings(*pool) for pool in pools]
    seen = [data.draw(st.sampled_from(ranks)) for ranks in every]
    p = stats.random_order_test(np.array(seen)[:, None], n, c)
    assert p == pytest.approx(two_sided([sum(ranks) for ranks in itertools.product(*every)], sum(seen)), rel=1e-5)


@pytest.mark.parametrize("c", [[1, 3, 9, 5, 2], [1, 990, 995, 998, 999], [40] * 5])
def test_the_law_of_a_sum_of_ranks_is_the_convolution(c):
    n, c = np.full(5, 1_000), np.array(c)
    law = np.ones(1)
    for size, correct in zip(n, c, strict=True):
        once = nhypergeom.pmf(np.arange(size - correct + 1), size, size - correct, 1)
        law = np.convolve(np.convolve(law, once), once)
    total = int(np.searchsorted(law.cumsum(), 0.03)) + 10  # the least sum of ten ranks is 10
    lower, upper = stats._rank_sum_tails(n, c, 2, total)
    assert lower == pytest.approx(law[: total - 9].sum(), rel=1e-9)
    assert upper == pytest.approx(law[total - 10 :].sum(), rel=1e-9)


def test_the_window_of_the_law_leaves_out_next_to_nothing():
    n = np.full(300, 1_000)
    c = np.concatenate([[1, 2, 3], np.full(297, 700)])
    rng = np.random.default_rng(0)
    expected = float(((n + 1) / (c + 1)).sum())
    lower, upper = stats._rank_sum_tails(n, c, 1, expected)
    assert lower + upper == pytest.approx(1, abs=2e-3)  # one sum may be counted twice, or none
    drawn = [sum(min(rng.choice(1_000, k, replace=False)) + 1 for k in (1, 2, 3)) for _ in range(2_000)]
    assert lower == pytest.approx((np.array(drawn) + 297 * (1_001 / 701) <= expected).mean(), abs=0.04)


def test_problems_that_cannot_vary_say_nothing_against_random_and_a_perfect_selector_is_at_the_floor():
    assert stats.random_order_test(np.ones((100, 1), int), np.full(100, 64), np.full(100, 4)) == stats.P_FLOOR
    assert stats.random_subset_test(np.ones((100, 1)), np.full(100, 0.1)) == stats.P_FLOOR
    n = np.array([10, 10])
    assert stats.random_order_test(np.array([[11], [1]]), n, np.array([0, 10])) is None
    alone = stats.random_order_test(np.array([[4]]), np.array([10]), np.array([2]))
    assert stats.random_order_test(np.array([[11], [4], [1]]), np.full(3, 10), np.array([0, 2, 10])) == alone


def test_a_repeated_trial_is_no_further_evidence_and_an_independent_one_is():
    rng = np.random.default_rng(0)
    n, c = np.full(40, 30), rng.integers(1, 10, 40)
    once = np.minimum(random_ranks(30, c, 1, rng), 6)
    five = np.repeat(once, 5, axis=1)
    assert stats.independent_trials(five, n, c) == 1
    assert stats.random_order_test(five, n, c) == stats.random_order_test(once, n, c) < 0.05
    n, c = np.full(60, 64), rng.integers(1, 10, 60)
    assert stats.independent_trials(random_ranks(64, c, 5, rng), n, c) >= 4
    better = calibration.law(64, "w = 2").ranks(c, 5, rng)
    assert stats.random_order_test(better, n, c) < 1e-8 < stats.random_order_test(better[:, :1], n, c)


def test_the_effective_number_of_trials_is_the_design_effect_rounded_down():
    expected, counts = np.array([2.0, 5, 3, 4]), []
    for seed in (10, 1, 13):
        values = np.random.default_rng(seed).integers(1, 10, (4, 5)).astype(float)
        excess = values - (expected * values.mean(axis=1).sum() / expected.sum())[:, None]
        pairs = [(excess[:, i] * excess[:, j]).sum() for i, j in itertools.permutations(range(5), 2)]
        agreement = np.mean(pairs) / ((excess**2).sum() / 5)
        counts.append(stats._independent(values, expected))
        assert counts[-1] == int(5 / (1 + 4 * agreement))
    assert counts == [3, 2, 1]
    assert stats._independent(values[:, :1], expected) == 1
    assert stats._independent(np.array([[2.0, 2]]), np.array([9.0])) == 1


@pytest.mark.parametrize("trials", [1, 5])
def test_a_random_order_is_told_from_random_about_as_often_as_the_test_says(trials):
    rng = np.random.default_rng(trials)
    n, c = np.full(30, 12), np.arange(30) % 12
    p = np.array([stats.random_order_test(random_ranks(12, c, trials, rng), n, c) for _ in range(300)])
    assert 0.005 <= (p <= 0.05).mean() <= 0.09
    assert 0.3 <= (p <= 0.5).mean() <= 0.6


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(2, 6), st.integers(1, 5)), min_size=1, max_size=4), st.integers(1, 3), st.data())
def test_the_test_of_subsets_is_the_share_of_all_choices_of_subsets(pools, k, data):
    every = [
        [any(i < min(c, n) for i in subset) for subset in itertools.combinations(range(n), min(k, n))] for n, c in pools
    ]
    seen = [data.draw(st.sampled_from(hits)) for hits in every]
    p = stats.random_subset_test(np.array(seen, float)[:, None], np.array([np.mean(hits) for hits in every]))
    vary = [(hits, hit) for hits, hit in zip(every, seen, strict=True) if len(set(hits)) > 1]
    if not vary:
        assert p is None
        return
    sums = [sum(choice) for choice in itertools.product(*(hits for hits, _ in vary))]
    assert p == pytest.approx(two_sided(sums, sum(hit for _, hit in vary)), rel=1e-5)


def test_a_subset_method_that_repeats_itself_has_one_trial():
    chances = np.linspace(0.1, 0.9, 40)
    once = (np.random.default_rng(0).random((40, 1)) < chances[:, None] + 0.2).astype(float)
    five = np.repeat(once, 5, axis=1)
    assert stats.random_subset_test(five, chances) == stats.random_subset_test(once, chances)
    fresh = (np.random.default_rng(0).random((40, 5)) < chances[:, None] + 0.2).astype(float)
    assert stats.random_subset_test(fresh, chances) < 0.01 * stats.random_subset_test(fresh[:, :1], chances)


def test_false_discovery_rates_are_benjamini_and_hochbergs_and_keep_their_places():
    assert stats.false_discovery_rates([0.04, None, 0.01, 0.03]) == [0.04, None, 0.03, 0.04]
    assert stats.false_discovery_rates([None]) == [None]
    assert stats.false_discovery_rates([]) == []
