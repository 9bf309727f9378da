"""The main job on real language models: the embedded one, and any causal LM's folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tiny_checkpoints import save_checkpoint

pytestmark = pytest.mark.usefixtures("one_thread")


def run_options(store: Path, *options: object) -> list[str]:
    fixed = ("run", "--task", "game24", "--store", store, "--selector", "repexp", "--selector", "uniform", "--json")
    return [str(part) for part in (*fixed, *options)]


@pytest.mark.slow
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
    assert "embed: 18 responses" in again.err
    pool = tmp_path / "pool.jsonl"
    pool.write_text('{"problem_id": "4-5-6-10", "responses": ["Answer: (10 - 6) * 5 + 4", "no", "", "Answer: 24"]}\n')
    options = ("--pool", pool, "--model", model, "--embedder", "hidden-mean")
    outcome = harness(*run_options(tmp_path / "runs", *options))
    assert outcome.code == 0, outcome.err
    assert outcome.rows[0]["embedder"] == "hidden-mean"
    assert outcome.rows[0]["samples_to_correct_random"] == 2.5


@pytest.mark.slow
def test_the_embedded_model_is_tested_on_its_held_out_puzzles_and_says_so(harness, tmp_path):
    outcome = harness(*run_options(tmp_path / "runs", "--n", "32", "--limit", "3"))
    assert outcome.code == 0, outcome.err
    assert "puzzles held out from its training" in outcome.err
    row = outcome.rows[0]
    assert (row["model"], row["split"]) == ("tiny24", "heldout")
    assert row["solvable"] >= 1
    dry = harness(*run_options(tmp_path / "runs", "--dry-run")).rows
    assert dry[0]["to_make"] + dry[0]["there"] > 200
