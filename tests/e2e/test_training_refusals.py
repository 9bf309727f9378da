"""A training that is refused or only tried leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

from support.paths import SUPPORT

TRAIN = ("rl", "train", "--trainer", "counting", "--plugin", SUPPORT / "counting_trainer.py")


def test_a_dry_run_of_a_training_leaves_nothing_and_names_the_runs_folder(harness, tmp_path):
    settings = ("--set", "batch=4", "--set", "mini_batch=4", "--limit", 8)
    store = tmp_path / "runs"
    dry = harness(*TRAIN, "--task", "game24", "--model", "tiny24-weak", *settings, "--store", store, "--dry-run")
    assert dry.code == 0, dry.err
    assert not store.exists()
    folder = next(line for line in dry.out.splitlines() if line.startswith("# folder: ")).removeprefix("# folder: ")
    assert folder.startswith(f"{store}/rl/game24-tiny24-weak-repexp-counting-s0-")
    assert dry.out.splitlines()[-1].endswith(folder)
    assert "harness-rl-" not in dry.out


def test_training_data_out_of_reach_names_the_option_of_the_command(harness, written, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("harness_tasks.data.sources.hub_is_out_of_reach", lambda: True)
    written([{"question": f"q{row}", "answer": f"#### {row}"} for row in range(7473)], "train.jsonl")
    for data in ((), ("--data", "train.jsonl")):
        outcome = harness(*TRAIN, "--task", "gsm8k", *data)
        assert outcome.code == 2
        last = outcome.err.splitlines()[-1]
        assert last.endswith("rl train takes a file for each split: --data train=FILE --data dev=FILE")
    assert not Path("runs").exists()
