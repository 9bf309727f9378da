"""What a random order would have needed: exact where all verdicts are given, bounds where only some are known."""

from itertools import permutations

import numpy as np
import pytest
from support.searches import config_of, pool_in, verified

from harness.verifying.loop import random_turns, summary

T, F = True, False


def turns_by_enumeration(pools, until, most):
    """Solved and called after each turn, averaged over all orders of all pools, each order played out."""
    longest = min(max(map(len, pools)), most or 99)
    solved, calls = np.zeros(longest + 1), np.zeros(longest + 1)
    for pool in pools:
        orders = list(permutations(pool))
        for order in orders:
            for turn in range(longest + 1):
                hits = np.cumsum(order[:turn])
                done = [t for t, count in enumerate(hits, 1) if count >= until]
                solved[turn] += bool(done) / len(orders)
                calls[turn] += min(done[0] if done else turn, len(pool), turn) / len(orders)
    return solved, calls


@pytest.mark.parametrize(("until", "most"), [(1, None), (2, None), (1, 3)])
def test_randoms_turns_equal_enumeration(until, most):
    pools = [[T, F, F, F, T, F], [F, F, F], [T, T, T, F]]
    expected = turns_by_enumeration(pools, until, most)
    found = random_turns([(len(pool), sum(pool)) for pool in pools], until, most)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_graded_pool_tells_what_random_needs_for_as_many(tmp_path):
    pool_in(tmp_path, {"a": [F, T, F, F], "b": [T, T, F, F], "c": [F] * 3}, graded=True)
    value = summary(verified(config_of(tmp_path)))
    assert value["random"]["calls"] == pytest.approx(5 / 2 + 5 / 3 + 3)
    assert value["calls"] == 6
    few = summary(verified(config_of(tmp_path, budget_per_problem=1, journal=tmp_path / "b.jsonl")))
    assert few["solved"] == 1
    assert few["random"] == {"calls": None, "solved": pytest.approx(0.75)}


def test_verdicts_of_the_file_that_the_verifier_contradicts_are_not_used(tmp_path):
    path = pool_in(tmp_path, {"a": [F, T, F, F]}, graded=True)
    path.write_text(path.read_text().replace("[false, true", "[true, true"))
    assert summary(verified(config_of(tmp_path)))["random"] == {"differ": 1}


def test_unsolved_problems_and_the_commonest_error_are_named(tmp_path):
    pool_in(tmp_path, {"a": [F, F], "b": ["error", F, F, F], "c": [T]})
    value = summary(verified(config_of(tmp_path, budget=6)))
    assert (value["exhausted"], value["unsolved"]) == (["a"], ["b"])
    assert (value["errors"], value["commonest_error"]) == (1, "error of b 0")


@pytest.mark.slow
def test_without_verdicts_the_bounds_hold_whatever_the_unverified_responses_are(tmp_path):
    rng = np.random.default_rng(0)
    for trial in range(20):
        correct = {name: (rng.random(6) < 0.4).tolist() for name in "abc"}
        pool_in(tmp_path, correct)
        until = 1 + trial % 2
        loop = verified(config_of(tmp_path, journal=tmp_path / f"{trial}.jsonl", until=until))
        solved = [row for row in correct.values() if sum(row) >= until]
        value = summary(loop)["random"]
        exact = sum(until * 7 / (sum(row) + 1) for row in solved)
        if solved:
            assert value["at_least"] <= exact + 1e-9
            assert exact <= value["at_most"] + 1e-9
            assert value["calls_on_solved"] == sum(int(np.argmax(np.cumsum(row) >= until)) + 1 for row in solved)
        else:
            assert value is None
