"""verl's configuration of a run, as composed without verl."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from harness.training import Settings, TrainingRun
from harness_plugins.rl.verl_config import as_text, configuration, fitting, nested, sampler_share

DATA = {"train": Path("t.parquet"), "dev": Path("d.parquet")}
AIME = Settings(batch=512, mini_batch=128, micro_batch=8, max_prompt=2048, max_response=8192, save_every=10)


@pytest.fixture
def run() -> TrainingRun:
    """A run with the paper's settings."""
    return TrainingRun(Path("folder"), "game24", "org/model", "repexp", "verl", 7, Settings(), {})


def test_the_defaults_are_the_papers(run):
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
    assert config["actor_rollout_ref"]["ref"]["log_prob_micro_batch_size_per_gpu"] == 16
    assert "device" not in trainer


def test_aime_gets_its_own_lengths_and_shares(run):
    rollout = configuration(replace(run, settings=AIME), "m", DATA, True)["actor_rollout_ref"]["rollout"]
    assert (rollout["max_num_batched_tokens"], rollout["gpu_memory_utilization"]) == (10240, 0.5)
    assert sampler_share(replace(AIME, max_prompt=1, max_response=8191)) == 0.6


def test_every_seed_comes_from_the_runs(run):
    config = configuration(run, "m", DATA, True)
    parts = config["actor_rollout_ref"]
    seeds = [config["data"]["seed"], parts["rollout"]["seed"], parts["actor"]["data_loader_seed"]]
    assert [*seeds, parts["actor"]["fsdp_config"]["seed"], parts["ref"]["fsdp_config"]["seed"]] == [7] * 5


def test_without_a_dev_split_nothing_is_validated_and_without_kl_and_states_no_reference_is_run(run):
    config = configuration(run, "m", {"train": Path("t")}, with_ref=False)
    assert (config["trainer"]["test_freq"], config["trainer"]["val_before_train"]) == (-1, False)
    assert (config["data"]["val_files"], config["data"]["val_max_samples"]) == ("t", 1)
    kl = configuration(replace(run, settings=replace(run.settings, kl=0.1)), "m", DATA, with_ref=False)
    assert [each["actor_rollout_ref"]["actor"]["use_kl_loss"] for each in (config, kl)] == [False, True]


def test_a_pass_has_as_many_rows_as_divide_a_workers():
    assert [fitting(24, 16), fitting(1024, 16), fitting(8, 16), fitting(7, 4)] == [12, 16, 8, 1]


def test_a_dotted_key_becomes_a_tree():
    assert nested({"a.b": 1, "a.c": 2, "d": 3}) == {"a": {"b": 1, "c": 2}, "d": 3}


def test_the_text_is_composed_with_verls_defaults_and_shows_what_wins(run):
    text = as_text(replace(run, overrides=("trainer.save_freq=5",)), {"a": 1})
    assert yaml.safe_load(text)["defaults"] == ["ppo_trainer", "_self_"]
    assert text.endswith("a: 1\n\n# Given on the command line; these come last and win:\n# trainer.save_freq=5\n")
    assert as_text(run, {"a": 1}).endswith("a: 1\n")
