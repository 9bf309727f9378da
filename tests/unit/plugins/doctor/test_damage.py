"""`harness doctor --store`: all damage is listed, what can be made again is cleared, what is costly is set aside."""

from __future__ import annotations

import json
import shutil

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import error_line
from support.stores import contents, shards_of

from harness.results import cells
from harness.running import pipeline
from harness.running.config import RunConfig
from harness.store import shards
from harness.store.json_files import write_record
from harness.system.progress import Progress


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A store with shards of most kinds."""
    store = tmp_path_factory.mktemp("sound") / "runs"
    fixed = {"task": "keyed", "engine": "toy", "plugin_files": (TOY,), "store": store, "n": 4}
    pipeline.run(RunConfig(selectors=("spread",), embedder="letters", audit=True, **fixed), Progress(quiet=True))
    return store


@pytest.fixture
def store(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def again(harness, store):
    """Run what the store holds once more."""
    options = ("--task", "keyed", "--engine", "toy", "--plugin", TOY, "--n", "4", "--embedder", "letters", "--json")
    return lambda: harness("run", "--selector", "spread", "--store", store, *options)


def test_a_sound_store_has_no_fault_and_what_is_no_store_is_refused(harness, store, tmp_path):
    outcome = harness("doctor", "--store", store)
    assert (outcome.code, outcome.out.splitlines()[-1].endswith("0 faults")) == (0, True)
    assert "is no store" in error_line(harness("doctor", "--store", tmp_path))
    assert "--repair goes with --store DIR" in error_line(harness("doctor", "--repair"))


def test_all_damage_is_listed_and_what_can_be_made_again_is(harness, again, store):
    before, kinds = contents(store), ("embedding", "verdict", "ranking")
    rows = again().rows
    for kind in kinds:
        path = shards_of(store, kind)[1]
        path.write_bytes(path.read_bytes()[:-2] + b"zz")
    listed = harness("doctor", "--store", store, "--json")
    assert listed.code == 1
    assert sorted(fault["kind"] for fault in listed.rows["faults"]) == sorted(kinds)
    assert harness("doctor", "--store", store, "--repair").code == 0
    assert harness("doctor", "--store", store).code == 0
    assert again().rows == rows
    assert contents(store) == before


def test_damaged_responses_are_set_aside_and_never_deleted(harness, again, store):
    rows, path = again().rows, shards_of(store, "pool")[2]
    damaged = path.read_bytes()[:-1]
    path.write_bytes(damaged)
    outcome = harness("doctor", "--store", store, "--repair")
    assert (outcome.code, "sets it aside; its problem is then sampled again" in outcome.out) == (0, True)
    assert path.with_name(f"{path.name}.damaged").read_bytes() == damaged
    left = [shard.stem for kind in ("embedding", "verdict", "audit", "ranking") for shard in shards_of(store, kind)]
    assert (len(left), path.stem in left) == (20, False)
    assert again().rows == rows
    assert "1 set aside" in harness("doctor", "--store", store).out


def test_an_imported_pool_is_imported_again_after_a_repair(harness, tmp_path):
    lines = [{"problem_id": str(i), "responses": ["a", "b"], "correct": [i == 0, True]} for i in range(3)]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    run = ("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs", "--json")
    rows = harness(*run).rows
    shards_of(tmp_path / "runs", "pool")[0].write_bytes(b"")
    assert "imported again" in harness("doctor", "--store", tmp_path / "runs", "--repair").out
    assert harness(*run).rows == rows


def test_a_wrong_length_is_listed_too(harness, store):
    path = shards_of(store, "embedding")[0]
    shards.write_vectors(path, shards.read_vectors(path)[:3])
    [fault] = harness("doctor", "--store", store, "--json").rows["faults"]
    assert (fault["path"], fault["fault"]) == (str(path), "holds 3 rows, and its pool 4")


def test_counts_of_the_chance_level_have_no_rows_to_compare(harness, store):
    audits = shards_of(store, "audit")[0]
    inputs = json.loads((audits.parent / "manifest.json").read_text())
    stage = cells.digest({"stage": "chance", **inputs})
    path = store / "chance" / stage / audits.name
    write_record(path, {"problem_id": "test/0", "correct": 1, "gradings": 9})
    (path.parent / "manifest.json").write_text(json.dumps(inputs))
    assert harness("doctor", "--store", store, "--json").rows["faults"] == []
