"""Every estimator meets enumeration."""

from __future__ import annotations

import itertools
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metrics import (
    Outcomes,
    budgets,
    random_misses,
    random_pass_at_k,
    random_samples_to_correct,
    ratio_interval,
    reference_ranks,
    summary,
    win_tie_loss,
)


def first_correct_ranks(n: int, c: int) -> list[int]:
    """The rank of the first correct response in each placing of c correct ones among n; n + 1 where there is none."""
    return [min(places, default=n) + 1 for places in itertools.combinations(range(n), c)]


pools = st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@given(pools)
def test_random_samples_to_correct_is_the_mean_over_all_orders(pool):
    n, c = pool
    assert random_samples_to_correct(n, c) == pytest.approx(np.mean(first_correct_ranks(n, c)), rel=1e-12)


@given(pools, st.data())
def test_random_pass_at_k_is_the_share_of_all_orders(pool, data):
    n, c = pool
    k = data.draw(st.integers(1, n))
    share = np.mean([rank <= min(k, n) for rank in first_correct_ranks(n, c)])
    assert random_pass_at_k(np.array([n]), np.array([c]), k)[0] == pytest.approx(share, abs=1e-12)


@given(pools)
def test_the_reference_ranks_are_the_best_and_the_worst_of_all_orders(pool):
    n, c = pool
    ranks = first_correct_ranks(n, c)
    assert reference_ranks(n, c) == {"oracle": min(ranks), "anti_oracle": max(ranks)}


def test_a_row_has_the_reference_lines():
    row = summary(outcomes([[2, 2], [5, 5]], [4, 4], [2, 0]))
    assert (row["samples_to_correct_oracle"], row["samples_to_correct_anti_oracle"]) == (3.0, 4.0)
    assert row["pass_at_k_oracle"] == {"1": 0.5, "2": 0.5, "4": 0.5}
    assert row["pass_at_k_anti_oracle"] == {"1": 0.0, "2": 0.0, "4": 0.5}


@given(pools, st.data())
def test_win_tie_and_loss_are_shares_of_all_orders(pool, data):
    n, c = pool
    rank = data.draw(st.integers(1, n - c + 1)) if c else n + 1
    theirs = np.array(first_correct_ranks(n, c))
    win, tie, loss = (float(p[0, 0]) for p in win_tie_loss(np.array([[rank]]), np.array([n]), np.array([c])))
    assert win == pytest.approx((rank < theirs).mean(), abs=1e-12)
    assert tie == pytest.approx((rank == theirs).mean(), abs=1e-12)
    assert loss == pytest.approx((rank > theirs).mean(), abs=1e-12)


@pytest.mark.parametrize(("n", "c"), [(6, 1), (7, 3), (5, 5)])
def test_a_random_order_wins_as_often_as_it_loses(n, c):
    ranks = np.array([first_correct_ranks(n, c)])
    win, _, loss = win_tie_loss(ranks, np.array([n]), np.array([c]))
    assert win.mean() == pytest.approx(loss.mean(), abs=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(6400, 3, 100), (8192, 1, 4096), (6400, 6400, 1), (6400, 0, 6400)])
def test_large_pools_agree_with_exact_integers(n, c, k):
    assert float(random_misses(n, c, k)) == pytest.approx(comb(n - c, k) / comb(n, k), rel=1e-9)


@given(st.integers(1, 10_000))
def test_budgets_are_the_powers_of_two_and_n(n):
    assert budgets(n)[0] == 1
    assert budgets(n)[-1] == n
    assert set(budgets(n)) - {n} == {2**i for i in range(14) if 2**i < n}


def outcomes(ranks, n, c) -> Outcomes:
    n, c = np.array(n), np.array(c)
    return Outcomes(n, c, np.zeros_like(n), ranks=np.array(ranks))


def test_an_unsolvable_problem_counts_n_plus_one_in_both_means_and_never_as_passed():
    row = summary(outcomes([[1, 3], [11, 11]], n=[10, 10], c=[2, 0]))
    assert row["samples_to_correct"] == pytest.approx((2 + 11) / 2)
    assert row["samples_to_correct_random"] == pytest.approx((11 / 3 + 11) / 2)
    assert row["samples_to_correct_solvable"] == pytest.approx(2)
    assert row["improvement"] == pytest.approx((11 / 3 + 11) / 13)
    assert row["improvement_solvable"] == pytest.approx(11 / 6)
    assert row["pass_at_k"] == {"1": 0.25, "2": 0.25, "4": 0.5, "8": 0.5, "10": 0.5}
    assert row["solvable"] == 1
    assert row["tie"] >= 0.5


def test_what_is_degenerate_is_null_and_never_nan():
    row = summary(outcomes([[5]], n=[4], c=[0]))
    assert row["improvement"] == 1.0
    assert row["improvement_ci"] is None
    assert row["improvement_solvable"] is None
    assert row["samples_to_correct_solvable"] is None
    numbers = [value for value in row.values() if isinstance(value, float)]
    assert not np.isnan(numbers).any()


def test_the_interval_is_seeded_and_of_no_width_where_nothing_varies():
    ours, random = np.array([1.0, 2.0, 8.0, 3.0]), np.array([2.0, 2.0, 9.0, 9.0])
    assert ratio_interval(random, ours, 3) == ratio_interval(random, ours, 3)
    low, high = ratio_interval(random, ours, 3)
    assert low < random.mean() / ours.mean() < high
    assert ratio_interval(np.full(5, 6.0), np.full(5, 3.0), 0) == [2.0, 2.0]


def test_the_interval_covers_the_true_ratio_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        random = rng.gamma(4, 1, 100)
        ours = random * rng.gamma(10, 0.05, 100)
        low, high = ratio_interval(random, ours, trial)
        covered += low <= 2.0 <= high
    assert 0.88 <= covered / 200 <= 0.99
