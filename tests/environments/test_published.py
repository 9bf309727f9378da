"""The published results come out again: `make test-models`, some ten minutes.

tiny24's pool is sampled anew with the options that its cell records, and gives the same outcomes. SmolLM2's responses
by vLLM come from other random streams: as many of them are correct, within three standard errors.
"""

import json
import os

import numpy as np
import pytest
from support.environments import environment_python
from support.json_lines import write_json_lines
from support.paths import ROOT
from support.processes import harness_command, run_to_end

from harness.errors import Lacking
from harness.results import cells
from harness.results.published import places, read
from harness_plugins.engines.vllm.engine import VARIABLE
from harness_plugins.models import smollm2

pytestmark = [pytest.mark.slow, pytest.mark.release]


def published(**labels):
    """The key of the published cell with these labels, and the cell."""
    found = ((place.key, read(place)) for place in places([ROOT / "results" / "pools"]))
    return next((key, cell) for key, cell in found if labels.items() <= cell["labels"].items())


def output_of(*words):
    made = run_to_end(harness_command(*words), env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert made.returncode == 0, made.stderr
    return made.stdout + made.stderr


def test_tiny24s_pool_sampled_anew_gives_the_published_outcomes(tmp_path):
    key, cell = published(task="game24", model="tiny24", selector="repexp", embedder="hidden-mean")
    again = output_of("rerun", key, "--in", ROOT / "results", "--store", tmp_path / "fresh")
    assert f"rerun: the same cell, {cells.key_of(cell)}, with the same outcomes" in again


def test_as_many_responses_of_smollm2_are_correct_as_were_published(shared_data, tmp_path):
    environment_python(VARIABLE, "vllm")
    try:
        smollm2.fetched()
    except Lacking as lacking:
        pytest.skip(f"{lacking}")
    _, cell = published(task="mbppplus:answer_by=behaviour", model="smollm2-135m", selector="uniform")
    chosen = cell["problems"][::12]  # ten, whatever was found: those most often solved would be solved less often anew
    only = write_json_lines(tmp_path / "ten.jsonl", [{"problem_id": entry["id"]} for entry in chosen])
    data, store = shared_data / "tasks" / "MbppPlus-v0.2.0.jsonl.gz", tmp_path / "store"
    options = ("--data", data, "--only", only, "--store", store, "--seed", 1, "--selector", "uniform", "--yes")
    output_of("run", ROOT / "studies" / "smollm2-mbppplus.toml", *options, "--grid", "embedder=tfidf")
    [made] = [json.loads(path.read_text()) for path in (store / "cells").glob("*.json")]
    now, before = ({entry["id"]: entry["c"] / entry["n"] for entry in each} for each in (made["problems"], chosen))
    assert now.keys() == before.keys()
    both = np.array([(now[name] + before[name]) / 2 for name in before])
    error = np.sqrt((2 * both * (1 - both) / chosen[0]["n"]).sum()) / len(both)
    assert abs(np.mean(list(now.values())) - np.mean(list(before.values()))) <= 3 * error
