"""The manifest of a pool's repository: what it says comes back, and nothing in it is trusted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from corpora.hub_faults import MANIFEST_VALUES
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


def test_a_manifest_made_by_hand_is_refused(whole):
    def with_value(place, value):
        def change(manifest):
            *path, last = place
            for name in path:
                manifest = manifest[name]
            manifest[last] = value

        return changed_manifest(whole, change)

    first, second = (json.loads(whole)["stages"][0]["shards"][number] for number in (0, 1))
    stages = json.loads(whole)["stages"]
    lists = [
        (("stages", 0, "shards"), [first, second, first], "a problem twice"),
        (("stages", 0, "shards"), [first, second, [second[0], "0" * 12, 16]], "a problem's id twice"),
        (("stages", 0, "shards"), [[*first, 1], second], "malformed"),
        (("stages",), stages[1:], "one pool is wanted"),
        (("stages",), stages[::-1], "one pool is wanted, and first"),
        (("stages",), [*stages, stages[1]], "there twice"),
    ]
    cases = [(with_value(place, value), words) for place, value, words in [*MANIFEST_VALUES, *lists]]
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
