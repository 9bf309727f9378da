"""A shard's checksum covers every bit of its file and its place; what is no file in its place is named.

Also JSON in a store (`json_files`): canonical bytes, and manifests that say what made a stage.
"""

import os
import random
import socket
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from support.refusals import refusal_of
from support.works import responses_of

from harness import Problem
from harness.store import shards
from harness.store.checksums import DAMAGED, UNSEALED, BadShard, blank, check, place_of, read_regular, root_of, sealed
from harness.store.json_files import json_bytes, read_json, read_manifest, read_record, write_json, write_record
from harness.store.shard_files import SUFFIXES
from harness.store.stage import Store

PROBLEM = Problem("a/1", "shard-sha256=")
TAGGED = ["shard-sha256=" + "0" * 64 + " of pool/k/p;", "shard-sha256="]


def written(root, kind):
    """A shard of this kind whose content holds the checksum's own tag, and its reader."""
    path = root / kind / "key" / f"a_1{SUFFIXES[kind]}"
    if kind == "pool":
        shards.write_responses(path, PROBLEM, responses_of(TAGGED, missing={7: TAGGED[0]}))
        return path, lambda: shards.read_responses(path).texts
    if kind == "embedding":
        shards.write_vectors(path, np.eye(3))
        return path, lambda: shards.read_vectors(path).tolist()
    write_record(path, {"said": TAGGED})
    return path, lambda: read_record(path)


@pytest.mark.parametrize(
    ("kind", "content"), [("pool", TAGGED), ("embedding", np.eye(3).tolist()), ("audit", {"said": TAGGED})]
)
def test_every_bit_of_a_shard_is_covered(tmp_path, kind, content):
    path, read = written(tmp_path, kind)
    assert read() == content
    whole = path.read_bytes()
    bits = random.Random(0).sample(range(8 * len(whole)), 100)
    for bit in bits:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(BadShard):
            read()
    path.write_bytes(whole[:-1])
    with pytest.raises(BadShard):
        read()


def test_the_checksum_is_the_sha_256_of_all_but_its_digits():
    path = Path("runs/pool/key/p.json")
    assert blank(path) == f"shard-sha256={'0' * 64} of pool/key/p;"
    before, digits, after = sealed(path, f"<{blank(path)}>".encode())
    assert (bytes(before), bytes(after)) == (b"<shard-sha256=", b" of pool/key/p;>")
    assert digits == sha256(b"<shard-sha256= of pool/key/p;>").hexdigest().encode()
    check(path, b"".join([before, digits, after]))


def test_a_bad_shard_is_one_line_that_names_it_and_what_to_do(tmp_path):
    path = tmp_path / "runs" / "pool" / "key" / "p.parquet"
    assert str(BadShard(path, DAMAGED)) == (
        f"store: {path} is damaged (its content does not have its checksum): "
        f"`harness doctor --store {tmp_path / 'runs'}` says what to do"
    )
    sent = BadShard.__reduce__(BadShard(path, DAMAGED))  # as a worker process sends it
    assert str(sent[0](*sent[1])) == str(BadShard(path, DAMAGED))
    assert (BadShard(path, DAMAGED).path, BadShard(path, DAMAGED).fault) == (path, DAMAGED)


def test_the_place_of_a_shard_is_the_same_in_any_store_and_another_is_named(tmp_path):
    path, _ = written(tmp_path, "audit")
    for place in ("audit/key/b.json", "ranking/key/a_1.json"):
        other = tmp_path / place
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_bytes(path.read_bytes())
        with pytest.raises(BadShard, match=r"is not what its name says \(it was written as audit/key/a_1\)"):
            read_record(other)
    assert place_of(tmp_path / "pool" / "key" / "p.1f0c.parquet") == "pool/key/p.1f0c"
    assert place_of(tmp_path / "pool" / "a key" / "ü.json") == "pool/a_key/_"
    assert root_of(tmp_path / "pool" / "key" / "p.json") == tmp_path
    assert str(root_of(Path("p.json"))) == "."


def test_a_file_without_a_checksum_is_told_from_a_damaged_one(tmp_path):
    path = tmp_path / "pool" / "key" / "p.json"
    for content, fault in ((b"{}", UNSEALED), (b'{"x":"shard-sha256=zz"}', DAMAGED)):
        with pytest.raises(BadShard) as caught:
            check(path, content)
        assert caught.value.fault == fault


def test_what_is_no_regular_file_is_named_and_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    os.mkfifo("fifo")
    os.mkdir("folder")
    os.symlink("loop", "loop")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        refused = {}
        for name in ("fifo", "folder", "/dev/null", "socket", "loop", "missing"):
            with pytest.raises((BadShard, OSError)) as caught:
                read_regular(Path(name))
            refused[name] = getattr(caught.value, "fault", "cannot be opened")
    assert refused == {
        "fifo": "is a FIFO and not a file",
        "folder": "is a folder and not a file",
        "/dev/null": "is a device and not a file",
        **dict.fromkeys(("socket", "loop", "missing"), "cannot be opened"),
    }


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
    assert "cannot be read (it is no JSON)" in refusal_of(read_json, path)


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
