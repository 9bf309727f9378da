"""The main job on real language models: the embedded one, and any causal LM's folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support.processes import harness_command, kill_when, run_to_end
from support.stores import contents

from harness.store import shards as store

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def make_model(folder: Path, family: str, context: int = 256) -> Path:
    """A tiny random checkpoint of the real class, saved with the embedded model's tokenizer."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    from harness_plugins.models.tiny24 import folder as embedded

    tokenizer = AutoTokenizer.from_pretrained(embedded("tiny24"))
    config_class, model_class = {
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
        "llama": (LlamaConfig, LlamaForCausalLM),
    }[family]
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = config_class(
        vocab_size=len(tokenizer), max_position_embeddings=context, num_key_value_heads=2, **sizes, **special
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model_class(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run_options(store: Path, *options: object) -> list[str]:
    fixed = ("run", "--task", "game24", "--store", store, "--selector", "repexp", "--selector", "uniform", "--json")
    return [str(part) for part in (*fixed, *options)]


@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_game24_runs_on_any_causal_lm_folder(harness, tmp_path, family):
    model = make_model(tmp_path / f"my-{family}", family)
    options = ("--model", model, "--n", "6", "--limit", "3", "--max-tokens", "12")
    outcome = harness(*run_options(tmp_path / "runs", *options))
    assert outcome.code == 0, outcome.err
    for row in outcome.rows:
        assert (row["model"], row["split"], row["n"], row["problems"]) == (f"my-{family}", "test", 6, 3)
        assert row["samples_to_correct_random"] is not None
    assert "pool: reused for 3 of 3" in harness(*run_options(tmp_path / "runs", *options)).err
    again = harness(*run_options(tmp_path / "runs", *options, "--embedder", "hidden-last"))
    assert again.code == 0
    assert "pool: reused for 3 of 3" in again.err
    assert "embed: 3 problems" in again.err


def test_a_context_that_is_too_short_is_one_clear_line(harness, tmp_path):
    model = make_model(tmp_path / "short", "llama", context=64)
    outcome = harness(*run_options(tmp_path / "runs", "--model", model, "--max-tokens", "60"))
    assert outcome.code == 2
    (line,) = outcome.err.strip().splitlines()
    assert "--max-tokens" in line
    assert "64" in line


def test_the_vectors_of_a_given_pool_come_from_a_model_of_ones_own(harness, tmp_path):
    model = make_model(tmp_path / "mine", "qwen2")
    pool = tmp_path / "pool.jsonl"
    pool.write_text('{"problem_id": "4-5-6-10", "responses": ["Answer: (10 - 6) * 5 + 4", "no", "", "Answer: 24"]}\n')
    options = ("--pool", pool, "--model", model, "--embedder", "hidden-mean")
    outcome = harness(*run_options(tmp_path / "runs", *options))
    assert outcome.code == 0, outcome.err
    assert outcome.rows[0]["embedder"] == "hidden-mean"
    assert outcome.rows[0]["samples_to_correct_random"] == 2.5


def test_the_embedded_model_is_tested_on_its_held_out_puzzles_and_says_so(harness, tmp_path):
    outcome = harness(*run_options(tmp_path / "runs", "--n", "32", "--limit", "4"))
    assert outcome.code == 0, outcome.err
    assert "puzzles held out from its training" in outcome.err
    row = outcome.rows[0]
    assert (row["model"], row["split"]) == ("tiny24", "heldout")
    assert row["solvable"] >= 1
    dry = harness(*run_options(tmp_path / "runs", "--dry-run")).rows
    assert dry[0]["to_make"] + dry[0]["there"] > 200


def assert_same_but_for_last_bits(one: Path, other: Path) -> None:
    """The same files with the same tokens, verdicts and orders; vectors and log-probabilities up to float noise."""
    assert contents(one).keys() == contents(other).keys()
    for path in sorted(path for path in one.rglob("*") if path.is_file()):
        twin = other / path.relative_to(one)
        if path.parts[-3] == "pool" and path.suffix == ".parquet":
            first, second = store.read_responses(path), store.read_responses(twin)
            assert (first.texts, first.token_ids, first.finish) == (second.texts, second.token_ids, second.finish)
            np.testing.assert_allclose(first.logprobs, second.logprobs, atol=1e-4)
        elif path.suffix == ".safetensors":
            np.testing.assert_allclose(store.read_vectors(path), store.read_vectors(twin), atol=1e-4)
        else:
            assert path.read_bytes() == twin.read_bytes()


def test_a_run_of_the_embedded_model_killed_twice_gives_the_tokens_of_an_unkilled_one(tmp_path):
    def command(store: Path) -> list[str]:
        return harness_command(*run_options(store, "--n", "24", "--limit", "24"))

    whole = tmp_path / "whole"
    table = run_to_end(command(whole), env=ENVIRONMENT, check=True).stdout
    killed = tmp_path / "killed"
    for count in (1, 12):
        kill_when(lambda n=count: len(list(killed.rglob("*.parquet"))) >= n, command(killed), env=ENVIRONMENT)
    assert run_to_end(command(killed), env=ENVIRONMENT, check=True).stdout == table
    assert_same_but_for_last_bits(killed, whole)
