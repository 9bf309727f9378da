"""`harness doctor --store`: all damage is listed, what can be made again is cleared, what is costly is set
aside; `--rekey` (`rekeying`): what an older version wrote is checked, and adopted as the bytes of a new one.
"""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import error_line
from support.stores import contents, shards_of, unseal

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
    audits = shards_of(store, "audit")[0]
    inputs = json.loads((audits.parent / "manifest.json").read_text())
    counts = store / "chance" / cells.digest({"stage": "chance", **inputs}) / audits.name  # no rows to compare
    write_record(counts, {"problem_id": "test/0", "correct": 1, "gradings": 9})
    (counts.parent / "manifest.json").write_text(json.dumps(inputs))
    outcome = harness("doctor", "--store", store)
    assert (outcome.code, outcome.out.splitlines()[-1].endswith("0 faults")) == (0, True)
    assert "is no store" in error_line(harness("doctor", "--store", tmp_path))
    assert "--repair goes with --store DIR" in error_line(harness("doctor", "--repair"))


def test_all_damage_is_listed_and_what_can_be_made_again_is_deleted_and_the_rest_set_aside(harness, again, store):
    rows, kinds = again().rows, ("embedding", "verdict", "ranking")
    before = contents(store)
    faulty = [shards_of(store, kind)[1] for kind in kinds]
    costly = [next(store.glob("cells/*.json")), next(store.glob("verdict/*/manifest.json"))]
    for path in (*faulty, *costly):
        path.write_bytes(path.read_bytes()[:-2] + b"zz")
    listed = harness("doctor", "--store", store, "--json")
    assert listed.code == 1
    assert {fault["path"]: fault["cure"] for fault in listed.rows["faults"] if fault["left"]} == {
        **{str(path): "--repair deletes it; the next run makes it again" for path in faulty},
        **{str(path): "--repair sets it aside" for path in costly},
    }
    repaired = harness("doctor", "--store", store, "--repair")
    *lines, last = repaired.out.splitlines()
    assert repaired.code == 0
    assert len([line for line in lines if "done (--repair deletes it; the next run makes it again)" in line]) == 3
    assert last.endswith(": 0 faults, 2 set aside as NAME.damaged")
    for path in costly:
        path.with_name(f"{path.name}.damaged").unlink()
    assert harness("doctor", "--store", store).code == 0
    assert again().rows == rows
    assert contents(store) == before


def test_damaged_responses_are_set_aside_and_never_deleted_or_overwritten(harness, again, store):
    rows, path = again().rows, shards_of(store, "pool")[2]
    whole = path.read_bytes()
    for damaged, name in ((b"first", ".damaged"), (whole[:-1], ".damaged1")):
        path.write_bytes(damaged)
        outcome = harness("doctor", "--store", store, "--repair")
        assert (outcome.code, "sets it aside; its problem is then sampled again" in outcome.out) == (0, True)
        assert path.with_name(f"{path.name}{name}").read_bytes() == damaged
    assert path.with_name(f"{path.name}.damaged").read_bytes() == b"first"
    left = [shard.stem for kind in ("embedding", "verdict", "audit", "ranking") for shard in shards_of(store, kind)]
    assert (len(left), path.stem in left) == (20, False)
    assert again().rows == rows
    assert "2 set aside" in harness("doctor", "--store", store).out


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


@pytest.mark.slow
def test_an_older_store_is_refused_by_name_and_adopted_as_the_bytes_of_a_new_one(harness, tmp_path):
    root = tmp_path / "runs"
    fixed = ("run", "--plugin", TOY, "--engine", "toy", "--store", root, "--json", "--limit", "3")
    runs = [
        (*fixed, "--task", "keyed", "--selector", "spread", "--selector", "head", "--audit"),
        (*fixed, "--task", "measured", "--selector", "shuffle"),
        (*fixed, "--task", "colours", "--until-correct"),
    ]
    rows = [harness(*run).rows for run in runs]
    whole = contents(root)
    unseal(root)
    assert contents(root) != whole
    refused = harness(*runs[0])
    assert refused.code == 2
    assert "has no checksum" in refused.err
    assert f"doctor --store {root} --rekey" in refused.err
    adopted = harness("doctor", "--store", root, "--rekey", "--json")
    assert (adopted.code, adopted.rows["faults"]) == (0, [])
    assert {name: content for name, content in contents(root).items() if not name.endswith("older.json")} == whole
    assert [harness(*run).rows for run in runs] == rows


def test_what_is_damaged_in_an_older_store_is_not_adopted(toy, harness, tmp_path):
    root = tmp_path / "runs"
    toy("--selector", "spread")
    unseal(root)
    pool, vectors, ranking = (shards_of(root, kind) for kind in ("pool", "embedding", "ranking"))
    pool[0].write_bytes(pool[1].read_bytes())
    vectors[2].write_bytes(save({"vectors": np.full((16, 8), np.nan, np.float32)}))
    ranking[3].write_text('{"kind":"order","n":16,"trials":[[1,1]]}\n')
    outcome = harness("doctor", "--store", root, "--rekey", "--json")
    assert outcome.code == 1
    assert [fault["path"] for fault in outcome.rows["faults"]] == [str(pool[0]), str(vectors[2]), str(ranking[3])]
