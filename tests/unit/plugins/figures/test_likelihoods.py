"""`likelihoods`, from the store: the toy's response i has log-probability -i/n, and three tokens."""

import re
import statistics
from collections import defaultdict

import numpy as np
import pytest
from support.figure_cells import cell_of, close, refused, rows_of
from support.json_lines import write_json_lines
from support.paths import TOY
from support.stores import files_of

from harness.columns.store import filed, read, stem_of
from harness.system.files import write_parts
from harness_plugins.figures.frame import bins


def check_histogram(rows, indices, n=16):
    values = [-index / n / 3 for index in indices]
    assert sum(row["count"] for row in rows) == len(values) == rows[0]["responses"]
    assert rows[0]["mean"] == close(statistics.fmean(values))
    assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-4)
    for row in rows[1:-1]:
        inside = sum(row["from"] + 1e-6 <= value < row["to"] - 1e-6 for value in values)
        near = sum(abs(value - edge) < 1e-6 for value in values for edge in (row["from"], row["to"]))
        assert inside <= row["count"] <= inside + near


def test_all_responses_first_picks_beyond_the_first_correct_and_correct_ones_are_counted(figure_store, cells):
    labels, correct, groups = {"model": "parrot", "sampler": "vanilla", "selector": "likely"}, [], defaultdict(list)
    pool = cell_of(cells, **labels)["inputs"]["pool"]["key"]
    for path in files_of(figure_store, "verdicts"):
        if pool in str(path):
            correct += [i for i, status in enumerate(read(path)["status"].to_pylist()) if status == "correct"]
    for row in rows_of("likelihoods", cells, k=3, store=figure_store, **labels):
        groups[row["group"]].append(row)
    assert list(groups) == ["all responses", "first 3 picks", "correct responses"]
    for rows, indices in zip(groups.values(), ([*range(16)] * 23, [0, 1, 2] * 5 * 23, correct), strict=True):
        check_histogram(rows, indices)
    assert correct


def test_without_k_an_eighth_of_the_pool_is_picked_as_the_cell_says_and_every_trial_from_its_own_stream(
    figure_store, cells
):
    labels = {"model": "parrot", "sampler": "vanilla", "embedder": "letters", "store": figure_store}
    for selector in ("shuffle", "spread"):
        notes = []
        rows = rows_of("likelihoods", cells, selector=selector, say=notes.append, **labels)
        assert {row["k"] for row in rows} == {2}
        assert notes == []  # the picks are those that the cell holds


def test_the_first_bin_takes_in_the_long_tail_and_equal_values_have_a_bin():
    values = np.concatenate([np.linspace(-1.0, -0.1, 999), [-50.0]])
    rows = bins(values, {"all": values})["all"]
    assert -1.0 < rows[0]["from"] < -0.98
    assert rows[-1]["to"] == -0.1
    assert sum(row["count"] for row in rows) == 1000
    assert rows[0]["count"] == (values < rows[0]["to"]).sum() > (values < rows[0]["from"]).sum() == 5
    rows = bins([-2.0] * 4, {"all": [-2.0] * 4, "none": []})
    assert (rows["all"][0]["from"], rows["all"][-1]["to"], rows["none"]) == (-2.0, -1.0, [])


@pytest.mark.slow
def test_what_the_store_lacks_or_holds_otherwise_is_said(toy, harness, tmp_path):
    toy("--selector", "spread", "--selector", "head")
    root = tmp_path / "runs"
    folder = root / "cells"
    options = {"store": root}
    assert refused("likelihoods", folder, k=17, **options).startswith("-k 17: the smallest pool of cell")
    line = refused("likelihoods", folder, selector="head", **options)
    assert line == "selector 'head' chooses sets, not an order: it has no first picks; `harness plot passk` draws it"
    elsewhere = refused("likelihoods", folder, store=tmp_path / "else")
    assert elsewhere.startswith(f"store {tmp_path}/else holds 0 of the 6 problems of cell")
    for path in files_of(root, "vectors"):
        turned, content = filed(path.parent, stem_of(path), read(path)[::-1].copy())
        path.unlink()
        write_parts(turned, content)
    notes = []
    rows_of("likelihoods", folder, say=notes.append, **options)
    what = r"cell \w+: on \d problems this machine's picks differ from the cell's; its own are drawn"
    assert re.fullmatch(what, notes[0])
    files_of(root, "responses")[0].unlink()
    assert "holds 5 of the 6 problems of cell" in refused("likelihoods", folder, **options)
    pool = write_json_lines(tmp_path / "pool.jsonl", [{"problem_id": "p", "responses": ["a"], "correct": [True]}])
    harness("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "given")
    line = refused("likelihoods", tmp_path / "given" / "cells", selector="uniform", store=tmp_path / "given")
    assert line.endswith("carries no token counts: sample one with `harness run`")


def test_only_the_selector_that_made_the_cell_is_run_again_and_must_rank_far_enough(harness, tmp_path):
    edited, root = tmp_path / "toy.py", tmp_path / "runs"
    edited.write_text(TOY.read_text().replace('logprobs, kind="stable")', 'logprobs, kind="stable")[:15]'))
    run = ("run", "--task", "colours", "--engine", "toy", "--selector", "likely", "--limit", "1", "--plugin", edited)
    assert harness(*run, "--store", root).code == 0
    options = {"store": root, "selector": "likely", "k": 16}
    line = refused("likelihoods", root / "cells", plugin_files=(edited,), **options)
    assert line.startswith("selector 'likely', problem 'test/0': ")
    assert "the ranking ended after 15 of 16 responses" in line
    line = refused("likelihoods", root / "cells", **options)
    assert line.startswith("selector 'likely' is not the version that made cell ")
