"""A pool of a store is found by the beginning of its key, and so are the newest verdicts on it."""

from __future__ import annotations

import os

import pytest
from support.refusals import refusal_of

from harness.store.lookup import graded_folder, stored_pool
from harness.store.stage import Store


@pytest.fixture
def store(tmp_path):
    """Two pools whose keys begin alike, and a file beside them."""
    for key in ("ab12", "ab34"):
        (tmp_path / "pool" / key).mkdir(parents=True)
    (tmp_path / "pool" / "ab5").write_text("no pool")
    return tmp_path


def test_a_pool_is_found_by_the_beginning_of_its_key(store):
    assert stored_pool(store, "ab1") == store / "pool" / "ab12"
    assert stored_pool(store, "ab34") == store / "pool" / "ab34"


def test_no_pool_and_several_pools_are_one_line_each(store):
    assert refusal_of(stored_pool, store, "ab") == (f"pool 'ab': 2 pools of {store} begin so: write more of the key")
    none = refusal_of(stored_pool, store, "ab5")
    assert none.startswith(f"pool 'ab5': no such file, and no such key in {store} ")
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
