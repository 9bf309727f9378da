"""From a cell back to its store: the selector is asked again on what it saw, and picks what it picked."""

import numpy as np
import pytest
from support.paths import TOY
from support.report_page import pool_file
from support.stores import cell_of

from harness import HarnessError
from harness.columns.stored import key_of, picks, rebuilt, stored_problems
from harness.plugin_system.registry import load_registry


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


@pytest.mark.slow
def test_of_a_larger_pool_the_first_responses_are_seen_and_centred_over_them(toy, tmp_path):
    toy("--selector", "spread", "--n", "16", "--limit", "3")
    selectors = ("--selector", "spread", "--selector", "shuffle", "--selector", "likely")
    rows = toy(*selectors, "--seed", "0", "--n", "9", "--limit", "3").rows
    for row in rows:
        check_picks(tmp_path / "runs", cell_of(tmp_path / "runs", row), load_registry([TOY]))
    cell = cell_of(tmp_path / "runs", rows[0])
    for stored in stored_problems(tmp_path / "runs", cell).values():
        pool = stored.pool(cell, 9)
        assert [len(pool.texts), len(pool.answers), len(pool.logprobs), len(pool.lengths)] == [9] * 4
        assert np.abs(pool.embeddings.mean(axis=0)).max() < 1e-6
        assert pool.answers == tuple(text.split()[-1] for text in pool.texts)


def test_a_problem_whose_id_no_file_can_hold_is_found_under_its_own_id(harness, tmp_path):
    pool = pool_file(tmp_path / "pool.jsonl", {"half a pair \ufffd": [("x", True)], "plain": [("y", True)]})
    outcome = harness("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs", "--json")
    cell = cell_of(tmp_path / "runs", outcome.rows[0])
    cell["problems"][0]["id"] = "half a pair \ud83d"
    in_store = stored_problems(tmp_path / "runs", cell)
    assert [(name, stored.problem.id) for name, stored in in_store.items()] == [
        ("half a pair \ud83d", "half a pair \ufffd"),
        ("plain", "plain"),
    ]
    assert [stored.responses(cell).texts for stored in in_store.values()] == [["x"], ["y"]]


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
