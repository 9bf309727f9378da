"""Intervals over problems, two selectors compared, and one compared with random, as docs/statistics.md claims.

Laws and tests meet enumeration, intervals a known truth; equal selectors and random orders are not told apart.
"""

from itertools import combinations, permutations, product

import numpy as np
import pytest
from bench import calibration
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nhypergeom

from harness.scoring import stats
from harness.scoring.metrics import random_restricted_mean


@pytest.mark.slow
def test_at_400_problems_of_bounded_skew_the_interval_covers_93_to_97_per_cent():
    covered = []
    for place, selector in enumerate(calibration.SELECTORS):
        truth = calibration.true_mean(64, "hard", "random", 64) / calibration.true_mean(64, "hard", selector, 64)
        rng, c = calibration.sample(64, "hard", 400, [7, place], problems=400)
        ranks, sizes = calibration.law(64, selector).ranks(c, 1, rng), np.full(c.shape, 64)
        assert np.mean([stats.trust(*each) == "nominal" for each in zip(sizes.T, c.T, strict=True)]) > 0.9
        intervals = stats.ratio_intervals(random_restricted_mean(sizes, c, 64), ranks.mean(axis=2), seed=0)
        covered.append(calibration.covers(intervals, truth).mean())
    assert 0.93 <= np.mean(covered) <= 0.97


def test_the_intervals_of_a_ratio_and_of_a_difference_cover_them():
    a, b = np.random.default_rng(0).exponential(size=(2, 100, 400))
    for intervals, truth in ((stats.difference_intervals(a - 1, 0), 0.0), (stats.ratio_intervals(2 * a, b, 0), 2.0)):
        assert 0.92 <= calibration.covers(intervals, truth).mean() <= 0.98


def test_an_interval_that_says_nothing_is_none():
    assert stats.ratio_interval(np.array([32.5, 32.5, 32.5]), np.array([64.0, 1.0, 2.0]), 0) is None
    differences = np.array([1.0, -0.9, 0.1])
    assert stats.difference_interval(differences, 0)[1] > 1
    assert stats.difference_interval(differences, 0, widest=1.0) is None
    for ends in (stats.ratio_interval(np.array([2.0]), np.array([1.0]), 0), stats.difference_interval(np.ones(1), 0)):
        assert ends is None
    assert [stats.why_none(problems, "wide") for problems in (1, 2)] == [stats.ONE_PROBLEM, "wide"]


def test_trust_says_what_the_pool_allows():
    c = np.full(400, 32)
    c[0] = 0  # 65 calls of 851
    seeds = np.stack([c, np.full(400, 63), np.full(400, 63), np.full(400, 63)], axis=1)  # 17.0 of 505 calls
    pools = [np.full(99, 32), np.full(100, 32), c, seeds, np.full((400, 4), 32), np.array([], int)]
    trusted = ["few problems", "nominal", "rough", "rough", "nominal", "few problems"]
    assert [stats.trust(np.full(pool.shape, 64), pool) for pool in pools] == trusted


def test_the_sign_flip_test_is_exact_on_few_problems():
    differences = np.array([1.0, 2.0, 4.0, 8.0, 0.0])
    assert stats.sign_flip_test(differences, seed=0) == stats.sign_flip_test(-differences, seed=5) == 2 / 16
    among_equals = np.concatenate([np.ones(12), np.zeros(200)])
    assert stats.sign_flip_test(among_equals, seed=0) == pytest.approx(2 / 2**12, rel=1e-5)
    assert [stats.sign_flip_test(np.array(few), 0) for few in ([], [5.0], [5.0, 0.0], [5.0, 5.0])] == [1, 1, 1, 0.5]


def two_sided(every, seen):
    """The share of all choices of one value of each list whose sum is as far out as that of the values seen."""
    sums = np.array([sum(choice) for choice in product(*every)])
    return min(1.0, 2 * min((sums <= sum(seen)).mean(), (sums >= sum(seen)).mean()))


pools = st.lists(st.tuples(st.integers(2, 5), st.integers(1, 5)), min_size=1, max_size=3)


@settings(max_examples=30)
@given(pools, st.integers(1, 3), st.data())
def test_the_tests_against_random_are_shares_of_all_placings_and_of_all_choices_of_subsets(pools, k, data):
    n = np.array([size for size, _ in pools])
    c = np.array([min(correct, size) for size, correct in pools])
    ranks = [[min(places) + 1 for places in combinations(range(size), some)] for size, some in zip(n, c, strict=True)]
    hits = [
        [any(i < some for i in subset) for subset in combinations(range(size), min(k, size))]
        for size, some in zip(n, c, strict=True)
    ]
    for every, tested in (
        (ranks, lambda seen: stats.random_order_test(seen, n, c)),
        (hits, lambda seen: stats.random_subset_test(seen, np.array([np.mean(each) for each in hits]))),
    ):
        seen = [data.draw(st.sampled_from(values)) for values in every]
        vary = [place for place, values in enumerate(every) if len({*values}) > 1]
        expected = two_sided([every[at] for at in vary], [seen[at] for at in vary])
        p = tested(np.array(seen, float)[:, None])
        assert p == (pytest.approx(expected, rel=1e-5) if vary else None)


@pytest.mark.parametrize("c", [[1, 3, 9, 5, 2], [1, 990, 995, 998, 999]])
def test_the_law_of_a_sum_of_ranks_is_the_convolution(c):
    n, c = np.full(5, 1_000), np.array(c)
    law = np.ones(1)
    for size, correct in zip(n, c, strict=True):
        once = nhypergeom.pmf(np.arange(size - correct + 1), size, size - correct, 1)
        law = np.convolve(np.convolve(law, once), once)
    total = int(np.searchsorted(law.cumsum(), 0.03)) + 10  # the least sum of ten ranks is 10
    first, computed = stats._rank_sum_law(n, c, 2)
    assert computed[: total - first + 1].sum() == pytest.approx(law[: total - 9].sum(), rel=1e-9)
    assert computed[total - first :].sum() == pytest.approx(law[total - 10 :].sum(), rel=1e-9)


def test_the_effective_number_of_trials_is_the_design_effect_rounded_down():
    expected = np.array([2.0, 5, 3, 4])
    for seed, count in ((10, 3), (1, 2), (13, 1)):
        values = np.random.default_rng(seed).integers(1, 10, (4, 5)).astype(float)
        excess = values - (expected * values.mean(axis=1).sum() / expected.sum())[:, None]
        pairs = [(excess[:, i] * excess[:, j]).sum() for i, j in permutations(range(5), 2)]
        assert (
            stats.independent_trials(values, expected)
            == int(5 / (1 + 20 * np.mean(pairs) / (excess**2).sum()))
            == count
        )
    assert stats.independent_trials(np.array([[2.0, 2]]), np.array([9.0])) == 1


def test_false_discovery_rates_are_benjamini_and_hochbergs_and_keep_their_places():
    assert stats.false_discovery_rates([0.04, None, 0.01, 0.03]) == [0.04, None, 0.03, 0.04]
    assert [stats.false_discovery_rates(none) for none in ([None], [])] == [[None], []]
