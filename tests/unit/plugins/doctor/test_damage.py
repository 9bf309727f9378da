"""`harness doctor --store`: all damage is listed, with what to do; a run then makes again what is gone."""

import json
import shutil

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import error_line
from support.stores import contents, files_of

from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.results import cells
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
    audits = files_of(store, "audit")[0]
    inputs = json.loads((audits.parent / "manifest.json").read_text())
    counts = store / "chance" / cells.digest({"stage": "chance", **inputs}) / audits.name  # no rows to compare
    write_record(counts, {"problem_id": "test/0", "correct": 1, "gradings": 9})
    (counts.parent / "manifest.json").write_text(json.dumps(inputs))
    outcome = harness("doctor", "--store", store)
    assert (outcome.code, outcome.out.splitlines()[-1].endswith("0 faults")) == (0, True)
    assert "is no store" in error_line(harness("doctor", "--store", tmp_path))


def test_all_damage_is_listed_with_what_to_do_and_a_run_then_makes_the_same_again(harness, again, store):
    rows, kinds = again().rows, ("embedding", "verdict", "ranking")
    before = contents(store)
    faulty = [files_of(store, kind)[1] for kind in kinds]
    costly = [next(store.glob("cells/*.json")), next(store.glob("verdict/*/manifest.json"))]
    pool = files_of(store, "pool")[2]
    for path in (*faulty, *costly, pool):
        path.write_bytes(path.read_bytes()[:-2] + b"zz")
    listed = harness("doctor", "--store", store, "--json")
    assert listed.code == 1
    assert {fault["path"]: fault["cure"] for fault in listed.rows["faults"]} == {
        **{str(path): "delete it; the next run makes it again" for path in faulty},
        **{str(path): "move it away" for path in costly},
        str(pool): "move it away; its problem is then sampled again",
    }
    pool.write_bytes(before[str(pool.relative_to(store))])
    for path in (*faulty, *costly):
        path.unlink()
    assert harness("doctor", "--store", store).code == 0
    assert again().rows == rows
    assert contents(store) == before


def test_an_imported_pool_is_imported_again_once_its_index_is_gone_too(harness, tmp_path):
    lines = [{"problem_id": str(i), "responses": ["a", "b"], "correct": [i == 0, True]} for i in range(3)]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    run = ("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs", "--json")
    rows, shard = harness(*run).rows, files_of(tmp_path / "runs", "pool")[0]
    shard.write_bytes(b"")
    line = f"move it away, and {shard.parent / 'index.json'} too; the pool's file is then imported again"
    assert line in harness("doctor", "--store", tmp_path / "runs").out
    shard.unlink()
    (shard.parent / "index.json").unlink()
    assert harness(*run).rows == rows


def test_a_wrong_length_is_listed_too(harness, store):
    path = files_of(store, "embedding")[0]
    shards.write_vectors(path, shards.read_vectors(path)[:3])
    [fault] = harness("doctor", "--store", store, "--json").rows["faults"]
    assert (fault["path"], fault["fault"]) == (str(path), "holds 3 rows, and its pool 4")
