"""The published results come out again: `make test-models`, some ten minutes.

tiny24's pool is sampled anew with the options that its cell records, and gives the same outcomes. SmolLM2's responses
by vLLM come from other random streams: as many of them are correct, within three standard errors.
"""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from support.environments import environment_python
from support.json_lines import write_json_lines
from support.paths import ROOT, SHARED
from support.processes import harness_command, run_to_end

from harness.errors import Lacking
from harness.results import cells
from harness.results.published import places, read
from harness_plugins.engines.vllm.engine import VARIABLE
from harness_plugins.models import smollm2

pytestmark = [pytest.mark.slow, pytest.mark.release]


def published(**labels: str) -> tuple[str, cells.Cell]:
    """The key of the published cell with these labels, and the cell."""
    for place in places([ROOT / "results" / "pools"]):
        cell = read(place)
        if labels.items() <= cell["labels"].items():
            return place.key, cell
    raise AssertionError(f"no published cell of {labels}")


def output_of(*words: str) -> str:
    made = run_to_end(harness_command(*words), env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert made.returncode == 0, made.stderr
    return made.stdout + made.stderr


def test_tiny24s_pool_sampled_anew_gives_the_published_outcomes(tmp_path):
    key, cell = published(task="game24", model="tiny24", selector="repexp", embedder="hidden-mean")
    again = output_of("rerun", key, "--in", str(ROOT / "results"), "--store", str(tmp_path / "fresh"))
    assert f"rerun: the same cell, {cells.key_of(cell)}, with the same outcomes" in again


def test_as_many_responses_of_smollm2_are_correct_as_were_published(tmp_path):
    data = SHARED / "tasks" / "MbppPlus-v0.2.0.jsonl.gz"
    if not data.exists():
        pytest.skip("needs MBPP+'s data")
    environment_python(VARIABLE, "vllm")
    try:
        smollm2.fetched()
    except Lacking as lacking:
        pytest.skip(f"{lacking}")
    _, cell = published(task="mbppplus:answer_by=behaviour", model="smollm2-135m", selector="uniform")
    chosen = cell["problems"][::12]  # ten, whatever was found: those most often solved would be solved less often anew
    write_json_lines(tmp_path / "ten.jsonl", [{"problem_id": entry["id"]} for entry in chosen])
    study = str(ROOT / "studies" / "smollm2-mbppplus.toml")
    options = ("--data", str(data), "--only", str(tmp_path / "ten.jsonl"), "--seed", "1", "--selector", "uniform")
    output_of("run", study, *options, "--grid", "embedder=tfidf", "--yes", "--store", str(tmp_path / "store"))
    [made] = [json.loads(path.read_text()) for path in (tmp_path / "store" / "cells").glob("*.json")]
    now = {entry["id"]: entry["c"] / entry["n"] for entry in made["problems"]}
    before = {entry["id"]: entry["c"] / entry["n"] for entry in chosen}
    assert now.keys() == before.keys()
    both = np.array([(now[name] + before[name]) / 2 for name in before])
    error = np.sqrt((2 * both * (1 - both) / chosen[0]["n"]).sum()) / len(both)
    assert abs(np.mean(list(now.values())) - np.mean(list(before.values()))) <= 3 * error
