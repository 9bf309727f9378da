"""pass@k at every budget, and how many times fewer calls one method needs than another: brute force, its interval."""

import numpy as np
import pytest

from harness.scoring import curves, stats
from harness.scoring.curves import NEVER, TOO_NEAR, UNSOLVED, curve, factors, largest, random_curve, selected_curve
from harness.scoring.metrics import Outcomes, random_pass_at_k

PROBLEMS, N = 60, 60
KS = range(1, N + 1)


def straight(slope):
    """pass@k = slope k / N on each of the problems, at most 0.95."""
    return curve(KS, np.tile(np.minimum(slope * np.array(KS) / N, 0.95), (PROBLEMS, 1)), seed=1)


def test_a_curve_three_times_as_steep_needs_three_times_fewer_calls_and_the_other_a_third():
    steep, flat = straight(3), straight(1)
    for factor in factors(steep, flat, (6, 7, 30)):
        assert (factor.calls, factor.times) == (pytest.approx(factor.k / 3), pytest.approx(3))  # between budgets too
        assert factor.times_ci == pytest.approx([3, 3])  # no problem differs from another
        assert (factor.pass_at_k, factor.no_interval) == (pytest.approx(factor.k / N), None)
    assert [factor.times for factor in factors(flat, steep, (1, 10))] == pytest.approx([1 / 3, 1 / 3])
    # A flat part (here 0.95 from k = 19 on) counts from its first budget: equal methods have 1 everywhere.
    assert [factor.times for factor in factors(steep, steep, (2, 19, 40, 60))] == pytest.approx([1] * 4)
    (factor,) = factors(straight(6), steep, [50])
    assert (factor.k, factor.calls_behind, factor.calls, factor.times) == (50, 19, 10, 1.9)
    saturating = curve(KS, np.tile(1 - 0.5 ** np.arange(1, N + 1), (PROBLEMS, 1)), 1)
    [factor] = factors(straight(6), saturating, [60])
    assert factor.calls_behind == 16  # the last thousandth of a problem is left: 60 / 2**16


def test_what_is_never_reached_or_solves_nothing_has_no_factor_and_says_so():
    for ahead, behind, reason in ((0.5, 1, NEVER), (1, 0, UNSOLVED)):
        (factor,) = factors(straight(ahead), straight(behind), [40])
        assert (factor.calls, factor.times, factor.times_ci, factor.no_interval) == (None, None, None, reason)


def brute_force(ks, passed, height):
    """Where the line through the running maximum first reaches the height; None if it never does."""
    passed = list(np.maximum.accumulate(passed))
    for place, value in enumerate(passed):
        if value >= height - 1e-9:
            if place == 0:
                return float(ks[0])
            before = passed[place - 1]
            return float(ks[place - 1] + (height - before) / (value - before) * (ks[place] - ks[place - 1]))
    return None


def test_calls_are_those_of_a_search_on_the_line_between_budgets():
    rng = np.random.default_rng(0)
    dense, sparse = np.arange(1, 33), np.array([1, 2, 4, 8, 16, 32])  # a ranker's budgets and a subset method's
    for _ in range(4):
        a, b = rng.random((2, PROBLEMS, 32)).cumsum(axis=2) / 33
        b = np.clip(b[:, sparse - 1] + rng.normal(0, 0.1, 6), 0.01, 1)  # it may fall
        for ahead, behind in (((dense, a), (sparse, b)), ((sparse, b), (dense, a))):
            heights = np.maximum.accumulate(behind[1].mean(axis=0))
            for factor in factors(*(curve(*side, seed=1) for side in (ahead, behind)), sparse):
                height = heights[list(behind[0]).index(factor.k)]
                calls = brute_force(ahead[0], ahead[1].mean(axis=0), height)
                theirs = int(behind[0][np.flatnonzero(heights >= height - 1e-9)[0]])
                assert (factor.calls, factor.calls_behind) == (pytest.approx(calls, abs=1e-6), theirs)
                assert factor.times == (calls and pytest.approx(theirs / calls, rel=1e-6))


@pytest.fixture
def methods():
    """Shares (problems, N) of two methods whose problems are equally hard: the first needs about half of the calls."""
    rng = np.random.default_rng(2)
    hard = rng.uniform(1, N, PROBLEMS)
    first = [np.ceil(np.maximum(hard * scale + rng.normal(0, 3, PROBLEMS), 1)) for scale in (0.5, 1)]
    return [(each[:, None] <= np.array(KS)).astype(float) for each in first]


def test_the_interval_is_the_percentiles_over_resamples_of_the_same_problems(methods):
    a, b = methods
    (factor,) = factors(curve(KS, a, 5), curve(KS, b, 5), [20])
    times = []
    for weights in np.concatenate(list(stats.resamples(PROBLEMS, 5))):
        height = (weights @ b)[19]
        calls = brute_force(KS, weights @ a, height)
        times.append((1 + np.flatnonzero(weights @ b >= height - 1e-9)[0]) / calls if calls else 0.0)
    ordered = np.sort(times)
    assert factor.times_ci == pytest.approx([ordered[49], ordered[1949]], rel=1e-5)
    assert factor.times_ci[0] < factor.times < factor.times_ci[1]
    unpaired = factors(curve(KS, a, 5), curve(KS, b, 6), [20])[0].times_ci
    assert np.log(unpaired[1] / unpaired[0]) > 1.2 * np.log(factor.times_ci[1] / factor.times_ci[0])


def test_there_is_no_interval_where_under_five_problems_are_below_or_above_the_height(methods):
    a, b = methods
    both = [curve(KS, each, 1) for each in methods]
    given = factors(*both, KS)
    for factor in given:
        solved = b[:, factor.k - 1].sum()
        near = min(solved, a[:, -1].sum() - solved) < 5 - 1e-9
        assert (factor.times_ci is None) == near, factor.k
        assert factor.no_interval == (TOO_NEAR if near else None) or factor.times is None
    best = largest(*both)
    assert best.times == max(factor.times for factor in given if factor.times_ci)
    assert (best.times_ci, best.no_interval) == (None, curves.CHOSEN)
    assert largest(both[0], straight(0)) is None


def test_curves_of_outcomes_average_trials_and_seeds_up_to_the_smallest_pool():
    n, c = np.array([8, 8, 6, 8]), np.array([2, 0, 3, 1])  # two problems, each with two pools
    outcomes = Outcomes(n, c, 0 * n, ranks=np.array([[1, 3], [9, 9], [2, 4], [8, 6]]), pools=2)
    selected, random = selected_curve(outcomes, 1), random_curve(outcomes, 1)
    assert list(selected.ks) == list(random.ks) == [1, 2, 3, 4, 5, 6]
    assert selected.passed[0].tolist() == [1 / 8, 2 / 8, 3 / 8, 4 / 8, 4 / 8, 5 / 8]
    assert random.passed[0] == pytest.approx([random_pass_at_k(n, c, k).mean() for k in range(1, 7)])
    assert curves.oracle_shares(outcomes, [1, 2]).tolist() == [[1, 1], [0, 0], [1, 1], [1, 1]]
    hits = {4: np.array([[1, 1]]), 2: np.array([[1, 0]] * 4), 1: np.array([[0, 0]] * 4)}  # one pool alone has 4
    ks, shares = curves.selected_shares(Outcomes(n, c, 0 * n, hits=hits), [1])
    assert (ks, shares.tolist()) == ([1, 2], [[0, 0.5]] * 4)
