"""The trainer `trl` on the harness' side: what is checked, launched and found without TRL's import."""

import json
import runpy
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch
from support.refusals import refusal_of
from support.training_runs import game24_run

from harness.training import Settings, TrainingRun
from harness_plugins.rl import trl_trainer
from harness_plugins.rl.trl_trainer import Trl

SETTINGS = Settings(batch=6, mini_batch=3, micro_batch=5, rollouts=4, max_response=64, steps=4)


@pytest.fixture
def run(tmp_path) -> TrainingRun:
    """A small run of Game of 24."""
    fields = {"model": "tiny24-medium", "bonus": "none", "trainer": "trl:rows=3,hidden=policy", "settings": SETTINGS}
    return game24_run(tmp_path, 20, 5, **fields)


@pytest.fixture
def with_trl():
    """Skips where TRL is not installed."""
    if find_spec("trl") is None:
        pytest.skip("needs TRL")


def test_a_missing_extra_and_another_version_of_trl_are_one_line_each(run, with_trl, monkeypatch):
    monkeypatch.setattr(trl_trainer, "VERSION", "1.15.9")
    line = "trl: trl 1.15.9 is needed (parts of it are overridden), found 1.16.0: pip install 'trl==1.15.9'"
    assert refusal_of(Trl().check, run) == line
    monkeypatch.setitem(sys.modules, "trl", None)
    assert refusal_of(Trl().check, run) == "trl: trl is not installed: pip install 'diversity-harness[trl]'"


def test_what_would_fail_in_the_child_is_one_line_before_it(run, with_trl, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert Trl().check(run) == []
    line = refusal_of(Trl(processes=3).check, replace(run, cpu=False))
    assert line == "trl: 0 GPUs for 3 processes found; train on the CPU with --cpu"
    for changes, message in (
        ({"cpu": False}, "trl: no GPU found; train on the CPU with --cpu"),
        ({"settings": replace(SETTINGS, batch=21)}, "trl: a batch of 21 prompts, but only 20 problems to train on"),
        ({"settings": replace(SETTINGS, max_response=1000)}, "tiny24-medium: the longest prompt has 47 tokens"),
        ({"model": "tiny24-larch"}, "unknown model 'tiny24-larch'"),
        ({"overrides": ("max_steps=3",)}, "trl: unknown option 'max_steps'"),
    ):
        assert refusal_of(Trl().check, replace(run, **changes)).startswith(message)


def test_a_model_that_does_not_fit_is_one_line_and_a_tight_fit_a_remark(run, with_trl, monkeypatch):
    monkeypatch.setattr(trl_trainer, "_main_memory", lambda: (1, 942_976 * 21))
    need = "the weights, their gradients, the optimiser and the reference need 0.0 GiB, activations aside"
    assert Trl().check(run) == [f"trl: {need}; 0.0 GiB of this machine are free"]
    monkeypatch.setattr(trl_trainer, "_main_memory", lambda: (1, 942_976 * 19))
    assert refusal_of(Trl().check, run) == f"trl: the model does not fit: {need}; this machine has 0.0 GiB"


def test_launch_starts_the_child_alone_or_several_together(run):
    launch = Trl().launch(run)
    assert launch.command == [sys.executable, "-m", "harness_plugins.rl.trl_child", str(run.folder)]
    assert launch.environment["CUDA_VISIBLE_DEVICES"] == ""
    assert json.loads(launch.config)["max_steps"] == 8
    several = Trl(processes=3).launch(replace(run, cpu=False))
    assert several.command[1:5] == ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3"]
    assert several.command[5:] == launch.command[1:]
    assert "CUDA_VISIBLE_DEVICES" not in several.environment


def test_half_checkpoints_do_not_count(run):
    for name in ("step-000010", "step-000009", "step-000011.copy", ".part"):
        (run.checkpoints / name).mkdir(parents=True)
    assert [checkpoint.step for checkpoint in Trl().saved(run)] == [9, 10]
    assert Trl().export(run, Trl().saved(run)[0]) == run.checkpoints / "step-000009"


# The child


def test_the_child_has_nothing_to_do_after_the_last_step_and_without_a_run_ends_with_one_line(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "trl", None)
    monkeypatch.setattr(sys, "argv", ["trl_child", str(run.folder)])
    (run.checkpoints / "step-000004").mkdir(parents=True)
    runpy.run_module("harness_plugins.rl.trl_child", run_name="__main__")
    (run.folder / "run.json").unlink()
    with pytest.raises(SystemExit, match=f"error: rl: {run.folder} holds no run.json"):
        runpy.run_module("harness_plugins.rl.trl_child", run_name="__main__")
