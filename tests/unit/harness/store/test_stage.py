"""A stage is a folder under the hash of its inputs (`stage`, `keys`, `versions`), found by its key (`lookup`).

Keys never change by themselves: pools are expensive, and a new key would sample them again.
"""

import json
import os
import subprocess
import sys

import pytest
from support.refusals import refusal_of

from harness import Problem
from harness.store import versions
from harness.system.hashing import canonical_json, digest, named_shard, shard_name, storable, text_hash
from harness.store.lookup import graded_folder, stored_pool
from harness.store.stage import Store
from harness.store.versions import STAGES
from harness.system.files import temporary_name

PROBLEMS = [Problem(f"p{i}", "prompt") for i in range(4)]


@pytest.fixture
def stage(tmp_path):
    return Store(tmp_path).stage("pool", {"n": 3, "about": {"b": 1}}, ".parquet")


def test_a_stage_lies_under_the_hash_of_its_kind_and_inputs(stage, tmp_path):
    assert stage.key == digest({"stage": "pool", "n": 3, "about": {"b": 1}})
    assert stage.folder == tmp_path / "pool" / stage.key
    assert stage.path(PROBLEMS[0]) == stage.folder / f"{shard_name(PROBLEMS[0])}.parquet"
    assert not tmp_path.joinpath("pool").exists()  # nothing is made before it begins
    assert Store(tmp_path).cells == tmp_path / "cells"


def test_a_stage_that_begins_writes_its_inputs_once_and_a_folder_that_cannot_be_made_is_one_line(stage, tmp_path):
    stage.begin()
    manifest = stage.folder / "manifest.json"
    assert json.loads(manifest.read_text()) == {"n": 3, "about": {"b": 1}}
    assert manifest.read_text().endswith("}\n")
    manifest.write_text("kept")
    stage.begin()
    assert manifest.read_text() == "kept"
    (tmp_path / "verdict").write_text("a file")
    assert "choose another --store" in refusal_of(Store(tmp_path).stage("verdict", {}, ".parquet").begin)


def test_the_missing_problems_are_those_without_a_shard_in_order(stage):
    assert stage.missing(PROBLEMS) == PROBLEMS
    stage.begin()
    for problem in (PROBLEMS[2], PROBLEMS[0]):
        stage.path(problem).write_bytes(b"")
    assert stage.missing(PROBLEMS) == [PROBLEMS[1], PROBLEMS[3]]


def test_what_killed_writers_left_is_swept_away_and_nothing_else(stage):
    stage.begin()
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    shard = stage.path(PROBLEMS[0])
    dead, alive, init = (temporary_name(shard, pid) for pid in (ended.pid, os.getpid(), 1))
    elsewhere = shard.with_name(f".another-machine-{ended.pid}.x.tmp")
    unnumbered = dead.with_name(dead.name.replace(str(ended.pid), "abc"))
    for path in (dead, alive, init, elsewhere, unnumbered, shard):
        path.write_bytes(b"PAR1")
    stage.begin()
    assert not dead.exists()
    assert all(path.exists() for path in (alive, init, elsewhere, unnumbered, shard))


def test_a_version_above_the_first_stands_in_the_inputs(tmp_path, monkeypatch):
    first = Store(tmp_path).stage("ranking", {"n": 3}, ".json")
    assert first.inputs == {"n": 3}  # so that what was made before there were versions keeps its key
    monkeypatch.setitem(versions.STAGES, "ranking", 2)
    second = Store(tmp_path).stage("ranking", {"n": 3}, ".json")
    assert second.inputs == {"n": 3, "stage_version": 2}
    assert second.key != first.key


KEYS = {  # of {"n": 3}; raise a number in `versions` together with its key here
    **{"pool": "791e0c", "embedding": "e6735c", "verdict": "919eb1", "graded": "ba36ae", "measure": "164286"},
    **{
        "answer": "b6663e",
        "audit": "593a22",
        "chance": "0274bd",
        "ranking": "6e0f90",
        "score": "d93b31",
        "sequence": "c0c787",
        "stopped": "ab9dc2",
    },
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


@pytest.fixture
def two_pools(tmp_path):
    """Two pools whose keys begin alike, and a file beside them."""
    for key in ("ab12", "ab34"):
        (tmp_path / "pool" / key).mkdir(parents=True)
    (tmp_path / "pool" / "ab5").write_text("no pool")
    return tmp_path


def test_a_pool_is_found_by_the_beginning_of_its_key_unless_none_or_several_begin_so(two_pools):
    assert stored_pool(two_pools, "ab1") == two_pools / "pool" / "ab12"
    assert stored_pool(two_pools, "ab34") == two_pools / "pool" / "ab34"
    assert f"pool 'ab': 2 pools of {two_pools} begin so: write more" in refusal_of(stored_pool, two_pools, "ab")
    none = refusal_of(stored_pool, two_pools, "ab5")
    assert none.startswith(f"pool 'ab5': no such file, and no such key in {two_pools} ")
    assert "there: ab12, ab34" in none


def test_the_newest_verdicts_on_a_pool_are_found(tmp_path):
    assert graded_folder(tmp_path, "key") is None
    stages = [
        Store(tmp_path).stage("verdict", {"pool": pool, "grader": grader}, ".parquet")
        for pool, grader in (("key", "1"), ("key", "2"), ("other", "3"))
    ]
    for age, stage in enumerate(stages):
        stage.begin()
        os.utime(stage.folder / "manifest.json", (100 - age, 100 - age))
    assert graded_folder(tmp_path, "key") == stages[0].folder
    assert graded_folder(tmp_path, "ke") is None
