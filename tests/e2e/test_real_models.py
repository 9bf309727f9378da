"""The main job on real language models: the embedded one, and any causal LM's folder."""

import pytest
from support.tiny_checkpoints import save_checkpoint

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]


@pytest.fixture
def run(harness, tmp_path):
    def call(*options):
        fixed = ("run", "--task", "game24", "--store", tmp_path / "runs", "--selector", "repexp", "--json")
        outcome = harness(*fixed, *options)
        assert outcome.code == 0, outcome.err
        return outcome, outcome.rows[0]

    return call


def test_game24_and_a_given_pool_run_on_any_causal_lm_folder(run, written, tmp_path):
    model = save_checkpoint(tmp_path / "my-model", "qwen2-long")
    options = ("--model", model, "--n", 6, "--limit", 3, "--max-tokens", 12)
    _, row = run(*options)
    assert (row["model"], row["split"], row["n"], row["problems"]) == ("my-model", "test", 6, 3)
    assert row["samples_to_correct_random"] is not None
    again, _ = run(*options, "--embedder", "hidden-last")
    assert "pool: reused for 3 of 3" in again.err
    assert "embed: 18 responses" in again.err
    pool = [{"problem_id": "4-5-6-10", "responses": ["Answer: (10 - 6) * 5 + 4", "no", "", "Answer: 24"]}]
    _, row = run("--pool", written(pool), "--model", model, "--embedder", "hidden-mean")
    assert (row["embedder"], row["samples_to_correct_random"]) == ("hidden-mean", 2.5)


def test_the_embedded_model_is_tested_on_its_held_out_puzzles_and_says_so(run):
    outcome, row = run("--n", 16, "--limit", 3)
    assert "puzzles held out from its training" in outcome.err
    assert (row["model"], row["split"]) == ("tiny24", "heldout")
    assert row["solvable"] >= 1
    _, dry = run("--dry-run")
    assert dry["to_make"] + dry["there"] > 200
