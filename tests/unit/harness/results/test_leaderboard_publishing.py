"""Publishing: cells are copied with what the kit says of their selectors; what cannot be published leaves nothing."""

import json

import pytest
from support.cells import cell, entry, failed_cell, keep
from support.paths import TOY
from support.refusals import refusal_of

from harness import testing
from harness.plugin_system.component import build, described
from harness.plugin_system.registry import load_registry
from harness.results.leaderboard import publish, validate
from harness.results.published import places, read

PROBLEMS = [entry("p0", [1, 3]), entry("p1", [2, 2])]


@pytest.fixture(scope="module")
def toy_registry():
    return load_registry((TOY,))


@pytest.fixture
def quick_kit(monkeypatch):
    """A conformance kit of one check, which passes."""
    monkeypatch.setattr(testing, "findings", lambda kind, selector: [{"outcome": "passed", "what": ""}])


@pytest.fixture
def built_by(toy_registry):
    """A cell of a toy selector as it is installed."""

    def call(name, **options):
        selector = described(toy_registry.find("selector", name), build(toy_registry, "selector", name))
        return cell(PROBLEMS, name, inputs={"ranking": {"selector": selector}}, **options)

    return call


def test_cells_are_copied_with_what_the_kit_says_of_their_selectors(built_by, tmp_path):
    several = [
        built_by("shuffle") | {"from": "0f3a"},
        built_by("twice"),
        cell(PROBLEMS, "shuffle"),
        failed_cell("short", "it ended"),
    ]
    paths = keep(tmp_path / "cells", *several, built_by("shuffle", seed=1))
    rows = publish([], tmp_path, tmp_path / "results", [TOY])
    file = tmp_path / "results" / "colours.parquet"
    assert [row["file"] for row in rows] == [str(file)] * 4
    kept = {place.key: read(place) for place in places([tmp_path / "results"])}
    assert sorted(kept) == sorted(path.stem for path in (*paths[:3], paths[4]))
    shown = {row["cell"]: row["conformance"] for row in rows}
    first, broken, older = (shown[path.stem] for path in paths[:3])
    assert first.startswith("passes ")
    assert broken.startswith("fails ")
    assert older == "not tried: another version of it is installed here"
    assert len(json.loads((tmp_path / "results" / "conformance.json").read_text())) == 2
    assert validate([tmp_path / "results"]) == []
    assert '"from"' in paths[0].read_text()
    assert "from" not in kept[paths[0].stem]
    assert shown[paths[4].stem] == first


def test_cells_are_named_by_the_beginning_of_their_keys_and_there_must_be_some(tmp_path):
    line = refusal_of(publish, [], tmp_path, tmp_path / "results", [])
    assert line == f"results publish: {tmp_path} holds no cells: `harness run` makes them"
    assert validate([tmp_path]) == [f"results {tmp_path}: holds no cells; `harness results publish` copies them there"]
    paths = keep(tmp_path / "cells", cell(PROBLEMS), cell(PROBLEMS, "shuffle"), failed_cell("twice", "it broke"))
    rows = publish([paths[1].stem[:8]], tmp_path, tmp_path / "results", [])
    assert [row["cell"] for row in rows] == [paths[1].stem]
    for key, fault in (
        ("zzz", f"no cell 'zzz' in {tmp_path} (3 are there)"),
        (paths[2].stem, "failed (it broke)"),
    ):
        assert fault in refusal_of(publish, [key], tmp_path, tmp_path / "results", [])


def test_a_publish_that_meets_a_bad_cell_leaves_nothing_and_no_task_publishes_outside_of_the_folder(tmp_path):
    paths = keep(tmp_path / "cells", cell(PROBLEMS), cell(PROBLEMS, "shuffle"))
    max(paths).write_text(max(paths).read_text().replace('"errors":0', '"errors":1', 1))
    assert "was edited or cut" in refusal_of(publish, [], tmp_path, tmp_path / "results", [])
    assert not (tmp_path / "results").exists()
    untrained = cell(PROBLEMS) | {"weights": [{"is_random": True}]}
    keep(tmp_path / "other" / "cells", untrained)
    line = refusal_of(publish, [], tmp_path / "other", tmp_path / "results", [])
    assert "was made with random weights: it is a test, no result" in line
    keep(tmp_path / "hostile" / "cells", cell(PROBLEMS, task="../../gone/x"))
    [row] = publish([], tmp_path / "hostile", tmp_path / "results", [])
    assert row["file"] == str(tmp_path / "results" / ".._.._gone_x.parquet")
