"""A repository's manifest comes back and nothing in it is trusted; its card says what the pool is and how to get it."""

import json
from dataclasses import replace

import pytest
import yaml
from corpora.hub_faults import MANIFEST_VALUES
from support.hub_repositories import changed_manifest
from support.refusals import refusal_of, wrongly_refused

from harness_plugins.hub.card import card
from harness_plugins.hub.manifest import StageEntry, parse, stage_key
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


def test_what_is_no_manifest_of_a_pool_is_refused_and_a_newer_schema_asks_for_an_upgrade(whole):
    contents = (
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"format": "photos"}',
        b'{"format": "diversity-harness pool", "schema": 1, "key": NaN}',
    )
    assert not wrongly_refused([(content, "manifest.json is not that of a pool") for content in contents], parse)
    assert refusal_of(parse, b'{"format": "diversity-harness pool", "schema": "1"}').endswith("no schema")
    content = whole.replace(b'"n": 16', b'"n": 17')
    assert refusal_of(parse, content).endswith("is damaged: its content does not have its hash")
    newer = changed_manifest(whole, lambda value: value.update(schema=3, harness="9.9", stages="unknown here"))
    assert refusal_of(parse, newer) == (
        "written by a newer harness (9.9, schema 3; this one reads 2): upgrade diversity-harness"
    )


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
        *((("scores",), scores, "malformed: scores") for scores in ("rm", [""], [3], ["rm", "rm"])),
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


# The card


def test_the_card_says_what_it_is_how_it_was_made_and_how_to_get_it(pushed):
    manifest = parse(pushed["manifest.json"])
    text = card(manifest, "lab/colours", "cc-by-4.0")
    front = yaml.safe_load(text.split("---")[1])
    assert front["license"] == "cc-by-4.0"
    assert "diversity-harness" in front["tags"]
    assert (front["size_categories"], front["pretty_name"]) == (["n<1K"], f"Pool {manifest.pool.key}: colours, parrot")
    assert front["configs"][0] == {
        **{"config_name": "responses", "default": True},
        "data_files": [{"split": "pool", "path": "responses/*.parquet"}],
    }
    assert [config["config_name"].split("-")[0] for config in front["configs"]] == ["responses", "vectors", "verdicts"]
    for words in (
        *("harness pool pull lab/colours", manifest.pool.key, "96 responses", "6 problems", "`responses` | 96 |"),
        *("| task.name | `colours` |", "| engine.model | `parrot` |", "| sampler.temperature | `1.0` |"),
        *("| n | `16` |", "| seed | `0` |", "The problems' texts are not here"),
    ):
        assert words in text, words
    with_prompts = card(replace(manifest, prompts="mit *\n"), "lab/colours", "unknown")
    assert "The problems' texts (`prompt`) are under a licence of their own: mit" in with_prompts


def test_settings_of_any_content_stay_in_their_cells(pushed):
    manifest = parse(pushed["manifest.json"])
    inputs = {"task": "---\nlicense: mit|`x`", "engine": {"model": "\u202e<b>"}, "n": [1, "|"]}
    stage = StageEntry(manifest.pool.kind, "key", inputs, manifest.pool.shards)
    text = card(replace(manifest, stages=[stage]), "lab/colours", "unknown")
    assert yaml.safe_load(text.split("---\n")[1])["license"] == "unknown"
    assert "| task | `--- license: mit/'x'` |" in text
    assert "\u202e" not in text
