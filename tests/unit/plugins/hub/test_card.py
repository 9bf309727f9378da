"""The card of a pool's repository: what it is, how it was made, how to get it; nothing in it ends the front matter."""

from __future__ import annotations

from dataclasses import replace

import yaml

from harness_plugins.hub.card import card
from harness_plugins.hub.manifest import StageEntry, parse


def test_the_card_says_what_it_is_how_it_was_made_and_how_to_get_it(pushed):
    manifest = parse(pushed["manifest.json"])
    text = card(manifest, "lab/colours", "cc-by-4.0")
    front = yaml.safe_load(text.split("---")[1])
    assert front["license"] == "cc-by-4.0"
    assert "diversity-harness" in front["tags"]
    assert front["size_categories"] == ["n<1K"]
    assert front["pretty_name"] == f"Pool {manifest.pool.key}: colours, parrot"
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
