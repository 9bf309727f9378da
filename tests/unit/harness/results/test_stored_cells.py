"""From a cell back to its store: the selector is asked again on what it saw, and picks what it picked."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from support.paths import TOY
from support.report_page import pool_file
from support.stores import cell_of

from harness import HarnessError
from harness.plugin_system.registry import load_registry
from harness.results.stored_cells import key_of, picks, rebuilt, stored_problems


def check_picks(root, cell, registry):
    """Every trial of every problem goes on from the stored order to the end of the pool."""
    selector, in_store = rebuilt(registry, cell), stored_problems(root, cell)
    assert list(in_store) == [entry["id"] for entry in cell["problems"]]
    for entry in cell["problems"]:
        stored = in_store[entry["id"]]
        pool = stored.pool(cell, entry["n"])
        assert stored.verdicts(cell, entry["n"]).count("correct") == entry["c"]
        assert stored.ranking(cell)["trials"] == entry["orders"]
        for trial, order in enumerate(entry["orders"]):
            whole = picks(selector, cell, pool, stored.problem, trial, most=len(pool))
            assert whole[: len(order)] == order
            assert sorted(whole) == list(range(entry["n"]))
            assert picks(selector, cell, pool, stored.problem, trial, most=2) == whole[:2]


def test_every_trial_goes_on_from_its_stored_order(toy, tmp_path):
    selectors = ("--selector", "spread", "--selector", "shuffle", "--selector", "likely", "--selector", "dedup")
    for row in toy(*selectors, "--seed", "3", "--limit", "3").rows:
        check_picks(tmp_path / "runs", cell_of(tmp_path / "runs", row), load_registry([TOY]))


def test_of_a_larger_pool_the_first_responses_are_seen_and_centred_over_them(toy, tmp_path):
    toy("--selector", "spread", "--n", "16")
    cell = cell_of(tmp_path / "runs", toy("--selector", "spread", "--n", "9").rows[0])
    check_picks(tmp_path / "runs", cell, load_registry([TOY]))
    for stored in stored_problems(tmp_path / "runs", cell).values():
        pool = stored.pool(cell, 9)
        assert [len(pool.texts), len(pool.answers), len(pool.logprobs), len(pool.lengths)] == [9] * 4
        assert np.abs(pool.embeddings.mean(axis=0)).max() < 1e-6 < np.abs(stored.vectors(cell, 9).mean(axis=0)).max()
        assert pool.answers == tuple(text.split()[-1] for text in pool.texts)


def test_a_problem_whose_id_no_file_can_hold_is_found_under_its_own_id(harness, tmp_path):
    pool = pool_file(tmp_path / "pool.jsonl", {"half a pair \ufffd": [("x", True)], "plain": [("y", True)]})
    outcome = harness("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs", "--json")
    cell = cell_of(tmp_path / "runs", outcome.rows[0])
    cell["problems"][0]["id"] = "half a pair \ud83d"
    in_store = stored_problems(tmp_path / "runs", cell)
    assert [(name, stored.problem.id) for name, stored in in_store.items()] == [
        ("half a pair \ud83d", "half a pair \ud83d"),
        ("plain", "plain"),
    ]
    assert [stored.responses(cell).texts for stored in in_store.values()] == [["x"], ["y"]]


def test_what_the_store_lost_is_told(toy, tmp_path):
    root, cell = tmp_path / "runs", cell_of(tmp_path / "runs", toy("--selector", "spread").rows[0])
    in_store = stored_problems(root, cell)
    assert all(stored.has(cell, kind) for stored in in_store.values() for kind in cell["inputs"])
    (root / "ranking" / key_of(cell, "ranking") / f"{in_store['test/2'].name}.json").unlink()
    assert [name for name, stored in in_store.items() if not stored.has(cell, "ranking")] == ["test/2"]
    (root / "pool" / key_of(cell, "pool") / f"{in_store['test/4'].name}.parquet").unlink()
    assert set(in_store) - set(stored_problems(root, cell)) == {"test/4"}
    assert stored_problems(tmp_path / "elsewhere", cell) == {}


def test_another_version_of_a_selector_is_not_the_one_that_made_the_cell(harness, tmp_path):
    plugin = tmp_path / "plugin.py"
    shutil.copy(TOY, plugin)
    fixed = ("--task", "colours", "--engine", "toy", "--plugin", plugin, "--store", tmp_path / "runs", "--json")
    cell = cell_of(tmp_path / "runs", harness("run", *fixed, "--selector", "shuffle:offset=2").rows[0])
    assert rebuilt(load_registry([plugin]), cell).offset == 2
    plugin.write_text(plugin.read_text() + "\n# edited\n")
    assert rebuilt(load_registry([plugin]), cell).offset == 2
    plugin.write_text(plugin.read_text() + "\nEDITED = True\n")
    assert rebuilt(load_registry([plugin]), cell) is None
    with pytest.raises(HarnessError, match="unknown selector 'shuffle'"):
        rebuilt(load_registry(), cell)


def test_a_selector_that_reads_no_vectors_is_given_none_and_a_pick_outside_the_pool_is_refused(toy, tmp_path):
    class Beyond:
        def rank(self, pool, rng):
            yield len(pool)

    cell = cell_of(tmp_path / "runs", toy("--selector", "shuffle").rows[0])
    stored = stored_problems(tmp_path / "runs", cell)["test/0"]
    assert key_of(cell, "embedding") is None
    assert stored.pool(cell, 16).embeddings.shape == (16, 0)
    assert stored.problem.prompt == "Say colour 0 (test)."
    with pytest.raises(HarnessError, match="index 16 is outside the pool of 16"):
        picks(Beyond(), cell, stored.pool(cell, 16), stored.problem, 0, most=1)
