"""Ranking: each trial from a stream of its own, up to the first correct response, on the pool as selectors see it."""

import json
import os
import re
from types import SimpleNamespace

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.processes import descendants, harness_command, run_to_end
from support.refusals import refusal_of, wrongly_refused
from support.searches import Recorder
from support.stores import contents, files_of

from harness import Outcome, Pool, Problem
from harness.columns.orders import centred, checked_pool, learnt_order, pick_after, ranking_rng
from harness.columns.store import read
from harness.system.children import end_limited

SELECTORS = """
class InOrder:
    needs = ()
    def rank(self, pool, rng):
        note(os.getpid())
        yield from range(len(pool))

class OfEach:
    needs = ()
    def select(self, pool, k, rng):
        return rng.choice(len(pool), k, replace=False)

class Probable(InOrder):
    needs = ("logprobs",)

class Sees:
    needs = ("embeddings", "logprobs")
    def rank(self, pool, rng):
        note(json.dumps([pool.texts, pool.embeddings.tolist(), pool.answers, pool.lengths.tolist()]))
        note(sorted(vars(pool) if hasattr(pool, "__dict__") else pool.__slots__))
        yield from range(len(pool))

class Told(InOrder):
    def pick_after(self, pool, outcomes, rng):
        note([(outcome.index, outcome.value) for outcome in outcomes])
        return len(pool) - 1 - len(outcomes)
"""
RANKS = {
    "Shuffled": "note(os.getpid()); yield from rng.permutation(len(pool))",
    "Loose": "yield from (2, 99, 'x')",  # nothing after the third response, and what is there is no index
    "Repeats": "return [0, 0]",
    "Ends": "return [0, 1]",
    "Raises": "yield 0; raise ZeroDivisionError('oh')",
}
for name, body in RANKS.items():
    SELECTORS += f"\n\nclass {name}(InOrder):\n    def rank(self, pool, rng):\n        {body}\n"
POOL = {"a": [False, False, True, False], "b": [False] * 3}


@pytest.fixture
def ranked(harness, tmp_path, plugin):
    """Rank a pool with these verdicts by a selector of `SELECTORS`: the outcome, and a problem's (trial, k, picks)."""
    own = plugin(SELECTORS, selector=re.findall(r"class (\w+)", SELECTORS))

    def call(selector, *options, pool=POOL, store=tmp_path / "runs", **columns):
        lines = [
            {"problem_id": name, "responses": [f"{name}{i}" for i in range(len(correct))], "correct": correct}
            | {column: values[name] for column, values in columns.items()}
            for name, correct in pool.items()
        ]
        path = write_json_lines(tmp_path / "pool.jsonl", lines)
        sizes, before = ("--n", 3) if pool is POOL else (), set(files_of(store, "orders"))
        fixed = ("--pool", path, "--trials", 3, "--seed", 5, *sizes, "--selector", selector)
        outcome = harness("run", "--plugin", TOY, "--plugin", own, "--store", store, "--json", *fixed, *options)
        made = [read(each) for each in sorted(set(files_of(store, "orders")) - before)]
        picks = [[tuple(row.values()) for row in table.to_pylist()] if table.num_columns else [] for table in made]
        return outcome, picks

    return call


def test_an_order_ends_at_the_first_correct_response_and_an_unsolvable_pool_is_not_ranked(ranked, noted):
    outcome, picks = ranked("inorder")
    assert picks == [[(trial, 0, [0, 1, 2]) for trial in range(3)], []]
    assert len(noted()) == 1  # it took no random number: one ranking serves all trials
    assert outcome.rows[0]["samples_to_correct"] == (3 + 4) / 2
    assert ranked("loose")[1][0] == [(trial, 0, [2]) for trial in range(3)]  # nothing after it is looked at


def test_orders_go_on_to_the_m_th_correct_response_and_with_enrichment_at_least_to_five_per_cent(ranked):
    pool = {"many": [i in (0, 1, 50) for i in range(60)], "few": [True, False, True], "none": [False] * 2}

    def lengths(*options):
        outcome, picks = ranked("inorder", *options, "--trials", 1, pool=pool)
        return [len(order[0][2]) if order else 0 for order in picks], outcome.rows[0]

    made, row = lengths("--correct", 2)
    assert (made, row["samples_to_correct"], row["solvable"]) == ([3, 2, 0], (3 + 2 + 3) / 3, 2)
    made, row = lengths("--correct", 3, "--enrichment")
    assert made == [1, 51, 0]
    assert (row["samples_to_correct"], row["samples_to_correct_oracle"]) == ((51 + 4 + 3) / 3, (3 + 4 + 3) / 3)
    assert row["enrichment_factor"] == pytest.approx({"1": (20 + 1.5) / 2, "5": (2 / 3 * 20 + 1.5) / 2})
    assert lengths("--enrichment")[0] == [1, 3, 0]
    subset, _ = ranked("ofeach", "--correct", 2, "--enrichment", pool=pool)
    assert subset.rows[0]["pass_at_k"]["2"] <= 2 / 3  # two of two: not many of the sets of "few"
    assert subset.rows[0]["pass_at_k"]["1"] == 0


def test_each_trial_has_a_stream_of_its_own_and_of_a_subset_method_each_budget(ranked, noted, tmp_path):
    _, [picks, _] = ranked("shuffled")
    for trial, _, order in picks:
        whole = ranking_rng(5, Problem("a", ""), trial).permutation(3).tolist()
        assert order == whole[: whole.index(2) + 1]
    assert len(noted()) == len(picks) == 3
    _, [picks, unsolvable] = ranked("ofeach", store=tmp_path / "subset")
    streams = [ranking_rng(5, Problem("a", ""), trial).spawn(3) for trial in range(3)]
    assert picks == [(trial, k, streams[trial][k - 1].choice(3, k, False).tolist()) for trial, k, _ in picks]
    assert ([pick[:2] for pick in picks], unsolvable) == ([(t, k) for t in range(3) for k in (1, 2, 3)], [])


BROKEN = {
    "raises": ", problem 'a', trial 0: raised ZeroDivisionError: oh (own.py:",
    "ends": ", problem 'a', trial 0: the ranking ended after 2 of 3 responses",
    "repeats": ", problem 'a', trial 0: index 0 was picked twice",
    "probable": " needs log-probabilities, which the pool does not carry",
}


def test_broken_selectors_fail_alone_and_are_named_with_problem_and_trial(ranked):
    outcome, _ = ranked("inorder", *(word for name in BROKEN for word in ("--selector", name)))
    assert (outcome.code, [row["selector"] for row in outcome.rows]) == (1, ["inorder"])
    lines = [line for line in outcome.err.splitlines() if line.startswith("failed: ")]
    assert len(lines) == len(BROKEN)
    assert [n for n, words in BROKEN.items() if not any(f"selector '{n}'{words}" in line for line in lines)] == []
    given = {"a": [-1.0, -2.0, -3.0, -4.0], "b": [-1.0, -2.0, -3.0]}
    assert ranked("probable", logprobs=given)[0].code == 0


def test_a_selector_sees_the_first_responses_with_vectors_centred_over_them_and_no_verdict(toy, plugin, noted):
    own = plugin(SELECTORS, selector=["Sees"])
    toy("--plugin", own, "--data", "1", "--n", "5", "--selector", "sees")
    seen, names = noted()[:2]
    texts, vectors, answers, lengths = json.loads(seen)
    assert answers == [text.split()[-1] for text in texts]
    assert (len(texts), lengths) == (5, [3] * 5)
    np.testing.assert_allclose(np.mean(vectors, axis=0), 0, atol=1e-6)
    assert names == str(["answers", "embeddings", "lengths", "logprobs", "mean", "scores", "texts"])


def test_rows_are_centred_in_double_precision_and_with_unit_divided_by_their_length_before():
    rows = np.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]], np.float32)
    unit, zeros = np.array([[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]]), np.zeros(3)
    pool = Pool(["x"] * 3, **centred(rows, unit=True), logprobs=zeros, lengths=zeros, answers=[None] * 3)
    np.testing.assert_allclose(pool.embeddings, unit - unit.mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(pool.part([2, 0]).uncentred, unit[[2, 0]], atol=1e-7)
    large = centred(np.full((3, 1), 2**24, np.float32) + np.array([[0], [2], [4]], np.float32))["embeddings"]
    assert (large.tolist(), large.dtype) == ([[-2], [0], [2]], np.float32)
    columns = {"texts": ["a"], "embeddings": np.ones((1, 1)), "logprobs": [], "lengths": [1], "answers": [None]}
    assert refusal_of(checked_pool, "here", **columns).startswith("here: pool: logprobs has 0 rows for 1 texts")


# Selectors that learn.


def test_each_outcome_is_told_after_its_pick_and_an_error_is_none():
    pool = Pool(["x"] * 4, np.zeros((4, 0), np.float32), np.full(4, np.nan), np.ones(4, np.int64), [None] * 4)
    order = learnt_order(selector := Recorder(), pool, ["wrong", "error", "wrong", "correct"], 0, Problem("p", ""), 0)
    assert [next(order) for _ in range(3)] == [0, 1, 2]
    assert selector.told == [(), (Outcome(0, 0.0),), (Outcome(0, 0.0), Outcome(1, None))]


def test_a_learning_selectors_rng_depends_on_seed_problem_trial_and_how_many_it_was_told_and_its_picks_are_checked():
    def picked(pick, seed=0, name="p", trial=0, told=(0, 1)):
        selector = SimpleNamespace(pick_after=lambda pool, outcomes, rng: pick(rng) if callable(pick) else pick)
        outcomes = [Outcome(index, 0.0) for index in told]
        return pick_after(selector, range(10**7), outcomes, seed, Problem(name, ""), trial)

    changes = ({}, {"seed": 1}, {"name": "q"}, {"trial": 1}, {"told": (0, 1, 2)}, {"told": (3, 2)})
    *numbers, again = (picked(lambda rng: int(rng.integers(10**6)) + 9, **change) for change in changes)
    assert (len(set(numbers)), again) == (5, numbers[0])
    refusals = [(1, "picked twice"), (10**8, "outside"), (None, "must be an integer")]
    assert wrongly_refused(refusals, picked) == []


def test_a_run_tells_outcomes_of_own_picks_alone_ends_at_the_first_correct_one_and_tables_mark_the_selector(
    ranked, noted, harness, tmp_path
):
    pool, told = {"p": [True, False, True, False, False]}, [[], [(4, 0.0)], [(4, 0.0), (3, 0.0)]]
    rows = ranked("told", "--selector", "uniform", "--trials", 1, pool=pool)[0].rows
    assert (noted(), rows[0]["learns"], rows[0]["samples_to_correct"]) == ([str(each) for each in told], True, 3)
    assert "learns" not in rows[1]
    ranked("told", "--correct", 2, "--trials", 1, pool=pool)
    assert noted()[3] == str([*told[2], (2, 1.0)])
    table = harness("leaderboard", tmp_path / "runs" / "cells", "--out", tmp_path, "--explain").out
    assert "told (learns)" in table
    assert "(learns): it gets the outcome of each of its picks before the next" in table


@pytest.mark.slow
def test_a_bounded_ranking_gives_the_bytes_of_an_unbounded_one_in_one_process_that_is_kept(ranked, tmp_path, noted):
    pool, orders = {name: [False, True, False] for name in "pqr"}, []
    for store, limit in (("free", ()), ("bounded", ("--rank-timeout", "100", "--executor", "local:workers=1"))):
        outcome, _ = ranked("shuffled", "--selector", "raises", *limit, pool=pool)
        assert "selector 'raises', problem 'p', trial 0: raised ZeroDivisionError: oh (own.py:" in outcome.err
        orders.append({name: each for name, each in contents(tmp_path / "runs").items() if "/orders." in name})
        (tmp_path / "runs").rename(tmp_path / store)
    assert orders[0] == orders[1] != {}
    pids = set(map(int, noted())) - {os.getpid()}
    assert len(pids) == len(pids & {*descendants()}) == 1
    end_limited()
    assert not pids & {*descendants()}


SLEEPS = """
import time
from harness import hookimpl

class Slow:
    needs = ()
    def rank(self, pool, rng):
        time.sleep(1.5)
        yield from range(len(pool))

@hookimpl
def register_selectors(register):
    register("slow", Slow)
"""


@pytest.mark.slow
def test_bounded_rankings_in_several_processes_end_with_the_run(tmp_path):
    (tmp_path / "slow.py").write_text(SLEEPS)
    lines = [{"problem_id": f"p{i}", "responses": ["a", "b"], "correct": [False, True]} for i in range(10)]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    options = ("--selector", "slow", "--plugin", "slow.py", "--rank-timeout", 60, "--executor", "local:workers=2")
    ended = run_to_end(harness_command("run", "--pool", pool, "--trials", 1, *options), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "cells in " in ended.stdout
