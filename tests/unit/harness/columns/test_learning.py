"""A selector that learns is told the outcomes of its own picks, each after the pick, in a run too; tables mark it."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.searches import Recorder

from harness import HarnessError, Outcome, Pool, Problem
from harness.columns.orders import learnt_order, pick_after

PLUGIN = '''
from harness import hookimpl


class Told:
    """Say in an error what it was told."""

    needs = ()

    def rank(self, pool, rng):
        return iter(range(len(pool)))

    def pick_after(self, pool, outcomes, rng):
        if any(outcome.index < 0 for outcome in outcomes) or len(outcomes) == {told}:
            raise RuntimeError([(outcome.index, outcome.value) for outcome in outcomes])
        return len(pool) - 1 - len(outcomes)


@hookimpl
def register_selectors(register):
    register("told", Told)
'''


def pool_of(n):
    return Pool(["x"] * n, np.zeros((n, 0), np.float32), np.full(n, np.nan), np.ones(n, np.int64), [None] * n)


def test_each_outcome_is_told_after_its_pick_and_an_error_is_none():
    selector, verdicts = Recorder(), ["wrong", "error", "wrong", "correct"]
    order = learnt_order(selector, pool_of(4), verdicts, 0, Problem("p", ""), 0)
    assert [next(order) for _ in range(3)] == [0, 1, 2]
    assert selector.told == [(), (Outcome(0, 0.0),), (Outcome(0, 0.0), Outcome(1, None))]
    assert list(order) == [3]


def test_the_rng_depends_on_seed_problem_trial_and_the_number_of_outcomes_alone():
    def number(*key, count=2):
        selector = SimpleNamespace(pick_after=lambda pool, outcomes, rng: int(rng.integers(10**6)) + 9)
        outcomes = [Outcome(index, 0.0) for index in range(count)]
        return pick_after(selector, range(10**7), outcomes, key[0], Problem(key[1], ""), key[2])

    base = number(0, "p", 0)
    assert number(0, "p", 0) == base
    others = {number(1, "p", 0), number(0, "q", 0), number(0, "p", 1), number(0, "p", 0, count=3)}
    assert len(others | {base}) == 5


@pytest.mark.parametrize(("pick", "words"), [(1, "picked twice"), (9, "outside"), (None, "must be an integer")])
def test_a_pick_that_is_none_of_the_rest_is_refused(pick, words):
    selector = SimpleNamespace(pick_after=lambda pool, outcomes, rng: pick)
    with pytest.raises(HarnessError, match=words):
        pick_after(selector, pool_of(3), [Outcome(1, 0.0)], 0, Problem("p", ""))


@pytest.mark.parametrize(("told", "message"), [(0, "RuntimeError: [] "), (2, "RuntimeError: [(4, 0.0), (3, 0.0)] ")])
def test_a_run_tells_no_verdict_before_the_pick(harness, tmp_path, told, message):
    correct = [True, False, True, False, False]
    pool = write_json_lines(tmp_path / "p.jsonl", [{"problem_id": "p", "responses": ["x"] * 5, "correct": correct}])
    (tmp_path / "told.py").write_text(PLUGIN.replace("{told}", str(told)))
    outcome = harness(
        "run", "--pool", pool, "--selector", "told", "--plugin", tmp_path / "told.py", "--store", tmp_path
    )
    assert message in outcome.err


def test_a_run_ends_at_the_first_correct_response_and_tables_mark_the_selector(harness, tmp_path):
    correct = [True, False, True, False, False]
    lines = [{"problem_id": f"p{i}", "responses": ["x"] * 5, "correct": correct} for i in range(3)]
    pool = write_json_lines(tmp_path / "p.jsonl", lines)
    (tmp_path / "told.py").write_text(PLUGIN.replace("{told}", "99"))
    options = ("--pool", pool, "--selector", "told", "--selector", "uniform", "--plugin", tmp_path / "told.py")
    outcome = harness("run", *options, "--store", tmp_path / "runs")
    assert "told (learns)" in outcome.out
    assert "(learns): it is told the outcome of each of its picks before the next" in outcome.out
    rows = harness("run", *options, "--store", tmp_path / "runs", "--json").rows
    assert (rows[0]["selector"], rows[0]["learns"], rows[0]["samples_to_correct"]) == ("told", True, 3)
    assert "learns" not in rows[1]
    table = harness("leaderboard", tmp_path / "runs" / "cells", "--out", tmp_path)
    assert "told (learns)" in table.out
    assert r"told \(learns\)" in (tmp_path / "leaderboard.md").read_text()
    assert "Learns from outcomes." in harness("list", "selectors", "--plugin", tmp_path / "told.py").out
