"""A stage is a folder under the hash of its inputs; killed writers leave nothing in it, and versions change its key."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support.refusals import refusal_of

from harness import Problem
from harness.store import versions
from harness.store.keys import digest, shard_name
from harness.store.stage import Store
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


def test_a_stage_that_begins_writes_its_inputs_once(stage):
    stage.begin()
    manifest = stage.folder / "manifest.json"
    assert json.loads(manifest.read_text()) == {"n": 3, "about": {"b": 1}}
    assert manifest.read_text().endswith("}\n")
    manifest.write_text("kept")
    stage.begin()
    assert manifest.read_text() == "kept"


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


def test_a_folder_that_cannot_be_made_is_one_line(stage, tmp_path):
    (tmp_path / "pool").write_text("a file")
    assert "choose another --store" in refusal_of(stage.begin)


def test_a_version_above_the_first_stands_in_the_inputs(tmp_path, monkeypatch):
    first = Store(tmp_path).stage("ranking", {"n": 3}, ".json")
    assert first.inputs == {"n": 3}  # so that what was made before there were versions keeps its key
    monkeypatch.setitem(versions.STAGES, "ranking", 2)
    second = Store(tmp_path).stage("ranking", {"n": 3}, ".json")
    assert second.inputs == {"n": 3, "stage_version": 2}
    assert second.key != first.key
