"""JSON in a store: canonical bytes, records with a checksum, manifests that say what made a stage."""

from __future__ import annotations

import pytest
from support.refusals import refusal_of

from harness.store.checksums import BadShard
from harness.store.json_files import json_bytes, read_json, read_manifest, read_record, write_json
from harness.store.stage import Store


def test_a_value_is_canonical_json_and_a_newline(tmp_path):
    assert json_bytes({"b": [1, None], "a": "ü\ud83d"}) == b'{"a":"\xc3\xbc\xed\xa0\xbd","b":[1,null]}\n'
    write_json(tmp_path / "a.json", {"b": 1.5})
    assert (tmp_path / "a.json").read_bytes() == b'{"b":1.5}\n'
    assert read_json(tmp_path / "a.json") == {"b": 1.5}


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    path = tmp_path / "audit" / "key" / "p.json"
    missing = refusal_of(read_record, path)
    assert missing == f"store: {path} is not there: run the command that makes it again"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert "cannot be read (JSONDecodeError)" in refusal_of(read_json, path)


def test_a_manifest_must_say_what_made_its_stage(tmp_path):
    stage = Store(tmp_path).stage("pool", {"n": 3}, ".parquet")
    stage.begin()
    assert read_manifest(stage.folder) == {"n": 3}
    manifest = stage.folder / "manifest.json"
    for edited in ('{"n": 4}', "[]"):
        manifest.write_text(edited)
        with pytest.raises(BadShard, match=f"does not say what made {stage.key}"):
            read_manifest(stage.folder)
    other = Store(tmp_path).stage("verdict", {"n": 3}, ".parquet")
    assert other.key != stage.key  # the kind is part of the key
