"""The trainer trl: what is checked, launched and found without TRL's import; the rollouts of a policy in training."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.json_lines import write_json_lines
from support.refusals import refusal_of
from support.training_runs import game24_run

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.models.location import embedded as tiny24
from harness_plugins.rl import trl_trainer
from harness_plugins.rl.checkpoints import STEP_METRICS, best_step
from harness_plugins.rl.training import Settings, TrainingRun, read_metrics
from harness_plugins.rl.trl_trainer import Trl
from harness_tasks.game24 import Game24

pytest.importorskip("trl")
from harness_plugins.rl.trl_child import PolicyEngine, batch_of, main, stream

pytestmark = pytest.mark.usefixtures("one_thread")
SETTINGS = Settings(batch=6, mini_batch=3, micro_batch=5, rollouts=4, max_response=64, steps=4)


@pytest.fixture
def run(tmp_path) -> TrainingRun:
    """A small run of Game of 24."""
    fields = {"model": "tiny24-medium", "bonus": "none", "trainer": "trl:rows=3,hidden=policy", "settings": SETTINGS}
    return game24_run(tmp_path, 20, 5, **fields)


def test_a_missing_extra_and_another_version_of_trl_are_one_line_each(run, monkeypatch):
    monkeypatch.setattr(trl_trainer, "VERSION", "1.15.9")
    line = "trl: trl 1.15.9 is needed (parts of it are overridden), found 1.16.0: pip install 'trl==1.15.9'"
    assert refusal_of(Trl().check, run) == line
    monkeypatch.setattr("harness.system.extras.find_spec", lambda name: None if name == "trl" else trl_trainer.__spec__)
    line = "trainer trl needs trl: not installed: pip install 'diversity-harness[trl]'"
    assert refusal_of(Trl().check, run) == line


def test_what_would_fail_in_the_child_is_one_line_before_it_is_launched(run, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert Trl().check(run) == []
    for changes, message in (
        ({"cpu": False}, "trl: no GPU found, one is needed: give --cpu for a small model"),
        ({"settings": replace(SETTINGS, max_response=1000)}, "tiny24-medium: the longest prompt has 47 tokens"),
        ({"model": "tiny24-larch"}, "unknown model 'tiny24-larch'"),
        ({"overrides": ("max_steps=3",)}, "trl: no option 'max_steps'"),
        ({"overrides": ("wieght_decay=0",)}, "trl: no option 'wieght_decay' (did you mean 'weight_decay'?"),
        ({"overrides": ("activation_checkpointing=maybe",)}, "trl: activation_checkpointing must be a valid boolean"),
        (
            {"overrides": ("loss_type=dapoo",)},
            "trl: loss_type must be 'dapo', 'grpo', 'bnpo' or 'dr_grpo', got 'dapoo'",
        ),
    ):
        assert refusal_of(Trl().check, replace(run, **changes)).startswith(message)
    launch = Trl().launch(run)
    assert launch.command == [sys.executable, "-m", "harness_plugins.rl.trl_child", str(run.folder)]
    assert (launch.environment["CUDA_VISIBLE_DEVICES"], json.loads(launch.config)["max_steps"]) == ("", 8)
    assert "CUDA_VISIBLE_DEVICES" not in Trl().launch(replace(run, cpu=False)).environment
    for name in ("step-000010", "step-000009", "step-000011.copy", ".part"):  # half checkpoints do not count
        (run.checkpoints / name).mkdir(parents=True)
    assert [checkpoint.step for checkpoint in Trl().saved(run)] == [9, 10]
    assert Trl().export(run, Trl().saved(run)[0]) == run.checkpoints / "step-000009"


# The harness' settings in TRL's names

PAPER = TrainingRun(Path("folder"), "game24", "m", "repexp", "trl", 5, Settings(steps=3), {})


def test_settings_become_trls_and_overrides_win():
    arguments = trl_trainer.grpo_arguments(PAPER)
    assert arguments["per_device_train_batch_size"] * arguments["gradient_accumulation_steps"] == 256 * 8
    assert arguments["per_device_train_batch_size"] * arguments["steps_per_generation"] == 1024 * 8
    assert (arguments["max_steps"], arguments["logging_steps"]) == (12, 4)
    expected = {"epsilon": 0.2, "delta": 3.0, "max_grad_norm": 1.0, "beta": 0.0, "loss_type": "dapo", "seed": 5}
    expected |= {"scale_rewards": "group", "learning_rate": 1e-6, "num_generations": 8, "max_completion_length": 1024}
    expected |= {"bf16": True, "use_cpu": False, "activation_checkpointing": True, "weight_decay": 0.01}
    assert {name: arguments[name] for name in expected} == expected
    overrides = ("weight_decay=0", "activation_checkpointing=false", "loss_type=grpo")
    changed = trl_trainer.grpo_arguments(replace(PAPER, overrides=overrides))
    names = ("weight_decay", "activation_checkpointing", "loss_type")
    assert [changed[name] for name in names] == [0.0, False, "grpo"]
    on_cpu = trl_trainer.grpo_arguments(replace(PAPER, cpu=True))
    assert {name for name in arguments if arguments[name] != on_cpu[name]} == {
        *("bf16", "use_cpu", "activation_checkpointing", "dataloader_pin_memory")
    }


@given(problems=st.integers(1, 60), batch=st.integers(1, 60), seed=st.integers(0, 9), epoch=st.integers(0, 5))
def test_an_epoch_has_each_problem_at_most_once_and_leaves_out_less_than_a_batch(problems, batch, seed, epoch):
    batch = min(batch, problems)
    steps = problems // batch
    seen = [place for step in range(steps) for place in batch_of(problems, batch, seed, 1 + epoch * steps + step)]
    assert len(seen) == len(set(seen)) > problems - batch
    assert set(seen) <= set(range(problems))
    assert len({tuple(batch_of(30, 30, seed, step)) for seed in (1, 2) for step in (1, 2)}) == 4
    assert len({stream(seed, *place) for seed in (1, 2) for place in ((0, 1), (1, 0), (0, 2), (0,))}) == 8


def test_rollouts_are_the_engines_whatever_fits_into_a_batch_and_leave_the_policy_training():
    task = Game24()
    prompts = [task.messages(problem) for problem in task.problems("dev")[:3]]
    small, large = (PolicyEngine(model="tiny24-weak", device="cpu", batch=rows) for rows in (4, 64))
    small._checkpoint.model.train()
    request = SampleRequest(prompts, 2, Sampler(temperature=0.7), 24, [1, 2, 3], ("mean",))
    sampled = small.sample(request)
    assert small._checkpoint.model.training
    assert not large._checkpoint.model.training
    plain = large.sample(request)
    assert [pool.token_ids for pool in sampled] == [pool.token_ids for pool in plain]
    np.testing.assert_allclose(sampled[2].states["mean"], plain[2].states["mean"], atol=1e-4)


def test_a_saved_policy_has_the_decoding_defaults_of_the_initial_model_if_any(tmp_path):
    bare = shutil.copytree(tiny24("tiny24-weak"), tmp_path / "bare")
    own = json.loads((bare / "generation_config.json").read_text())
    for name, has_defaults in (("with", True), ("without", False)):
        PolicyEngine(model=str(bare), device="cpu").save(tmp_path / name)
        assert (tmp_path / name / "tokenizer.json").exists()
        kept = tmp_path / name / "generation_config.json"
        assert kept.exists() == has_defaults
        if has_defaults:
            kept = json.loads(kept.read_text())
            assert {**kept, "transformers_version": None} == {**own, "transformers_version": None}
            (bare / "generation_config.json").unlink()


def test_a_step_that_was_saved_and_not_logged_is_logged_once_when_the_run_goes_on(tmp_path):
    run = game24_run(tmp_path, 2, 2, model="tiny24-weak", bonus="none", trainer="trl", settings=Settings(steps=4))
    saved = run.checkpoints / "step-000004"
    saved.mkdir(parents=True)
    (saved / STEP_METRICS).write_text('{"dev_pass_at_1": 0.5, "reward": 0.25}')
    write_json_lines(run.metrics, [{"step": step, "reward": 0.125} for step in (1, 2, 3)])
    for _ in range(2):
        main(tmp_path)  # no step is left to train
        assert [line["step"] for line in read_metrics(run.metrics)] == [1, 2, 3, 4]
    assert best_step(run, [4]) == (4, 0.5)
