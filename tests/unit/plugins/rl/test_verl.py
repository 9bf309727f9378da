"""The trainer verl without verl: what is checked, launched, found and exported; configuration; reward function."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from pyarrow import parquet
from support.json_lines import read_json_lines
from support.refusals import refusal_of
from support.training_runs import game24_run

from harness import Problem, error
from harness_plugins.rl import preflight, verl_child, verl_trainer
from harness_plugins.rl.training import Checkpoint, Settings, TrainingRun, write_problems
from harness_plugins.rl.verl_child import TRACKER, tidy
from harness_plugins.rl.verl_trainer import MARK, RUN, VARIABLE, Verl, configuration, installed

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


def test_gpus_that_are_missing_or_do_not_divide_the_work_or_have_no_sampler_are_refused(run, monkeypatch):
    versions, gpus = {"verl": verl_trainer.VERSION, "vllm": "1"}, [80.0] * 8
    monkeypatch.setattr(verl_trainer, "installed", lambda python: versions)
    monkeypatch.setattr(preflight, "gpu_memory", lambda: gpus)
    remarks = [f"environment: {sys.executable}, verl 0.9.1"]
    assert Verl().check(run) == [*remarks, "CPU: one worker, float32, sampled by the harness' own engine"]
    assert "0.00 B parameters need" in Verl().check(replace(run, cpu=False))[-1]
    assert "does not exist" in refusal_of(Verl().check, replace(run, model="./nowhere"))
    versions["vllm"] = None
    assert "verl[vllm]" in refusal_of(Verl().check, replace(run, cpu=False))
    for few, settings, message in (
        (0, {}, "no GPU here (nvidia-smi shows none), devices=8 are needed: give --cpu for a small model"),
        (2, {}, "8 GPUs are asked for, 2 are here: set devices=2"),
        (3, {"rollouts": 3, "devices": 3, "tensor_parallel": 2}, "devices=3 is not a multiple of tensor_parallel=2"),
        (3, {"devices": 3}, "8 responses an update do not divide over 3 GPUs: change mini_batch"),
    ):
        gpus[:] = [80.0] * few
        changed = replace(run, cpu=False, settings=replace(run.settings, **settings))
        assert refusal_of(Verl().check, changed) == f"verl: {message}"


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


# The configuration, as composed without verl


def test_the_defaults_are_the_papers_and_every_seed_is_the_runs():
    paper = TrainingRun(Path("folder"), "game24", "org/model", "repexp", "verl", 7, Settings(), {})
    config = configuration(paper, "org/model", {"train": Path("t"), "dev": Path("d")}, with_ref=True)
    parts = config["actor_rollout_ref"]
    actor, rollout, ref, trainer = parts["actor"], parts["rollout"], parts["ref"], config["trainer"]
    assert (config["data"]["train_batch_size"], actor["ppo_mini_batch_size"], rollout["n"]) == (1024, 256, 8)
    assert (actor["ppo_micro_batch_size_per_gpu"], actor["optim"]["lr"], actor["clip_ratio"]) == (16, 1e-6, 0.2)
    assert (actor["use_kl_loss"], actor["kl_loss_coef"], actor["entropy_coeff"]) == (True, 0.0, 0.0)
    assert (rollout["tensor_model_parallel_size"], rollout["gpu_memory_utilization"]) == (2, 0.6)
    assert (rollout["max_num_batched_tokens"], rollout["val_kwargs"]["n"]) == (8192, 128)
    assert (trainer["n_gpus_per_node"], trainer["save_freq"], trainer["test_freq"]) == (8, 20, 20)
    assert (trainer["total_training_steps"], trainer["total_epochs"], "device" in trainer) == (None, 1000, False)
    assert ref["log_prob_micro_batch_size_per_gpu"] == 16
    seeds = [config["data"]["seed"], rollout["seed"], actor["data_loader_seed"]]
    assert [*seeds, *(part["fsdp_config"]["seed"] for part in (actor, ref))] == [7] * 5


# In verl's processes


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """A strictly rewarded run with a problem of GSM8K's, which this process belongs to."""
    fields = {"task": "gsm8k:fallback=no", "reward": "strict", "settings": Settings(), "bonus": "none"}
    run = game24_run(tmp_path, 1, 1, **fields, model="m", trainer="verl:hidden=policy")
    chat = [{"role": "user", "content": "?"}]
    write_problems(run.problems["train"], [(Problem("train-0", "?", reference="5"), chat)])
    monkeypatch.setenv(RUN, str(tmp_path))
    for cached in (verl_child.current_run, verl_child._graded):
        cached.cache_clear()
    return run


def test_only_marked_checkpoints_count_and_verl_is_pointed_at_the_last_or_begins_anew(graded):
    tracker = graded.checkpoints / TRACKER
    folders = {n: graded.checkpoints / f"global_step_{n}" for n in (2, 4, 10, 12)}
    folders[2].mkdir(parents=True)
    tracker.write_text("2")
    assert tidy(graded) == 0
    assert list(graded.checkpoints.iterdir()) == []
    for step, folder in folders.items():
        folder.mkdir()
        if step < 12:
            (folder / MARK).touch()
    tracker.write_text("")  # as a kill between opening and writing leaves it
    assert [checkpoint.step for checkpoint in Verl().saved(graded)] == [2, 4, 10]
    assert tidy(graded) == 10
    assert tracker.read_text() == "10"
    assert not folders[12].exists()


def test_verls_reward_function_is_the_runs_grader_and_an_error_of_it_is_written_down(graded, monkeypatch):
    info = {"split": "train", "problem": "train-0"}
    responses = ["I think 5", r"\boxed{5}", "#### 5"]
    assert [verl_child.compute_score("gsm8k", text, "5", info) for text in responses] == [0, 0, 1]
    assert not (graded.folder / verl_child.ERRORS).exists()
    assert verl_child.current_run().part("trainer").hidden == "policy"
    monkeypatch.setattr(type(verl_child._graded()[0].task), "audit", lambda *arguments, **finish: error("out of order"))
    assert [verl_child.compute_score("gsm8k", "#### 5", "5", info) for _ in range(2)] == [0, 0]
    assert read_json_lines(graded.folder / verl_child.ERRORS) == [{"problem": "train-0", "reason": "out of order"}] * 2
