"""`likelihoods`, from the store: the toy's response i has log-probability -i/n, and three tokens."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict

import numpy as np
import pytest
from support.figure_cells import cell_of, close, refused, rows_of
from support.json_lines import write_json_lines
from support.paths import TOY

from harness.store import shards
from harness_plugins.figures import likelihoods


def check_histogram(rows, indices, n=16):
    values = [-index / n / 3 for index in indices]
    assert sum(row["count"] for row in rows) == len(values) == rows[0]["responses"]
    assert rows[0]["mean"] == close(statistics.fmean(values))
    assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-4)
    for row in rows[1:-1]:
        inside = sum(row["from"] + 1e-6 <= value < row["to"] - 1e-6 for value in values)
        near = sum(abs(value - edge) < 1e-6 for value in values for edge in (row["from"], row["to"]))
        assert inside <= row["count"] <= inside + near


@pytest.mark.parametrize("selector", ["likely", "spread"])
def test_all_responses_first_picks_beyond_the_first_correct_and_correct_ones_are_counted(figure_store, cells, selector):
    labels = {"model": "parrot", "sampler": "vanilla"} | ({"embedder": "letters"} if selector == "spread" else {})
    inputs = cell_of(cells, selector=selector, **labels)["inputs"]
    folders = {kind: figure_store / kind / key["key"] for kind, key in inputs.items() if kind in ("pool", "verdict")}
    correct, first, notes, groups = [], [], [], defaultdict(list)
    for path in sorted(folders["pool"].glob("*.parquet")):
        verdicts = shards.read_verdicts(folders["verdict"] / path.name)
        correct += [i for i, verdict in enumerate(verdicts) if verdict == "correct"]
        first += [0, 1, 2] * 5
    if selector == "spread":
        first = []
        for path in sorted((figure_store / "embedding" / inputs["embedding"]["key"]).glob("*.safetensors")):
            h = shards.load_tensors(path.read_bytes())["vectors"].astype(float)
            first += np.argsort(-((h - h.mean(axis=0)) ** 2).sum(axis=1), kind="stable")[:3].tolist() * 5
    options = {"selector": selector, "k": 3, "store": figure_store, "say": notes.append}
    for row in rows_of("likelihoods", cells, **options, **labels):
        groups[row["group"]].append(row)
    assert list(groups) == ["all responses", "first 3 picks", "correct responses"]
    for rows, indices in zip(groups.values(), ([*range(16)] * 23, first, correct), strict=True):
        check_histogram(rows, indices)
    assert correct
    assert notes == []


def test_without_k_an_eighth_of_the_pool_is_picked_and_every_trial_from_its_own_stream(runs, tmp_path):
    folder, notes = runs("--selector", "shuffle", "--n", "17"), []
    rows = rows_of("likelihoods", folder, selector="shuffle", store=tmp_path / "runs", say=notes.append)
    assert {row["k"] for row in rows} == {3}
    assert notes == []  # the picks are those that the cell holds


def test_the_first_bin_takes_in_the_long_tail_and_equal_values_have_a_bin():
    values = np.concatenate([np.linspace(-1.0, -0.1, 999), [-50.0]])
    edges = likelihoods._edges(values)
    counts = likelihoods._counts(values, edges)
    assert -1.0 < edges[0] < -0.98
    assert edges[-1] == -0.1
    assert counts.sum() == 1000
    assert counts[0] == (values < edges[1]).sum() > (values < edges[0]).sum() == 5
    assert likelihoods._edges(np.full(4, -2.0))[[0, -1]].tolist() == [-2.0, -1.0]


def test_what_the_store_lacks_or_holds_otherwise_is_said(runs, tmp_path):
    folder, root = runs("--selector", "spread", "--selector", "head"), tmp_path / "runs"
    options = {"store": root}
    assert refused("likelihoods", folder, k=17, **options).startswith("-k 17: the smallest pool of cell")
    line = refused("likelihoods", folder, selector="head", **options)
    assert line == "selector 'head' chooses sets, not an order: it has no first picks"
    elsewhere = refused("likelihoods", folder, store=tmp_path / "else")
    assert elsewhere.startswith(f"store {tmp_path}/else does not hold the pool of cell")
    for path in (root / "embedding").rglob("*.safetensors"):
        shards.write_vectors(path, shards.read_vectors(path)[::-1])
    notes = []
    rows_of("likelihoods", folder, say=notes.append, **options)
    what = r"cell \w+: on \d problems this machine's picks differ from the cell's; its own are drawn"
    assert re.fullmatch(what, notes[0])
    next((root / "pool").rglob("*.parquet")).unlink()
    assert "holds 5 of the 6 problems of cell" in refused("likelihoods", folder, **options)


OWN = """
from harness import hookimpl
class Own:
    needs = ()
    def rank(self, pool, rng):
        yield from {}
@hookimpl
def register_selectors(register):
    register('own', Own)
"""


def test_only_the_selector_that_made_the_cell_is_run_again_and_must_rank_far_enough(toy, tmp_path):
    own, folder = tmp_path / "own.py", tmp_path / "runs" / "cells"
    options = {"store": tmp_path / "runs", "plugin_files": (own, TOY), "selector": "own"}
    own.write_text(OWN.format("range(len(pool) - 1)"))
    assert toy("--selector", "own", "--plugin", own, "--limit", "1").code == 0
    line = refused("likelihoods", folder, k=16, **options)
    assert line.startswith("selector 'own', problem 'test/0': ")
    assert "the ranking ended after 15 of 16 responses" in line
    own.write_text(OWN.format("reversed(range(len(pool)))"))
    line = refused("likelihoods", folder, **options)
    assert line.startswith("selector 'own' is not the version that made cell ")


def test_a_pool_without_log_probabilities_has_no_likelihoods(harness, tmp_path):
    root = tmp_path / "runs"
    lines = [{"problem_id": f"p{i}", "responses": ["a", "b"], "correct": [True, False]} for i in range(3)]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    assert harness("run", "--pool", pool, "--selector", "uniform", "--store", root).code == 0
    line = refused("likelihoods", root / "cells", selector="uniform", store=root)
    assert line.endswith("carries no token counts: sample one with `harness run`")
