"""Exact laws meet enumeration, intervals meet known truth, tests meet their error rates."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import nhypergeom
from support.paths import ROOT
from support.processes import printed_by

from harness import HarnessError
from harness.scoring import stats

spec = importlib.util.spec_from_file_location("calibration", ROOT / "tests" / "bench" / "calibration.py")
calibration = importlib.util.module_from_spec(spec)
sys.modules["calibration"] = calibration  # where its dataclasses look for their annotations
spec.loader.exec_module(calibration)


def ranks_of_placings(n: int, c: int) -> list[int]:
    return [min(places) + 1 for places in itertools.combinations(range(n), c)]


def random_ranks(n, c, trials, rng):
    """Ranks (problems, trials) in random orders; N+1 where c = 0."""
    return np.array([[min(rng.permutation(n)[:k], default=n) + 1 for _ in range(trials)] for k in c])


def two_sided(sums: list[int], total: int) -> float:
    sums = np.array(sums)
    return min(1.0, 2 * min((sums <= total).mean(), (sums >= total).mean()))


# One selector against random

pools = st.lists(
    st.integers(2, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))), min_size=1, max_size=3
)


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
    lower, upper = stats._rank_sum_tails(n, c, 1, float(((n + 1) / (c + 1)).sum()))
    assert lower + upper == pytest.approx(1, abs=2e-3)  # one sum may be counted twice, or none
    drawn = [sum(min(rng.choice(1_000, k, replace=False)) + 1 for k in (1, 2, 3)) for _ in range(4_000)]
    small = 297 * (1_001 / 701)
    assert lower == pytest.approx((np.array(drawn) + small <= ((n + 1) / (c + 1)).sum()).mean(), abs=0.03)


def test_problems_that_cannot_vary_say_nothing_against_random():
    n = np.array([10, 10])
    assert stats.random_order_test(np.array([[11], [1]]), n, np.array([0, 10])) is None
    alone = stats.random_order_test(np.array([[4]]), np.array([10]), np.array([2]))
    assert stats.random_order_test(np.array([[11], [4], [1]]), np.full(3, 10), np.array([0, 2, 10])) == alone


def test_a_repeated_trial_is_no_further_evidence():
    rng = np.random.default_rng(0)
    n, c = np.full(40, 30), rng.integers(1, 10, 40)
    once = np.minimum(random_ranks(30, c, 1, rng), 6)
    five = np.repeat(once, 5, axis=1)
    assert stats.independent_trials(five, n, c) == 1
    assert stats.random_order_test(five, n, c) == stats.random_order_test(once, n, c) < 0.05


def test_independent_trials_are_further_evidence():
    rng = np.random.default_rng(1)
    n, c = np.full(60, 64), rng.integers(1, 10, 60)
    assert stats.independent_trials(random_ranks(64, c, 5, rng), n, c) >= 4
    better = calibration.law(64, "w = 2").ranks(c, 5, rng)
    assert stats.random_order_test(better, n, c) < 1e-8 < stats.random_order_test(better[:, :1], n, c)


@pytest.mark.parametrize("trials", [1, 5])
def test_a_random_order_is_told_from_random_about_as_often_as_the_test_says(trials):
    rng = np.random.default_rng(trials)
    n, c = np.full(30, 12), np.arange(30) % 12
    p = np.array([stats.random_order_test(random_ranks(12, c, trials, rng), n, c) for _ in range(600)])
    assert 0.01 <= (p <= 0.05).mean() <= 0.08
    assert 0.3 <= (p <= 0.5).mean() <= 0.6


def test_a_perfect_selector_is_told_from_random_at_the_floor():
    assert stats.random_order_test(np.ones((100, 1), int), np.full(100, 64), np.full(100, 4)) == stats.P_FLOOR


def test_the_test_against_random_is_fast_on_large_pools():
    import time

    rng = np.random.default_rng(0)
    c = rng.binomial(6_400, rng.beta(0.8, 2, 400)) + 1
    start = time.process_time()
    stats.random_order_test(rng.integers(1, 20, (400, 5)), np.full(400, 6_400), c)
    assert time.process_time() - start < 5


# One subset method against random


@given(st.lists(st.tuples(st.integers(2, 6), st.integers(1, 5)), min_size=1, max_size=4), st.integers(1, 3), st.data())
def test_the_test_of_subsets_is_the_share_of_all_choices_of_subsets(pools, k, data):
    every = [[any(i < min(c, n) for i in one) for one in itertools.combinations(range(n), min(k, n))] for n, c in pools]
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


@pytest.mark.parametrize("trials", [1, 5])
def test_random_subsets_are_told_from_random_about_as_often_as_the_test_says(trials):
    rng = np.random.default_rng(trials)
    chances = rng.beta(1.2, 2, 100)
    p = [stats.random_subset_test(rng.random((100, trials)) < chances[:, None], chances) for _ in range(1_000)]
    assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.064


def test_the_interval_of_a_gain_covers_it_at_400_problems():
    rng, k = np.random.default_rng(3), 4
    for shape in ("mixed", "hard", "like tiny24"):
        c = rng.choice(65, p=calibration.law_of_c(64, shape), size=(400, 500))
        found, fair = (calibration.law(64, name).found[:, k - 1] for name in ("w = 2", "random"))
        hits = (rng.random((400, 500, 5)) < (found * (np.arange(65) > 0))[c][..., None]).mean(axis=2)
        truth = float(calibration.law_of_c(64, shape) @ ((found - fair) * (np.arange(65) > 0)))
        covered = calibration.covers(stats.difference_intervals(hits - (fair * (np.arange(65) > 0))[c], seed=1), truth)
        assert 0.92 <= covered.mean() <= 0.98


# Intervals


def test_the_laws_that_calibration_draws_from_meet_enumeration():
    law = calibration.law(6, "w = 2")
    for c in range(1, 6):
        chances = np.zeros(6)
        for places in itertools.combinations(range(6), c):  # drawn one by one, correct ones with twice the chance
            chance, correct, wrong = 1.0, c, 6 - c
            for place in range(6):
                hit = place in places
                chance *= (2 * correct if hit else wrong) / (2 * correct + wrong)
                correct, wrong = correct - hit, wrong - (not hit)
            chances[min(places)] += chance
        assert np.diff(law.found[c], prepend=0) == pytest.approx(chances, abs=1e-12)
        assert law.mean(6)[c] == pytest.approx(chances @ np.arange(1, 7), rel=1e-12)
        assert law.mean(2)[c] == pytest.approx(chances @ np.minimum(np.arange(1, 7), 3), rel=1e-12)
    assert law.mean(6)[0] == 7
    drawn = law.ranks(np.full(20_000, 3), 1, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(law.mean(6)[3], abs=0.03)
    assert (law.ranks(np.zeros(5, int), 2, np.random.default_rng(0)) == 7).all()


@pytest.mark.parametrize("shape", ["easy", "hard", "like GPT-4", "like CodeGen"])
def test_at_400_problems_of_bounded_skew_the_interval_covers_93_to_97_per_cent(shape):
    covered = []
    for place, selector in enumerate(calibration.SELECTORS):
        drawn = calibration.sample(64, shape, selector, 500, [7, place])
        truth = calibration.true_ratio(64, shape, selector, 64)
        assert (calibration.trusted(drawn) == "nominal").mean() > 0.9
        covered.append(calibration.covers(stats.ratio_intervals(*drawn.figures(64), seed=0), truth).mean())
    assert 0.93 <= np.mean(covered) <= 0.97


def test_the_interval_of_a_mean_difference_covers_it():
    rng = np.random.default_rng(0)
    intervals = stats.difference_intervals(rng.exponential(size=(100, 600)) - 1, seed=0)
    assert 0.92 <= calibration.covers(intervals, 0.0).mean() <= 0.98


def test_shifting_the_differences_shifts_their_interval():
    d = np.random.default_rng(0).exponential(size=50)
    assert stats.difference_interval(d + 10, 3) == pytest.approx(np.add(stats.difference_interval(d, 3), 10), rel=1e-5)


def test_swapping_the_two_means_inverts_the_interval():
    rng = np.random.default_rng(0)
    a, b = rng.exponential(size=(2, 50)) + 1
    low, high = stats.ratio_interval(a, b, 3)
    assert stats.ratio_interval(b, a, 3) == pytest.approx([1 / high, 1 / low], rel=1e-5)


def test_intervals_are_seeded_and_do_not_depend_on_the_columns_beside_them():
    rng = np.random.default_rng(0)
    a, b = rng.exponential(size=(2, 40, 3)) + 1
    together = stats.ratio_intervals(a, b, 3)
    assert together == [stats.ratio_interval(a[:, i], b[:, i], 3) for i in range(3)]
    assert together != stats.ratio_intervals(a, b, 4)


def test_an_interval_is_no_narrower_than_students():
    a = np.array([3.0, 4.0] * 20)  # of so short a tail that the bootstrap's is narrower
    least = 2.02269 * (0.5 / 3.5) / np.sqrt(39)  # the 97.5 % point of t at 39, and the error of the log of the mean
    widths = [np.log(high / low) / 2 for low, high in (stats.ratio_interval(a, np.ones(40), s) for s in range(20))]
    assert min(widths) == pytest.approx(least, rel=1e-4)


@given(st.integers(2, 6), st.integers(0, 10_000))
def test_an_interval_of_few_problems_is_finite_or_none_and_holds_the_estimate(problems, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.choice([1.0, 2.0, 1_001.0], size=(2, problems))
    ends = stats.ratio_interval(a, b, seed)
    if ends is not None:
        assert 0 < ends[0] <= 1.00001 * a.mean() / b.mean()
        assert a.mean() / b.mean() <= 1.00001 * ends[1] < 1e12


def test_nothing_is_said_of_one_problem():
    assert stats.ratio_interval(np.array([2.0]), np.array([1.0]), 0) is None
    assert stats.difference_interval(np.array([2.0]), 0) is None


def test_many_problems_are_resampled_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = rng.exponential(size=(2, 300)) + 1
    whole = stats.ratio_interval(a, b, 3)
    monkeypatch.setattr(stats, "BLOCK", 10_000)
    assert stats.ratio_interval(a, b, 3) == pytest.approx(whole, rel=1e-5)


# What an interval is worth


def test_trust_says_what_the_pool_allows():
    assert stats.trust(np.full(99, 64), np.full(99, 32)) == "few problems"
    assert stats.trust(np.full(100, 64), np.full(100, 32)) == "nominal"
    c = np.full(400, 32)
    c[0] = 0  # 65 calls of 851
    assert stats.trust(np.full(400, 64), c) == "rough"
    assert stats.trust(np.array([], int), np.array([], int)) == "few problems"


# Two selectors


def test_a_paired_comparison_says_which_problems_flipped_and_by_how_much():
    ours = np.array([[1, 1], [9, 9], [4, 4], [2, 4]])
    theirs = np.array([[3, 3], [2, 2], [4, 4], [8, 8]])
    paired = stats.paired_difference(ours, theirs, seed=0)
    assert paired.difference == pytest.approx((-2 + 7 + 0 - 5) / 4)
    assert paired.ratio == pytest.approx(17 / 17)
    assert (paired.fewer, paired.more) == ([3, 0], [1])
    assert paired.difference_ci[0] < 0 < paired.difference_ci[1]
    assert paired.p == 1.0


def test_the_sign_flip_test_is_exact_on_few_problems():
    differences = np.array([1.0, 2.0, 4.0, 8.0, 0.0])
    assert stats.sign_flip_test(differences, seed=0) == 2 / 16
    assert stats.sign_flip_test(-differences, seed=5) == 2 / 16
    among_equals = np.concatenate([np.ones(12), np.zeros(200)])
    assert stats.sign_flip_test(among_equals, seed=0) == pytest.approx(2 / 2**12, rel=1e-5)


def test_selectors_that_never_differ_are_not_told_apart():
    ranks = np.array([[1, 5], [2, 2]])
    paired = stats.paired_difference(ranks, ranks, seed=0)
    assert (paired.p, paired.difference, paired.difference_ci, paired.ratio_ci) == (1.0, 0.0, [0.0, 0.0], [1.0, 1.0])
    assert (paired.fewer, paired.more) == ([], [])


def test_selectors_of_different_problems_are_not_compared():
    with pytest.raises(HarnessError, match="paired difference: 3 and 2 problems"):
        stats.paired_difference(np.ones((3, 1)), np.ones((2, 1)), seed=0)


def test_the_selectors_trials_may_differ_in_number():
    paired = stats.paired_difference(np.array([[2], [2]]), np.array([[1, 3], [4, 6]]), seed=0)
    assert paired.difference == pytest.approx(-1.5)


@pytest.mark.parametrize("shape", ["hard", "like tiny24", "like GPT-4"])
def test_two_equal_selectors_are_told_apart_in_at_most_64_of_1000_repetitions(shape):
    rng = np.random.default_rng(0)
    c = rng.choice(65, p=calibration.law_of_c(64, shape), size=(60, 1_000))
    a, b = (calibration.law(64, "w = 2").ranks(c, 5, rng).mean(axis=2) for _ in range(2))
    apart = [stats.sign_flip_test((a - b)[:, i], seed=i, flips=499) <= 0.05 for i in range(1_000)]
    assert 20 <= sum(apart) <= 64


def test_unequal_selectors_are_told_apart():
    rng = np.random.default_rng(0)
    c = rng.choice(65, p=calibration.law_of_c(64, "mixed"), size=100)
    a, b = (calibration.law(64, name).ranks(c, 5, rng) for name in ("w = 2", "w = 1/2"))
    paired = stats.paired_difference(a, b, seed=0)
    assert paired.p < 0.001
    assert paired.difference_ci[1] < 0 < paired.difference_ci[1] - paired.difference_ci[0]
    assert paired.ratio_ci[0] > 1


def test_comparisons_are_seeded():
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 20, (2, 50, 3))
    assert stats.paired_difference(a, b, seed=4) == stats.paired_difference(a, b, seed=4)
    assert stats.paired_difference(a, b, seed=4).p != stats.paired_difference(a, b, seed=5).p


# Many rows


def test_false_discovery_rates_are_benjamini_and_hochbergs_and_keep_their_places():
    assert stats.false_discovery_rates([0.04, None, 0.01, 0.03]) == [0.04, None, 0.03, 0.04]
    assert stats.false_discovery_rates([None]) == [None]
    assert stats.false_discovery_rates([]) == []


# What is loaded


def test_the_command_line_and_select_do_without_the_statistics():
    modules = "harness.cli, harness.running.selection"
    code = f"import sys, json, {modules}; print(json.dumps([n for n in sys.modules if 'scipy' in n]))"
    assert not {"scipy.stats", "scipy.signal"} & set(json.loads(printed_by(code)))
