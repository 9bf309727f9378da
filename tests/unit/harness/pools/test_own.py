"""Our own layout of pool files: what a line may hold, and how a malformed one is refused."""

from __future__ import annotations

import json

from corpora.pool_faults import OWN_LINE, OWN_LINES
from support.refusals import wrongly_refused

from harness.pools.reading import read_pool
from harness.pools.record import PoolRecord


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
    assert not wrongly_refused(OWN_LINES, lambda line: list(read_pool(written([line]))))


def test_a_problem_may_stand_on_one_line_or_entry_only(written):
    doubled = [OWN_LINE, OWN_LINE]
    cases = [
        (written(doubled), "line 2: problem_id 'a' stands on line 1 already"),
        (written(json.dumps(doubled), "pool.json"), "entry 2: problem_id 'a' stands on entry 1 already"),
    ]
    assert not wrongly_refused(cases, lambda path: list(read_pool(path)))
