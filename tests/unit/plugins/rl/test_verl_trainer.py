"""The trainer `verl` on the harness' side: what is checked, launched, found and exported without verl.

Also where its Python environment is looked for, and what must be in it (verl_environment.py).
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from pyarrow import parquet
from support.processes import printed_by
from support.refusals import refusal_of
from support.training_runs import game24_run

from harness import Problem
from harness_plugins.models.location import embedded as folder
from harness_plugins.rl import preflight, verl_trainer
from harness_plugins.rl.preflight import memory_remark, parameter_count, sampler_share
from harness_plugins.rl.training import Checkpoint, Settings, TrainingRun, write_problems
from harness_plugins.rl.verl_trainer import VARIABLE, Verl, as_text, configuration, find_python, fitting, installed

SETTINGS = Settings(batch=2, mini_batch=2, micro_batch=8, rollouts=4, max_prompt=64, max_response=64, steps=3)


@pytest.fixture
def run(tmp_path, monkeypatch) -> TrainingRun:
    """A CPU run of the embedded model; this interpreter passes for verl's."""
    monkeypatch.setenv(VARIABLE, sys.executable)
    fields = {"model": "tiny24-weak", "bonus": "repexp", "trainer": "verl", "settings": SETTINGS}
    return game24_run(tmp_path / "run", 2, 2, **fields)


def test_launch_writes_what_the_child_reads_and_keeps_the_users_own_modules(run, monkeypatch):
    (problems := dict(run.problems))["test"] = run.folder / "test.jsonl"
    for split, path in problems.items():
        chat = [{"role": "user", "content": "?"}]
        write_problems(path, [(Problem(f"{split}-{i}", "?", {"a": i}), chat) for i in (0, 1)])
    launch = Verl().launch(replace(run, problems=problems, task="game24:n=3"))
    assert launch.command == [sys.executable, "-m", "harness_plugins.rl.verl_child", str(run.folder)]
    assert launch.environment["VERL_PLATFORM"] == "cpu"
    assert (run.folder / "verl.yaml").read_text() == launch.config
    rows = parquet.read_table(run.folder / "data" / "train.parquet").to_pylist()
    assert [row["extra_info"] for row in rows] == [
        {"split": "train", "index": i, "problem": f"train-{i}"} for i in range(2)
    ]
    assert (rows[1]["reward_model"]["ground_truth"], rows[0]["data_source"]) == ('{"a": 1}', "game24")
    assert not (run.folder / "data" / "test.parquet").exists()
    monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", "mine")
    launch = Verl().launch(replace(run, cpu=False))
    assert "VERL_PLATFORM" not in launch.environment
    assert launch.environment["VERL_USE_EXTERNAL_MODULES"] == "mine,harness_plugins.rl.verl_child"
    assert "cpu" not in yaml.safe_load(launch.config)["trainer"].values()


def test_an_environment_is_found_by_parameter_then_variable_then_beside(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, sys.executable)
    assert find_python(None) == Path(sys.executable)
    assert "python=/nowhere" in refusal_of(find_python, "/nowhere")
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr("harness_plugins.rl.verl_trainer.find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    assert "python -m venv .venv-verl" in refusal_of(find_python, None)
    beside = tmp_path / ".venv-verl" / "bin" / "python"
    beside.parent.mkdir(parents=True)
    beside.touch()
    assert find_python(None) == beside


def test_an_environment_is_asked_what_it_has_and_what_it_lacks_is_named(tmp_path):
    python = tmp_path / "python"
    whole = {"verl": "0.9.1", "TransferQueue": "1", "vllm": None, "diversity-harness": "1"}
    python.write_text(f"#!/bin/sh\necho '{json.dumps(whole)}'\n")
    python.chmod(0o755)
    assert installed(python) == whole
    python.write_text("#!/bin/sh\nexit 3\n")
    assert "does not run" in refusal_of(installed, python)
    for lacking, message in (
        ({"verl": None}, "has no verl"),
        ({"verl": "0.8.0"}, "has verl 0.8.0, but this plugin is for 0.9.1"),
        ({"TransferQueue": None}, "has no TransferQueue"),
        ({"diversity-harness": None}, "has no diversity-harness"),
    ):
        python.write_text(f"#!/bin/sh\necho '{json.dumps(whole | lacking)}'\n")
        assert message in refusal_of(installed, python)


@pytest.fixture
def complete(monkeypatch):
    """An environment with all that is needed and eight GPUs, without asking one."""
    versions = {"verl": verl_trainer.VERSION, "TransferQueue": "1", "vllm": "1", "diversity-harness": "1"}
    monkeypatch.setattr(verl_trainer, "installed", lambda python: versions)
    monkeypatch.setattr(preflight, "gpu_memory", lambda: [80.0] * 8)
    return versions


def test_gpus_that_are_missing_or_do_not_divide_the_work_or_have_no_sampler_are_refused(run, complete, monkeypatch):
    remarks = [f"environment: {sys.executable}, verl 0.9.1"]
    assert Verl().check(run) == [*remarks, "CPU: one worker, float32, sampled by the harness' own engine"]
    assert "0.00 B parameters need" in Verl().check(replace(run, cpu=False))[-1]
    for gpus, settings, message in (
        (0, {}, "no GPU here (nvidia-smi shows none), devices=8 are needed: give --cpu for a small model"),
        (2, {}, "8 GPUs are asked for, 2 are here: set devices=2"),
        (3, {"rollouts": 3, "devices": 3, "tensor_parallel": 2}, "devices=3 is not a multiple of tensor_parallel=2"),
        (3, {"devices": 3}, "8 responses an update do not divide over 3 GPUs: change mini_batch"),
    ):
        monkeypatch.setattr(preflight, "gpu_memory", lambda gpus=gpus: [80.0] * gpus)
        changed = replace(run, cpu=False, settings=replace(run.settings, **settings))
        assert refusal_of(Verl().check, changed) == f"verl: {message}"
    monkeypatch.setattr(preflight, "gpu_memory", lambda: [80.0] * 8)
    monkeypatch.setitem(complete, "vllm", None)
    assert "verl[vllm]" in refusal_of(Verl().check, replace(run, cpu=False))
    assert "does not exist" in refusal_of(Verl().check, replace(run, model="./nowhere"))


def test_a_checkpoint_is_merged_at_the_first_export_and_one_that_cannot_be_says_so(run, tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nfor last; do :; done\nmkdir "$last"\necho "$@" > "$last/arguments"\n')
    python.chmod(0o755)
    trainer, checkpoint = Verl(python=str(python)), Checkpoint(2, tmp_path / "global_step_2")
    (checkpoint.path / "hf.part").mkdir(parents=True)  # left by a killed merge
    exported = trainer.export(run, checkpoint)
    actor, part = checkpoint.path / "actor", checkpoint.path / "hf.part"
    command = f"-m verl.model_merger merge --backend fsdp --local_dir {actor} --target_dir {part}\n"
    assert (exported / "arguments").read_text() == command
    python.write_text("#!/bin/sh\necho no such file >&2\nexit 1\n")
    assert trainer.export(run, checkpoint) == exported
    line = refusal_of(trainer.export, run, Checkpoint(4, tmp_path / "global_step_4"))
    assert line.endswith("global_step_4/actor cannot be merged into a Hugging Face folder: no such file")


def test_nothing_of_the_harness_side_imports_what_trains():
    sides = "verl_trainer, trl_trainer, commands, rewards"
    heavy = "{'verl', 'ray', 'trl', 'torch'}"
    code = f"import sys; from harness_plugins.rl import {sides}; print({heavy} & set(sys.modules))"
    assert printed_by(code) == "set()"


# The configuration, as composed without verl

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
def paper() -> TrainingRun:
    """A run with the paper's settings."""
    return TrainingRun(Path("folder"), "game24", "org/model", "repexp", "verl", 7, Settings(), {})


def test_the_defaults_are_the_papers_and_every_seed_is_the_runs(paper):
    config = configuration(paper, "org/model", DATA, with_ref=True)
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


def test_aime_gets_its_own_lengths_and_shares(paper):
    rollout = configuration(replace(paper, settings=AIME), "m", DATA, True)["actor_rollout_ref"]["rollout"]
    assert (rollout["max_num_batched_tokens"], rollout["gpu_memory_utilization"]) == (10240, 0.5)
    assert sampler_share(replace(AIME, max_prompt=1, max_response=8191)) == 0.6
    assert [fitting(24, 16), fitting(1024, 16), fitting(8, 16), fitting(7, 4)] == [12, 16, 8, 1]  # rows of a pass


def test_without_a_dev_split_nothing_is_validated_and_without_kl_and_states_no_reference_is_run(paper):
    config = configuration(paper, "m", {"train": Path("t")}, with_ref=False)
    assert (config["trainer"]["test_freq"], config["trainer"]["val_before_train"]) == (-1, False)
    assert (config["data"]["val_files"], config["data"]["val_max_samples"]) == ("t", 1)
    kl = configuration(replace(paper, settings=replace(paper.settings, kl=0.1)), "m", DATA, with_ref=False)
    assert [each["actor_rollout_ref"]["actor"]["use_kl_loss"] for each in (config, kl)] == [False, True]


def test_the_text_is_composed_with_verls_defaults_and_shows_what_wins(paper):
    text = as_text(replace(paper, overrides=("trainer.save_freq=5",)), {"a": 1})
    assert yaml.safe_load(text)["defaults"] == ["ppo_trainer", "_self_"]
    assert text.endswith("a: 1\n\n# Given on the command line; these come last and win:\n# trainer.save_freq=5\n")
    assert as_text(paper, {"a": 1}).endswith("a: 1\n")


# The memory of a GPU


def test_parameters_are_counted_in_the_weights(tmp_path):
    assert parameter_count(folder("tiny24-weak")) == 942_976
    assert parameter_count(tmp_path) == 0


def test_the_papers_model_fits_eight_gpus_of_80_gib_and_not_one():
    line = memory_remark(7_600_000_000, QWEN_7B, Settings(), 80)
    assert line.startswith("memory: 7.60 B parameters need 14.2 GiB a GPU to update")
    sampler = (2 * 7.6e9 + 2 * 2 * 28 * 4 * 128 * 2048) / 2 / 2**30  # keys and values of 4 heads of 128 in 28 layers
    assert f"10.6 beside the sampler, and {sampler:.1f} inside it" in line
    for devices, gib, message in (
        (1, 80, "does not fit"),
        (2, 80, "42.5 beside the sampler"),  # the weights at rest
        (64, 20, "does not fit"),  # the sampler's share
    ):
        settings = Settings(devices=devices, tensor_parallel=1)
        assert message in refusal_of(memory_remark, 7_600_000_000, QWEN_7B, settings, gib), devices
