"""verl's configuration of a run, as composed without verl, and the memory that it needs (verl_memory.py)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.refusals import refusal_of

from harness_plugins.models.location import embedded as folder
from harness_plugins.rl.training import Settings, TrainingRun
from harness_plugins.rl.verl_config import as_text, configuration, fitting, sampler_share
from harness_plugins.rl.verl_memory import cache_bytes, estimate, parameter_count

DATA = {"train": Path("t.parquet"), "dev": Path("d.parquet")}
AIME = Settings(batch=512, mini_batch=128, micro_batch=8, max_prompt=2048, max_response=8192, save_every=10)

QWEN_7B = {  # Qwen2.5-7B's config.json, what matters of it
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}


@pytest.fixture
def run() -> TrainingRun:
    """A run with the paper's settings."""
    return TrainingRun(Path("folder"), "game24", "org/model", "repexp", "verl", 7, Settings(), {})


def test_the_defaults_are_the_papers_and_every_seed_is_the_runs(run):
    config = configuration(run, "org/model", DATA, with_ref=True)
    actor, rollout = config["actor_rollout_ref"]["actor"], config["actor_rollout_ref"]["rollout"]
    assert (config["data"]["train_batch_size"], actor["ppo_mini_batch_size"], rollout["n"]) == (1024, 256, 8)
    assert (actor["ppo_micro_batch_size_per_gpu"], actor["optim"]["lr"], actor["clip_ratio"]) == (16, 1e-6, 0.2)
    assert (actor["use_kl_loss"], actor["kl_loss_coef"], actor["entropy_coeff"]) == (True, 0.0, 0.0)
    assert (rollout["tensor_model_parallel_size"], rollout["gpu_memory_utilization"]) == (2, 0.6)
    assert (rollout["max_num_batched_tokens"], rollout["val_kwargs"]["n"]) == (8192, 128)
    trainer = config["trainer"]
    assert (trainer["n_gpus_per_node"], trainer["save_freq"], trainer["test_freq"]) == (8, 20, 20)
    assert (trainer["total_training_steps"], trainer["total_epochs"]) == (None, 1000)
    assert "device" not in trainer
    parts = config["actor_rollout_ref"]
    assert parts["ref"]["log_prob_micro_batch_size_per_gpu"] == 16
    seeds = [config["data"]["seed"], rollout["seed"], actor["data_loader_seed"]]
    assert [*seeds, *(parts[name]["fsdp_config"]["seed"] for name in ("actor", "ref"))] == [7] * 5


def test_aime_gets_its_own_lengths_and_shares(run):
    rollout = configuration(replace(run, settings=AIME), "m", DATA, True)["actor_rollout_ref"]["rollout"]
    assert (rollout["max_num_batched_tokens"], rollout["gpu_memory_utilization"]) == (10240, 0.5)
    assert sampler_share(replace(AIME, max_prompt=1, max_response=8191)) == 0.6
    assert [fitting(24, 16), fitting(1024, 16), fitting(8, 16), fitting(7, 4)] == [12, 16, 8, 1]  # rows of a pass


def test_without_a_dev_split_nothing_is_validated_and_without_kl_and_states_no_reference_is_run(run):
    config = configuration(run, "m", {"train": Path("t")}, with_ref=False)
    assert (config["trainer"]["test_freq"], config["trainer"]["val_before_train"]) == (-1, False)
    assert (config["data"]["val_files"], config["data"]["val_max_samples"]) == ("t", 1)
    kl = configuration(replace(run, settings=replace(run.settings, kl=0.1)), "m", DATA, with_ref=False)
    assert [each["actor_rollout_ref"]["actor"]["use_kl_loss"] for each in (config, kl)] == [False, True]


def test_the_text_is_composed_with_verls_defaults_and_shows_what_wins(run):
    text = as_text(replace(run, overrides=("trainer.save_freq=5",)), {"a": 1})
    assert yaml.safe_load(text)["defaults"] == ["ppo_trainer", "_self_"]
    assert text.endswith("a: 1\n\n# Given on the command line; these come last and win:\n# trainer.save_freq=5\n")
    assert as_text(run, {"a": 1}).endswith("a: 1\n")


# The memory of a GPU


def test_parameters_are_read_from_the_weights_or_counted_from_a_dense_models_config(tmp_path):
    assert parameter_count(tmp_path, QWEN_7B) == pytest.approx(7.6e9, rel=0.01)
    tied = parameter_count(tmp_path, QWEN_7B | {"tie_word_embeddings": True})
    assert parameter_count(tmp_path, QWEN_7B) - tied == 152064 * 3584
    model = folder("tiny24-weak")
    assert parameter_count(model, json.loads((model / "config.json").read_text())) == 942_976


def test_a_token_of_a_7b_model_keeps_56_kib_with_its_own_head_width_or_number_of_heads():
    assert cache_bytes(QWEN_7B) == 2 * 2 * 28 * 4 * 128
    assert cache_bytes(QWEN_7B | {"head_dim": 64}) == 2 * 2 * 28 * 4 * 64
    assert cache_bytes(QWEN_7B | {"num_key_value_heads": None}) == 2 * 2 * 28 * 28 * 128


def test_the_papers_model_fits_eight_gpus_of_80_gib_and_not_one():
    eight = estimate(7_600_000_000, QWEN_7B, Settings())
    assert (eight.updating, eight.sampling) == (pytest.approx(14.16, abs=0.01), pytest.approx(10.62, abs=0.01))
    assert eight.sampler == pytest.approx((2 * 7.6e9 + 57_344 * 2048) / 2 / 2**30)
    assert eight.require(80, 0.6).startswith("memory: 7.60 B parameters need 14.2 GiB a GPU to update")
    for devices, gib, fits, message in (
        (1, 80, False, "does not fit"),
        (2, 80, True, "42.5 beside the sampler"),  # the weights at rest
        (64, 20, True, "does not fit"),  # the sampler's share
    ):
        needs = estimate(7_600_000_000, QWEN_7B, Settings(devices=devices, tensor_parallel=1))
        assert (needs.updating < gib) == fits
        assert message in refusal_of(needs.require, gib, 0.6), devices
