"""The main job on real language models: the embedded one, and any causal LM's folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support.processes import harness_command, kill_when
from support.stores import contents
from support.tiny_checkpoints import save_checkpoint

from harness.store import shards as store

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

pytestmark = pytest.mark.usefixtures("one_thread")


def run_options(store: Path, *options: object) -> list[str]:
    fixed = ("run", "--task", "game24", "--store", store, "--selector", "repexp", "--selector", "uniform", "--json")
    return [str(part) for part in (*fixed, *options)]


def test_game24_and_a_given_pool_run_on_any_causal_lm_folder(harness, tmp_path):
    model = save_checkpoint(tmp_path / "my-model", "qwen2-long")
    options = ("--model", model, "--n", "6", "--limit", "3", "--max-tokens", "12")
    outcome = harness(*run_options(tmp_path / "runs", *options))
    assert outcome.code == 0, outcome.err
    for row in outcome.rows:
        assert (row["model"], row["split"], row["n"], row["problems"]) == ("my-model", "test", 6, 3)
        assert row["samples_to_correct_random"] is not None
    again = harness(*run_options(tmp_path / "runs", *options, "--embedder", "hidden-last"))
    assert again.code == 0
    assert "pool: reused for 3 of 3" in again.err
    assert "embed: 3 problems" in again.err
    pool = tmp_path / "pool.jsonl"
    pool.write_text('{"problem_id": "4-5-6-10", "responses": ["Answer: (10 - 6) * 5 + 4", "no", "", "Answer: 24"]}\n')
    options = ("--pool", pool, "--model", model, "--embedder", "hidden-mean")
    outcome = harness(*run_options(tmp_path / "runs", *options))
    assert outcome.code == 0, outcome.err
    assert outcome.rows[0]["embedder"] == "hidden-mean"
    assert outcome.rows[0]["samples_to_correct_random"] == 2.5


def test_the_embedded_model_is_tested_on_its_held_out_puzzles_and_says_so(harness, tmp_path):
    outcome = harness(*run_options(tmp_path / "runs", "--n", "32", "--limit", "3"))
    assert outcome.code == 0, outcome.err
    assert "puzzles held out from its training" in outcome.err
    row = outcome.rows[0]
    assert (row["model"], row["split"]) == ("tiny24", "heldout")
    assert row["solvable"] >= 1
    dry = harness(*run_options(tmp_path / "runs", "--dry-run")).rows
    assert dry[0]["to_make"] + dry[0]["there"] > 200


def assert_same_but_for_last_bits(folder: Path, other: Path) -> None:
    """The same files with the same tokens, verdicts and orders; vectors and log-probabilities up to float noise."""
    assert contents(folder).keys() == contents(other).keys()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        twin = other / path.relative_to(folder)
        if path.parts[-3] == "pool" and path.suffix == ".parquet":
            first, second = store.read_responses(path), store.read_responses(twin)
            assert (first.texts, first.token_ids, first.finish) == (second.texts, second.token_ids, second.finish)
            np.testing.assert_allclose(first.logprobs, second.logprobs, atol=1e-4)
        elif path.suffix == ".safetensors":
            np.testing.assert_allclose(store.read_vectors(path), store.read_vectors(twin), atol=1e-4)
        else:
            assert path.read_bytes() == twin.read_bytes()


@pytest.mark.slow
def test_a_run_of_the_embedded_model_killed_midway_gives_the_tokens_of_an_unkilled_one(harness, tmp_path):
    def options(store: str) -> list[str]:
        return run_options(tmp_path / store, "--n", "24", "--limit", "8", "--engine", "transformers:batch=48")

    whole = harness(*options("whole"))
    assert whole.code == 0, whole.err
    killed = tmp_path / "killed"
    command = harness_command(*options("killed"))
    kill_when(lambda: len(list(killed.glob("pool/*/*.parquet"))) >= 3, command, env=ENVIRONMENT)
    assert len(list(killed.glob("pool/*/*.parquet"))) < 8
    assert harness(*options("killed")).out == whole.out
    assert_same_but_for_last_bits(killed, tmp_path / "whole")
