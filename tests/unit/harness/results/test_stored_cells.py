"""From a cell back to its store: the selector is asked again on what it saw, and picks what it picked."""

import numpy as np
from support.paths import TOY
from support.refusals import refusal_of
from support.stores import cell_of

from harness.columns.stored import key_of, picks, rebuilt, stored_problems
from harness.plugin_system.registry import load_registry


class Beyond:
    def rank(self, pool, rng):
        yield len(pool)


def test_of_a_larger_pool_the_first_responses_are_seen_and_centred_over_them_and_picked_as_before(toy, tmp_path):
    root, registry = tmp_path / "runs", load_registry([TOY])
    toy("--selector", "spread", "--n", "16", "--limit", "2")
    for row in toy("--selector", "spread", "--selector", "likely", "--n", "9", "--limit", "2").rows:
        cell = cell_of(root, row)
        selector, in_store = rebuilt(registry, cell), stored_problems(root, cell)
        assert list(in_store) == [entry["id"] for entry in cell["problems"]]
        for entry in cell["problems"]:
            stored = in_store[entry["id"]]
            pool = stored.pool(cell, 9)
            assert [len(pool.texts), len(pool.answers), len(pool.logprobs), len(pool.lengths)] == [9] * 4
            if row["selector"] == "spread":
                assert np.abs(pool.embeddings.mean(axis=0)).max() < 1e-6
            else:
                assert (key_of(cell, "embedding"), pool.embeddings.shape) == (None, (9, 0))
            assert stored.verdicts(cell, 9).count("correct") == entry["c"]
            assert stored.ranking(cell)["trials"] == entry["orders"]
            for trial, order in enumerate(entry["orders"]):
                whole = picks(selector, cell, pool, stored.problem, trial, most=len(pool))
                assert (whole[: len(order)], sorted(whole)) == (order, list(range(9)))
    line = refusal_of(picks, Beyond(), cell, pool, stored.problem, 0, most=1)
    assert "index 9 is outside the pool of 9" in line
