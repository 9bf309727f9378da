"""A cell's entries from the shards of a ranking: counts, ranks or hits, routes, and what does not fit together."""

import dataclasses
import json

import numpy as np
import pytest
from support.refusals import refusal_of
from support.works import keep_pool, keep_verdicts, verdicts_of, work_in

from harness.running.score import _by_route, _conditions, _entry
from harness.store import shards
from harness.store.json_files import write_record
from harness.store.stage import Store


@pytest.fixture
def work(tmp_path):
    return work_in(tmp_path, trials=2)


@pytest.fixture
def problem(work):
    [problem] = keep_pool(work, {"a \ud83d": ["r0", "r1", "r2", "r3"]})
    keep_verdicts(work, problem, "wcec")
    return problem


def keep_ranking(work, problem, trials, kind="order", n=4):
    write_record(work.rankings.path(problem), {"kind": kind, "n": n, "trials": trials})


def test_a_ranker_has_ranks_and_orders(work, problem):
    keep_ranking(work, problem, [[1], [0, 2, 3]])
    assert _entry(work, problem, None) == {
        **{"id": "a \ufffd", "n": 4, "c": 2, "errors": 1, "disputed": None, "routes": {"-": 2}},
        **{"ranks": [1, 3], "orders": [[1], [0, 2, 3]]},
        **{"best_of_k": {"mean-logprob": {"1": 0.5, "2": 0.333333, "4": 0.0}}},
    }
    assert "chance" not in _entry(work, problem, work.audits)
    write_record(work.audits.path(problem), {"correct": 1, "gradings": 9, "said": [None] * 4})
    assert _entry(work, problem, work.audits)["chance"] == [1, 9]


def test_maj_at_k_and_best_of_k_are_of_the_pool_s_answers_and_scores(work):
    scores = {"reward": np.array([0.0, 3, 2, 1]), "judge": np.full(4, np.nan)}
    [problem] = keep_pool(work, {"a": ["r0", "r1", "r2", "r3"]}, scores=scores, lengths=np.array([1, 1, 9, 9]))
    keep_verdicts(work, problem, "wcce", ["x", "y", "y", None])
    keep_ranking(work, problem, [[1], [1]])
    entry = _entry(work, problem, None)
    assert entry["maj_at_k"] == {"1": 0.5, "2": 0.666667, "4": 1.0}
    assert entry["best_of_k"] == {
        "mean-logprob": {"1": 0.5, "2": 0.333333, "4": 0.0},  # per token the order is 0, 2, 3, 1
        "reward": {"1": 0.5, "2": 0.833333, "4": 1.0},
    }
    stage = Store(work.pool.folder.parents[1]).stage("score", {"scorer": {"name": "rm"}}, ".parquet")
    shards.write_scores(stage.path(problem), {"rm": np.array([0.0, 1, 0, 0])})
    assert _entry(dataclasses.replace(work, scores=stage), problem, None)["best_of_k"]["rm"]["4"] == 1.0
    keep_ranking(work, problem, [[1], [1]], n=2)
    two = _entry(dataclasses.replace(work, n=2), problem, None)
    assert (two["maj_at_k"], two["best_of_k"]["reward"]) == ({"1": 0.5, "2": 0.5}, {"1": 0.5, "2": 1.0})


def test_only_the_first_responses_of_a_run_count(work, problem):
    work = dataclasses.replace(work, n=2)
    shards.write_audit(work.audits.path(problem), problem, verdicts_of("cwww"))
    keep_ranking(work, problem, [[1], [0, 1]], n=2)
    entry = _entry(work, problem, None)
    assert [entry[name] for name in ("n", "c", "errors", "disputed")] == [2, 1, 0, 2]


def test_an_unsolvable_problem_has_rank_n_plus_one_and_no_hit(work, problem):
    keep_verdicts(work, problem, "wwew")
    keep_ranking(work, problem, [])
    entry = _entry(work, problem, None)
    assert (entry["ranks"], entry["orders"], entry["routes"]) == ([5, 5], [], {})
    keep_ranking(work, problem, [], kind="subset")
    assert _entry(work, problem, None)["hits"] == {"1": [False] * 2, "2": [False] * 2, "4": [False] * 2}


def test_a_subset_method_has_a_hit_for_each_budget_and_trial(work, problem):
    trials = [{"1": [0], "2": [1, 0], "4": [0, 1, 2, 3]}, {"1": [3], "2": [0, 2], "4": [0, 1, 2, 3]}]
    keep_ranking(work, problem, trials, kind="subset")
    entry = _entry(work, problem, None)
    assert entry["hits"] == {"1": [False, True], "2": [True, False], "4": [True, True]}
    assert "ranks" not in entry


def test_a_ranking_of_another_length_and_fewer_verdicts_than_were_ranked_are_named(work, problem):
    for n in (3, 5):
        keep_ranking(work, problem, [[1], [1]], n=n)
        line = refusal_of(_entry, work, problem, None)
        assert f"{work.rankings.path(problem)} holds {n} rows and not 4" in line
    line = refusal_of(_entry, dataclasses.replace(work, n=5), problem, None)
    assert f"{work.verdicts.path(problem)} holds 4 rows and not 5" in line


def test_all_conditions_and_the_first_parts_of_routes_to_correct_verdicts_are_kept(work):
    routes = ["fallback, math-verify", "", "fallback, equal", "boxed"]
    counts = _by_route(["correct"] * 3 + ["wrong"], routes)
    assert json.dumps(counts) == '{"-": 1, "fallback": 2}'
    problems = keep_pool(work, {"a": ["x"], "b": ["x"], "c": ["x"]})
    for problem, conditions in zip(problems, ({"sandbox": "b", "cpu": "1"}, {"sandbox": "a"}, {}), strict=True):
        shards.write_verdicts(work.verdicts.path(problem), verdicts_of("c"), [None], conditions)
    assert _conditions(problems, work) == {"cpu": ["1"], "sandbox": ["a", "b"]}
