"""The main job on a causal language model in a folder."""

import pytest
from support.tiny_checkpoints import save_checkpoint


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_game24_and_a_given_pool_run_on_any_causal_lm_folder(harness, written, tmp_path):
    def run(*options):
        fixed = ("run", "--task", "game24", "--store", tmp_path / "runs", "--selector", "repexp", "--json")
        outcome = harness(*fixed, "--model", model, *options)
        assert outcome.code == 0, outcome.err
        return outcome, outcome.rows[0]

    model = save_checkpoint(tmp_path / "my-model", "qwen2-long")
    options = ("--n", 6, "--limit", 3, "--max-tokens", 12)
    _, row = run(*options)
    assert (row["model"], row["split"], row["n"], row["problems"]) == ("my-model", "test", 6, 3)
    assert row["samples_to_correct_random"] is not None
    again, _ = run(*options, "--embedder", "hidden-last")
    assert "pool: reused for 3 of 3" in again.err
    assert "embed: 18 responses" in again.err
    pool = [{"problem_id": "4-5-6-10", "responses": ["Answer: (10 - 6) * 5 + 4", "no", "", "Answer: 24"]}]
    _, row = run("--pool", written(pool), "--embedder", "hidden-mean")
    assert (row["embedder"], row["samples_to_correct_random"]) == ("hidden-mean", 2.5)
