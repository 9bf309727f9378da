"""Intervals over problems, and two selectors compared: known truth is covered, equal selectors are not told apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.calibration import calibration
from support.refusals import refusal_of

from harness.scoring import stats


def test_the_intervals_of_a_ratio_and_of_a_difference_cover_them():
    rng = np.random.default_rng(0)
    a, b = rng.exponential(size=(2, 100, 600))
    for intervals, truth in ((stats.difference_intervals(a - 1, 0), 0.0), (stats.ratio_intervals(2 * a, b, 0), 2.0)):
        assert 0.92 <= calibration.covers(intervals, truth).mean() <= 0.98


def test_shifting_the_differences_shifts_their_interval_and_swapping_the_means_inverts_it():
    rng = np.random.default_rng(0)
    d = rng.exponential(size=50)
    assert stats.difference_interval(d + 10, 3) == pytest.approx(np.add(stats.difference_interval(d, 3), 10), rel=1e-5)
    a, b = rng.exponential(size=(2, 50)) + 1
    low, high = stats.ratio_interval(a, b, 3)
    assert stats.ratio_interval(b, a, 3) == pytest.approx([1 / high, 1 / low], rel=1e-5)


def test_an_interval_is_the_one_of_today():
    a, b = np.random.default_rng(0).exponential(size=(2, 30)) + 0.2
    assert stats.ratio_interval(a, b, 0) == pytest.approx([0.748738, 1.89592], rel=1e-4)
    assert stats.difference_interval(a - b, 0) == pytest.approx([-0.354014, 0.798933], rel=1e-4)


def test_intervals_are_seeded_and_do_not_depend_on_the_columns_beside_them(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = rng.exponential(size=(2, 40, 3)) + 1
    together = stats.ratio_intervals(a, b, 3)
    assert together == [stats.ratio_interval(a[:, i], b[:, i], 3) for i in range(3)]
    assert together != stats.ratio_intervals(a, b, 4)
    monkeypatch.setattr(stats, "BLOCK", 1_500)  # many problems are resampled in parts
    assert stats.ratio_intervals(a, b, 3) == [pytest.approx(ends, rel=1e-5) for ends in together]


def test_an_interval_is_no_narrower_than_students():
    a = np.array([3.0, 4.0] * 20)  # of so short a tail that the bootstrap's is narrower
    least = 2.02269 * (0.5 / 3.5) / np.sqrt(39)  # the 97.5 % point of t at 39, and the error of the log of the mean
    widths = [np.log(high / low) / 2 for low, high in (stats.ratio_interval(a, np.ones(40), s) for s in range(20))]
    assert min(widths) == pytest.approx(least, rel=1e-4)


@settings(max_examples=25)
@given(st.integers(2, 6), st.integers(0, 10_000))
def test_an_interval_of_few_problems_is_finite_or_none_and_holds_the_estimate(problems, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.choice([1.0, 2.0, 1_001.0], size=(2, problems))
    ends = stats.ratio_interval(a, b, seed)
    if ends is not None:
        assert 0 < ends[0] <= 1.00001 * a.mean() / b.mean()
        assert a.mean() / b.mean() <= 1.00001 * ends[1] < 1e12


def test_an_interval_that_says_nothing_is_none():
    wide = stats.ratio_intervals(np.array([[32.5], [32.5], [32.5]]), np.array([[64.0], [1.0], [2.0]]), 0)
    assert wide == [None]
    rng = np.random.default_rng(0)
    [ends] = stats.ratio_intervals(rng.integers(1, 65, (30, 1)), rng.integers(1, 65, (30, 1)), 0)
    assert 1 < ends[1] / ends[0] < stats.WIDEST**2
    differences = np.array([[1.0], [-0.9], [0.1]])
    [ends] = stats.difference_intervals(differences, 0)
    assert ends[1] > 1
    assert stats.difference_intervals(differences, 0, widest=1.0) == [None]
    for ends in (stats.ratio_interval(np.array([2.0]), np.array([1.0]), 0), stats.difference_interval(np.ones(1), 0)):
        assert ends is None
    assert [stats.why_none(problems, "wide") for problems in (1, 2)] == [stats.ONE_PROBLEM, "wide"]


def test_trust_says_what_the_pool_allows():
    assert stats.trust(np.full(99, 64), np.full(99, 32)) == "few problems"
    assert stats.trust(np.full(100, 64), np.full(100, 32)) == "nominal"
    c = np.full(400, 32)
    c[0] = 0  # 65 calls of 851
    assert stats.trust(np.full(400, 64), c) == "rough"
    seeds = np.stack([c, np.full(400, 63), np.full(400, 63), np.full(400, 63)], axis=1)  # 17.0 of 505 calls
    assert stats.trust(np.full((400, 4), 64), seeds) == "rough"
    assert stats.trust(np.full((400, 4), 64), np.full((400, 4), 32)) == "nominal"
    assert stats.trust(np.array([], int), np.array([], int)) == "few problems"


def test_a_paired_comparison_says_which_problems_flipped_and_by_how_much():
    ours = np.array([[1, 1], [9, 9], [4, 4], [2, 4]])
    theirs = np.array([[3, 3], [2, 2], [4, 4], [8, 8]])
    paired = stats.paired_difference(ours, theirs, seed=0)
    assert paired.difference == pytest.approx((-2 + 7 + 0 - 5) / 4)
    assert paired.ratio == pytest.approx(17 / 17)
    assert (paired.fewer, paired.more) == ([3, 0], [1])
    assert paired.difference_ci[0] < 0 < paired.difference_ci[1]
    assert paired.p == 1.0
    assert stats.paired_difference(ours, theirs, seed=0, widest=1.0).difference_ci is None
    same = stats.paired_difference(ours, ours, seed=0)
    assert (same.p, same.difference, same.difference_ci, same.ratio_ci) == (1.0, 0.0, [0.0, 0.0], [1.0, 1.0])
    assert (same.fewer, same.more) == ([], [])
    other_trials = stats.paired_difference(np.array([[2], [2]]), np.array([[1, 3], [4, 6]]), seed=0)
    assert (other_trials.difference, other_trials.ratio) == (-1.5, 1.75)
    assert refusal_of(stats.paired_difference, ours, theirs[:3], 0) == (
        "paired difference: 4 and 3 problems; compare the same ones"
    )


def test_a_ratio_of_nothing_is_none():
    zero, half = np.zeros((3, 1)), np.array([[0.0], [0.5], [1.0]])
    nothing = stats.paired_difference(zero, half, seed=0)
    assert (nothing.ratio, nothing.ratio_ci) == (None, None)
    some = stats.paired_difference(half, half + 1, seed=0)
    assert (some.ratio, some.ratio_ci) == (3.0, None)  # a mean of one problem is 0


def test_the_sign_flip_test_is_exact_on_few_problems():
    differences = np.array([1.0, 2.0, 4.0, 8.0, 0.0])
    assert stats.sign_flip_test(differences, seed=0) == 2 / 16
    assert stats.sign_flip_test(-differences, seed=5) == 2 / 16
    among_equals = np.concatenate([np.ones(12), np.zeros(200)])
    assert stats.sign_flip_test(among_equals, seed=0) == pytest.approx(2 / 2**12, rel=1e-5)
    assert [stats.sign_flip_test(np.array(few), 0) for few in ([], [5.0], [5.0, 0.0], [5.0, 5.0])] == [1, 1, 1, 0.5]


def test_unequal_selectors_are_told_apart_by_a_seed():
    rng = np.random.default_rng(0)
    c = rng.choice(65, p=calibration.law_of_c(64, "mixed"), size=100)
    a, b = (calibration.law(64, name).ranks(c, 5, rng) for name in ("w = 2", "w = 1/2"))
    paired = stats.paired_difference(a, b, seed=0)
    assert paired.p < 0.001
    assert paired.difference_ci[1] < 0 < paired.difference_ci[1] - paired.difference_ci[0]
    assert paired.ratio_ci[0] > 1
    a, b = rng.integers(1, 20, (2, 50, 3))
    assert stats.paired_difference(a, b, seed=4) == stats.paired_difference(a, b, seed=4)
    assert stats.paired_difference(a, b, seed=4).p != stats.paired_difference(a, b, seed=5).p
