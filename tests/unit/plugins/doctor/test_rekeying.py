"""`harness doctor --rekey`: what an older version wrote is checked, and adopted as the bytes of a new one."""

from __future__ import annotations

import numpy as np
from safetensors.numpy import save
from support.paths import TOY
from support.stores import contents, shards_of, unseal


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
