"""pass@k at every budget: shares and bands."""

import numpy as np
import pytest

from harness.scoring import curves
from harness.scoring.metrics import Outcomes

N, C = np.array([4, 4]), np.array([2, 0])


def test_budgets_are_spread_evenly_on_a_log_axis_with_those_of_the_tables():
    assert curves.budgets(1) == [1]
    assert curves.budgets(6) == [1, 2, 3, 4, 5, 6]
    ks = curves.budgets(1000)
    assert ks == sorted(set(ks))
    assert {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000} <= set(ks)
    assert 40 <= len(ks) + 10 <= 60


def test_shares_are_exact_for_random_certain_for_the_oracle_and_those_of_the_trials_for_a_selector():
    outcomes = Outcomes(N, C, 0 * N)
    assert curves.random_shares(outcomes, [1, 2]) == pytest.approx(np.array([[1 / 2, 5 / 6], [0, 0]]))
    assert curves.oracle_shares(outcomes, [1, 2, 4]).tolist() == [[1, 1, 1], [0, 0, 0]]
    ranker = Outcomes(N, C, 0 * N, ranks=np.array([[1, 3], [5, 5]]))
    ks, shares = curves.selected_shares(ranker, [1, 2, 4])
    assert (ks, shares.tolist()) == ([1, 2, 4], [[0.5, 0.5, 1.0], [0, 0, 0]])
    hits = {2: np.array([[1, 0], [0, 0]]), 1: np.array([[0, 0], [0, 0]]), 4: np.array([[1, 1]])}
    ks, shares = curves.selected_shares(Outcomes(N, C, 0 * N, hits=hits), [1])
    assert (ks, shares.tolist()) == ([1, 2], [[0, 0.5], [0, 0]])


def test_a_band_is_as_wide_as_the_mean_of_many_problems_is_uncertain_and_seeded():
    shares = np.random.default_rng(0).random((400, 3)) ** [0.5, 1, 3]
    low, high = curves.band(shares, seed=1)
    half = 1.96 * shares.std(axis=0) / 20
    assert low == pytest.approx(shares.mean(axis=0) - half, abs=0.004)
    assert high == pytest.approx(shares.mean(axis=0) + half, abs=0.004)
    assert np.array_equal(curves.band(shares, seed=1), (low, high))
    assert curves.band(shares, seed=2)[0].tolist() != low.tolist()
