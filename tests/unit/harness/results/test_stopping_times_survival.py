"""Stopping times: Kaplan and Meier's estimate and the restricted mean."""

import numpy as np
import pytest

from harness.results.stopping_times import kaplan_meier

# Six sequences, two of them censored: at call 2 (by a smaller budget) and at call 5.
TIMES, SOLVED = [1, 2, 2, 3, 5, 5], [True, True, False, True, True, False]


def test_a_small_case_by_hand_and_nothing_is_said_beyond_what_was_followed():
    curve = kaplan_meier(np.array(TIMES), SOLVED, range(6))
    # at risk 6, 5, 3, 2, 2; solved there 1, 1, 1, 0, 1
    np.testing.assert_allclose(curve.left, [1, 5 / 6, 2 / 3, 4 / 9, 4 / 9, 2 / 9])
    assert curve.solved(3)[0] == pytest.approx(5 / 9)
    assert curve.restricted_mean(2)[0] == pytest.approx(1 + 5 / 6 + 2 / 3)
    assert curve.solved(5) is not None
    assert curve.solved(6) is curve.restricted_mean(6) is None
    curve = kaplan_meier(np.array([1, 3]), [True, True], "ab")  # once all are solved, they stay so
    assert curve.solved(100) == (1.0, 0.0)
    assert curve.restricted_mean(100)[0] == pytest.approx(2.0)


def test_the_error_is_greenwoods_where_every_sequence_is_a_cluster_of_its_own():
    rng = np.random.default_rng(0)
    stops, budgets = rng.geometric(0.1, 80), rng.integers(3, 30, 80)
    times, solved = np.minimum(stops, budgets), stops <= budgets
    curve = kaplan_meier(times, solved, range(80))
    left, variance = 1.0, 0.0
    for k in range(1, 12):
        risk, deaths = (times >= k).sum(), ((times == k) & solved).sum()
        left *= 1 - deaths / risk
        variance += deaths / (risk * (risk - deaths))
        share, error = curve.solved(k)
        assert share == pytest.approx(1 - left)
        assert error == pytest.approx(left * np.sqrt(variance), rel=1e-9)


def test_seeds_of_one_problem_are_one_cluster():
    rng = np.random.default_rng(3)
    stops = rng.geometric(0.2, 50)
    times, solved = np.minimum(stops, 8), stops <= 8
    once = kaplan_meier(times, solved, range(50))
    copied = kaplan_meier(np.tile(times, 4), np.tile(solved, 4), list(range(50)) * 4)
    assert copied.solved(5) == pytest.approx(once.solved(5))
    assert copied.restricted_mean(5) == pytest.approx(once.restricted_mean(5))
