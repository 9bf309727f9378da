"""The manifest of a pool's repository: what it says comes back, and nothing in it is trusted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.hub_repositories import changed_manifest
from support.refusals import refusal_of, wrongly_refused

from harness_plugins.hub.manifest import parse, stage_key
from harness_plugins.hub.stored_manifest import counts
from harness_plugins.hub.tables import RESPONSES, VECTORS


@pytest.fixture
def whole(pushed):
    """The manifest of a pool with vectors and verdicts, as it was written."""
    return pushed["manifest.json"]


def test_a_manifest_comes_back_as_it_was_written(whole):
    manifest = parse(whole)
    assert manifest.content() == whole
    key, (vectors, verdicts) = manifest.pool.key, manifest.stages[1:]
    assert counts(manifest) == {
        **{"pool": key, "problems": 6, "responses": 96, "prompts": False},
        "stages": ["responses", f"vectors-{vectors.key}", f"verdicts-{verdicts.key}"],
    }
    assert [file.path for file in manifest.files] == [
        "responses/00000.parquet",
        f"vectors-{vectors.key}/00000.parquet",
        f"verdicts-{verdicts.key}/00000.parquet",
    ]


def test_what_is_no_manifest_of_a_pool_is_refused():
    contents = (b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"format": "photos"}')
    assert not wrongly_refused([(content, "manifest.json is not that of a pool") for content in contents], parse)
    assert refusal_of(parse, b'{"format": "diversity-harness pool", "schema": "1"}').endswith("no schema")
    nan = b'{"format": "diversity-harness pool", "schema": 1, "key": NaN}'
    assert refusal_of(parse, nan).endswith("is damaged: its content does not have its hash")


def test_a_newer_schema_asks_for_an_upgrade(whole):
    newer = changed_manifest(whole, lambda value: value.update(schema=2, harness="9.9", stages="unknown here"))
    assert refusal_of(parse, newer) == (
        "written by a newer harness (9.9, schema 2; this one reads 1): upgrade diversity-harness"
    )


def test_every_byte_of_the_manifest_counts(whole):
    def loaded(content):
        try:
            return json.loads(content)
        except ValueError:
            return None

    places = np.random.default_rng(0).choice(len(whole), 200, replace=False)
    flipped = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in places]
    changed = [content for content in flipped if loaded(content) != json.loads(whole)]  # else it was a blank
    assert len(changed) > 100
    assert not wrongly_refused([(content, "") for content in changed], parse)


def shards_of(value, stage=0):
    return value["stages"][stage]["shards"]


def file_of(value):
    return value["stages"][0]["files"][0]


BY_HAND = [
    (lambda v: file_of(v).update(path="../../../../etc/passwd"), "must be responses/00000.parquet"),
    (lambda v: file_of(v).update(path="/etc/passwd"), "must be responses/00000.parquet"),
    (lambda v: file_of(v).update(sha256="../" + "a" * 61), "no SHA-256"),
    (lambda v: file_of(v).update(sha256="A" * 64), "no SHA-256"),
    (lambda v: file_of(v).update(size=0), "has 0 bytes"),
    (lambda v: file_of(v).update(size=True), "has True bytes"),
    (lambda v: file_of(v).update(mode="exec"), "malformed"),
    (lambda v: v["stages"][0].update(key="../../../evil"), "the responses' inputs are not their key's"),
    (lambda v: v["stages"][0]["inputs"].update(n=17), "not their key's"),
    (lambda v: v["stages"][0].update(kind="cells"), "malformed"),
    (lambda v: v["stages"][0].update(shards=[]), "empty"),
    (lambda v: shards_of(v)[0].__setitem__(1, "/../../../x"), "12 hex digits"),
    (lambda v: shards_of(v)[0].__setitem__(1, "a" * 13), "12 hex digits"),
    (lambda v: shards_of(v)[0].__setitem__(2, True), "has True responses"),
    (lambda v: shards_of(v)[0].__setitem__(2, 0), "has 0 responses"),
    (lambda v: shards_of(v)[0].__setitem__(0, 7), "id must be text"),
    (lambda v: shards_of(v).append(shards_of(v)[0]), "a problem twice"),
    (lambda v: shards_of(v)[0].append(1), "malformed"),
    (lambda v: shards_of(v).append(["test/1", "0" * 12, 16]), "a problem's id twice"),
    (lambda v: v["stages"].pop(0), "one pool is wanted"),
    (lambda v: v["stages"].reverse(), "one pool is wanted, and first"),
    (lambda v: v["stages"].append(v["stages"][1]), "there twice"),
    (lambda v: v.update(key="0" * 20), "two keys"),
    (lambda v: shards_of(v, 1)[0].__setitem__(1, "0" * 12), "problems that the pool has not"),
    (lambda v: shards_of(v, 1)[0].__setitem__(2, 15), "has 15 rows for the 16 responses to problem 'test/"),
    (lambda v: shards_of(v, 2)[0].__setitem__(2, 17), "has 17 rows for the 16 responses to problem 'test/"),
    (lambda v: v.update(prompts=["mit"]), "malformed: prompts"),
    (lambda v: v.pop("stages"), "malformed"),
]


def test_a_manifest_made_by_hand_is_refused(whole):
    cases = [(changed_manifest(whole, change), words) for change, words in BY_HAND]
    assert not wrongly_refused(cases, parse)


def test_a_stage_of_another_pool_and_a_task_without_a_name_are_refused(whole):
    def of_another_pool(value):
        inputs = value["stages"][1]["inputs"] | {"pool": "0" * 20}
        value["stages"][1].update(inputs=inputs, key=stage_key(VECTORS, inputs), files=[])

    def of_no_task(value):
        inputs = value["stages"][0]["inputs"] | {"task": {"name": 3, "revision": "1"}}
        value["stages"][0].update(inputs=inputs, key=stage_key(RESPONSES, inputs))

    assert "belongs to another pool" in refusal_of(parse, changed_manifest(whole, of_another_pool))
    assert refusal_of(parse, changed_manifest(whole, of_no_task)).endswith("it names no task")
