"""Our own layout of pool files: what a line may hold, and how a malformed one is refused."""

from __future__ import annotations

import json

from support.refusals import wrongly_refused

from harness.pools.reading import read_pool
from harness.pools.record import PoolRecord

LINE = {"problem_id": "a", "responses": ["x", "y"]}
MALFORMED = [
    ({"responses": ["x"]}, "line 1: expected"),
    ({"problem_id": "a"}, "line 1: expected"),
    (LINE | {"problem_id": 3}, "line 1: problem_id must be a text, got 3"),
    (LINE | {"problem_id": ""}, "line 1: problem_id must be a text, got ''"),
    (LINE | {"responses": []}, "line 1 (a): no responses"),
    (LINE | {"responses": "xy"}, "line 1 (a): responses must be a list of texts"),
    (LINE | {"responses": ["x", 1]}, "line 1 (a): responses must be a list of texts"),
    (LINE | {"prompt": 3}, "line 1 (a): prompt must be a text, got 3"),
    (LINE | {"correct": [True]}, "correct must be a list as long as responses (2), got 1 entries"),
    (LINE | {"correct": True}, "correct must be a list as long as responses (2), got True"),
    (LINE | {"correct": ["yes", True]}, "correct must hold true and false only"),
    (LINE | {"correct": [2, 0]}, "correct must hold true and false only"),
    (LINE | {"finish": ["stop", "eos"]}, 'finish must hold "stop" and "length" only'),
    (LINE | {"logprobs": [-1]}, "logprobs must be a list as long as responses (2), got 1 entries"),
    (LINE | {"logprobs": [-1, True]}, "logprobs must hold numbers only"),
    (LINE | {"logprobs": [-1, float("nan")]}, "logprobs must hold numbers only"),
    (LINE | {"logprobs": [-1, float("inf")]}, "logprobs must hold numbers only"),
    (LINE | {"logprobs": [10**400, 1]}, "logprobs must hold numbers only, got one of over 300 digits"),
    (LINE | {"logprob_kind": ["sum"]}, "(a): logprob_kind must be a text, got ['sum']"),
    (LINE | {"reference": [float("nan")]}, "(a): reference must hold plain values"),
]


def test_a_line_may_have_a_column_for_each_thing_known_of_its_responses(written):
    line = {
        **{"problem_id": "a", "responses": ["x", "y"], "prompt": "?", "reference": {"answer": [1, "2"]}},
        **{"logprobs": [-1, -2.5], "logprob_kind": "mean", "correct": [1, False], "finish": ["stop", "length"]},
    }
    bare, full = read_pool(written([{"problem_id": "b", "responses": ["", "\ud800", "\0"]}, line]))
    assert bare == PoolRecord("b", ["", "\ud800", "\0"])
    assert full == PoolRecord(**line)
    assert full.logprobs == [-1.0, -2.5]
    assert full.correct == [True, False]
    responses = full.as_responses()
    assert (list(responses.finish), responses.lengths.tolist()) == (["stop", "length"], [1, 1])
    assert list(bare.as_responses().finish) == ["stop"] * 3


def test_a_malformed_line_is_refused_with_its_place_and_fault(written):
    assert not wrongly_refused(MALFORMED, lambda line: list(read_pool(written([line]))))


def test_a_problem_may_stand_on_one_line_or_entry_only(written):
    doubled = [LINE, LINE]
    cases = [
        (written(doubled), "line 2: problem_id 'a' stands on line 1 already"),
        (written(json.dumps(doubled), "pool.json"), "entry 2: problem_id 'a' stands on entry 1 already"),
    ]
    assert not wrongly_refused(cases, lambda path: list(read_pool(path)))
