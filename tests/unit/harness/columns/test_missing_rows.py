"""Requests without a response: they are marked, asked for again, put in their places, and too many are an error."""

import numpy as np
import pytest
from support.refusals import refusal_of
from support.works import responses_of

from harness import Problem
from harness.store import missing_rows, shards
from harness.store.json_files import read_json
from harness.store.stage import Store

FIRST, SECOND, THIRD = PROBLEMS = [Problem(name, f"Say {name}.") for name in ("a", "a.b", "c")]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


@pytest.fixture
def pool(store):
    stage = store.stage("pool", {"n": 5}, ".parquet")
    stage.begin()
    return stage


def keep(pool, problem, rows, missing):
    """Write the responses of these rows, whose text is their number, as an engine gives them."""
    responses = of_rows(rows, missing)
    missing_rows.mark(pool, problem, missing)
    shards.write_responses(pool.path(problem), problem, responses)


def of_rows(rows, missing=None, **columns):
    numbers = np.array(rows, int)
    own = {"lengths": numbers, "logprobs": -numbers.astype(float), "token_ids": [[row] for row in rows]}
    own["scores"] = {"rm": numbers / 2.0}
    finish = ["length" if row % 2 else "stop" for row in rows]
    return responses_of(list(map(str, rows)), **own | {"finish": finish, "missing": missing or {}} | columns)


def test_only_problems_with_missing_rows_are_waiting(pool):
    assert missing_rows.to_sample(pool, PROBLEMS)
    for problem in PROBLEMS:
        keep(pool, problem, range(5), {})
    assert missing_rows.waiting(pool, PROBLEMS) == {}
    assert not missing_rows.to_sample(pool, PROBLEMS)
    keep(pool, SECOND, [0, 2, 3], {1: "no \ud83d", 4: "busy"})
    assert missing_rows.waiting(pool, PROBLEMS) == {"a.b": {1: "no \ufffd", 4: "busy"}}
    assert missing_rows.waiting(pool, [FIRST]) == {}
    assert missing_rows.to_sample(pool, PROBLEMS)
    missing_rows.mark(pool, SECOND, {})
    assert missing_rows.waiting(pool, PROBLEMS) == {}
    missing_rows.mark(pool, Problem("d", "not sampled"), {0: "busy"})
    assert missing_rows.waiting(pool, [Problem("d", "not sampled")]) == {}


def test_rows_that_arrive_later_stand_in_their_places(pool):
    keep(pool, FIRST, [0, 3], {1: "busy", 2: "busy", 4: "lost"})
    missing_rows.fill(pool, FIRST, of_rows([1, 4], {2: "busy again"}))
    filled = shards.read_responses(pool.path(FIRST))
    assert filled.texts == ["0", "1", "3", "4"]
    assert filled.finish == ["stop", "length", "length", "stop"]
    assert filled.lengths.tolist() == [0, 1, 3, 4]
    assert filled.logprobs.tolist() == [0, -1, -3, -4]
    assert filled.scores["rm"].tolist() == [0, 0.5, 1.5, 2]
    assert filled.token_ids == [[0], [1], [3], [4]]
    assert missing_rows.waiting(pool, PROBLEMS) == {"a": {2: "busy again"}}
    missing_rows.fill(pool, FIRST, of_rows([2], token_ids=None))
    filled = shards.read_responses(pool.path(FIRST))
    assert (filled.texts, filled.token_ids) == (list("01234"), None)  # tokens are known of all rows or of none
    assert missing_rows.waiting(pool, PROBLEMS) == {}
    assert list(pool.folder.glob("*.unanswered.json")) == []


@pytest.fixture
def derived(store, pool):
    """A shard of each derived kind for each problem, of this pool and of another; by kind and whether it is this's."""
    kinds = {"embedding": ".safetensors", "verdict": ".parquet"} | dict.fromkeys(
        ("audit", "chance", "ranking"), ".json"
    )
    stages = {}
    for kind, suffix in kinds.items():
        for key in (pool.key, "another"):
            stages[kind, key == pool.key] = stage = store.stage(kind, {"pool": key}, suffix)
            stage.begin()
            for problem in PROBLEMS:
                stage.path(problem).write_bytes(b"")
    return stages


def without(derived):
    """The problems that each stage lacks."""
    return {which: stage.missing(PROBLEMS) for which, stage in derived.items()}


def test_what_was_made_from_a_pool_goes_with_rows_that_come_later_or_are_lost(pool, derived):
    keep(pool, FIRST, [0], {1: "busy"})
    missing_rows.fill(pool, FIRST, of_rows([], {1: "busy"}))  # nothing came: nothing is removed
    assert not any(without(derived).values())
    missing_rows.forget_derived(pool, [FIRST, SECOND])  # the responses to the first are there
    assert without(derived) == {(kind, own): [SECOND] if own else [] for kind, own in derived}
    missing_rows.fill(pool, FIRST, of_rows([1]))
    assert without(derived) == {(kind, own): [FIRST, SECOND] if own else [] for kind, own in derived}


def test_a_call_of_which_more_than_half_is_missing_is_an_error():
    half = [of_rows([0, 1], {2: "busy"}), of_rows([], {0: "lost"})]
    missing_rows.require_most(half)
    line = refusal_of(missing_rows.require_most, [*half, of_rows([0], {1: "busy", 2: "gone"})])
    assert line.startswith("sample: 4 of 7 responses asked for did not come (gone); what came is kept")


def test_a_summary_counts_what_did_not_come(pool):
    assert missing_rows.summary(pool, [], 5) == ""
    problems = [Problem(f"p{i}", "prompt") for i in range(8)]
    for problem in problems:
        keep(pool, problem, range(5), {})
    assert missing_rows.summary(pool, problems, 5) == ""
    keep(pool, problems[3], range(4), {4: "busy"})
    assert missing_rows.summary(pool, problems, 5) == (
        "sample: 1 of 40 responses did not come (busy): 1 problem has a smaller N; the next run asks for them again"
    )
    keep(pool, problems[5], range(4), {4: "busy"})
    line = missing_rows.summary(pool, problems, 5)  # 5 %: as many as are allowed
    assert "2 of 40 responses did not come (busy): 2 problems have a smaller N" in line
    keep(pool, problems[5], range(3), {3: "busy", 4: "busy"})
    line = refusal_of(missing_rows.summary, pool, problems, 5)
    assert line == "sample: 3 of 40 responses did not come (busy), more than 5%; what came is kept: run it again"


def test_a_problem_without_any_response_is_an_error(pool):
    for problem in PROBLEMS[:2]:
        keep(pool, problem, range(5), {})
    unasked = refusal_of(missing_rows.summary, pool, PROBLEMS, 5)
    assert unasked == (
        "sample: 5 of 15 responses did not come (not asked for), among them all of problem 'c'; "
        "what came is kept: run it again"
    )
    missing_rows.mark(pool, THIRD, dict.fromkeys(range(5), "no tokens left"))
    assert "(no tokens left), among them all of problem 'c'" in refusal_of(missing_rows.summary, pool, PROBLEMS, 5)
    assert read_json(pool.folder / f"{pool.path(THIRD).stem}.unanswered.json")["4"] == "no tokens left"
