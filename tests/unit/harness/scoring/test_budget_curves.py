"""Curves over budgets and their bands, against resampling by hand and the normal approximation."""

from __future__ import annotations

import numpy as np
import pytest

from harness.scoring import budget_curves
from harness.scoring.metrics import Outcomes


def test_a_band_is_what_resampling_the_problems_gives():
    shares = np.random.default_rng(0).random(23) ** 3
    rng = np.random.default_rng(7)
    means = sorted(rng.choice(shares, len(shares)).mean() for _ in range(4000))
    low, high = (ends[0] for ends in budget_curves.band(shares[:, None], seed=1))
    width = means[3900] - means[100]
    assert high - low == pytest.approx(width, rel=0.15)
    assert low == pytest.approx(means[100], abs=0.15 * width)


def test_a_band_is_as_wide_as_the_mean_of_many_problems_is_uncertain_and_seeded():
    shares = np.random.default_rng(0).random((400, 3)) ** [0.5, 1, 3]
    low, high = budget_curves.band(shares, seed=1)
    half = 1.96 * shares.std(axis=0) / 20
    assert low == pytest.approx(shares.mean(axis=0) - half, abs=0.004)
    assert high == pytest.approx(shares.mean(axis=0) + half, abs=0.004)
    assert np.array_equal(budget_curves.band(shares, seed=1), (low, high))


def test_the_band_of_a_selector_averages_trials_before_it_resamples():
    trials = np.array([[1, 9], [9, 1], [1, 9], [9, 1]])
    outcomes = Outcomes(*(np.full(4, value) for value in (9, 1, 0)), ranks=trials)
    ks, shares = budget_curves.selected_shares(outcomes, [1, 9])
    assert (ks, shares.tolist()) == ([1, 9], [[0.5, 1.0]] * 4)
    assert [ends.tolist() for ends in budget_curves.band(shares, 3)] == [[0.5, 1.0]] * 2


def test_a_curve_of_a_large_pool_has_about_forty_budgets_those_of_the_tables_among_them():
    ks = budget_curves.budgets(1000)
    assert {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000} <= set(ks)
    assert ks == sorted(set(ks))
    assert 38 < len(ks) < 55
