"""Keys never change by themselves: pools are expensive, and a new key would sample them again."""

from __future__ import annotations

import pytest

from harness import Problem
from harness.store.keys import canonical_json, digest, named_shard, shard_name, storable, text_hash
from harness.store.stage import Store
from harness.store.versions import STAGES

KEYS = {  # of {"n": 3}; raise a number in `versions` together with its key here
    **{"pool": "791e0c", "embedding": "e6735c", "verdict": "919eb1", "graded": "ba36ae", "measure": "164286"},
    **{"audit": "593a22", "chance": "0274bd", "ranking": "6e0f90", "sequence": "c0c787", "stopped": "ab9dc2"},
}


def test_keys_are_those_that_stores_have_today(tmp_path):
    assert {kind: Store(tmp_path).stage(kind, {"n": 3}, "").key[:6] for kind in STAGES} == KEYS
    assert digest({"n": 3, "stage": "pool"}) == digest({"stage": "pool", "n": 3}) == "791e0cd72d1e70006771"
    assert [len(digest("x", length)) for length in (1, 12, 64)] == [1, 12, 64]
    assert text_hash("say red") == "43bc1350e6d1a75be467406159fd7739"
    assert shard_name(Problem("a b/1", "Say red.", reference=3)) == "a_b_1.c49428018a9c"


def test_canonical_json_has_one_text_for_equal_values_and_no_nan():
    assert canonical_json({"b": (1, 2), "a": {"ü": None}}) == '{"a":{"ü":null},"b":[1,2]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


def test_a_shards_name_is_readable_and_differs_with_prompt_and_reference():
    names = {
        shard_name(Problem(name, prompt, reference))
        for name, prompt, reference in (("p", "a", 1), ("p", "b", 1), ("p", "a", 2), ("p", "a", "1"), ("q", "a", 1))
    }
    assert len(names) == 5
    assert named_shard("4-5 6//10", "1f0c") == "4-5_6_10.1f0c"
    assert named_shard("x" * 100, "1f0c") == "x" * 80 + ".1f0c"


def test_lone_surrogates_become_replacement_characters():
    assert storable("a\ud83d b\udc00 \U0001f600") == "a\ufffd b\ufffd \U0001f600"
    assert text_hash("\ud83d") == text_hash("\ufffd")  # the store keeps both as one text
    assert digest("\ud83d") != digest("\ud83e")
