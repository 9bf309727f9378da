"""Versions of the stages in their keys."""

import hashlib

from harness.store import versions
from harness.store.stage import Store


def test_the_first_version_of_a_stage_keeps_keys_and_the_next_changes_them(tmp_path, monkeypatch):
    def stage():
        return Store(tmp_path).stage("pool", {"n": 1}, ".parquet")

    first = stage()
    assert first.key == hashlib.sha256(b'{"n":1,"stage":"pool"}').hexdigest()[:20]
    monkeypatch.setitem(versions.STAGES, "pool", 2)
    assert stage().key != first.key
    assert dict(stage().inputs) == {"n": 1, "stage_version": 2}
