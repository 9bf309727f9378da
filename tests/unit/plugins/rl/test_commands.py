"""The command lines `harness rl train` and `harness rl eval`, in this process."""

import shlex
import sys
from pathlib import Path

import pytest
from corpora import rl_refusals
from support.refusals import error_line
from support.training_runs import COUNTING, counted_run

from harness_plugins.rl.training import read_metrics, read_problems, read_run

TRAIN = ("rl", "train", "--task", "game24", "--model", "tiny24-weak", "--plugin", COUNTING, "--trainer", "counting")
SMALL = ("--set", "batch=4", "--set", "mini_batch=4", "--limit", "8", "--set", "steps=6")


@pytest.fixture
def train(harness, tmp_path):
    """Run `harness rl train` with the counting trainer."""
    return lambda *arguments: harness(*TRAIN, *SMALL, "--store", tmp_path, *arguments)


def test_each_seed_is_a_run_in_a_folder_of_its_own(train, tmp_path):
    done = train("--seeds", "1", "2", "--json")
    assert done.code == 0, done.err
    columns = ("seed", "steps", "best_step", "dev_pass_at_1")
    assert [tuple(row[name] for name in columns) for row in done.rows] == [(1, 6, 6, 0.6), (2, 6, 6, 0.6)]
    for row in done.rows:
        folder = Path(row["folder"])
        assert folder.parent == tmp_path / "rl"
        assert folder.name.startswith(f"game24-tiny24-weak-repexp-counting-s{row['seed']}-")
        assert (folder / "log.txt").read_text() == "counted\n"
        assert len(read_metrics(folder / "metrics.jsonl")) == 6
        problem, messages = read_problems(read_run(folder).problems["train"])[7]
        assert ", ".join(problem.prompt.split()) in messages[0]["content"]
    assert "counts to 6" in done.err
    assert "step 4: reward 0.400, bonus 0.01 (spread 0.001), gated 50 %, dev pass@1 40 %, 2,400 steps/h" in done.err
    again = train("--seed", "1")
    assert "all 6 steps are done" in again.err
    assert "pass@1" in again.out
    assert "0.600" in again.out


def test_a_seed_that_fails_does_not_end_the_others(train):
    done = train("--trainer", "counting:fails_at=3,fails_with=2", "--seeds", "1", "2", "3", "--json")
    assert done.code == 1
    assert [row["seed"] for row in done.rows] == [1, 3]
    last = done.err.splitlines()[-1]
    assert last.startswith("failed: seed 2: rl train: the trainer ended with exit status 1 after step 2: ValueError")
    again = train("--trainer", "counting:fails_at=3,fails_with=2", "--seeds", "1", "2", "3", "--json")
    assert (again.code, [row["steps"] for row in again.rows]) == (0, [6, 6, 6])
    alone = train("--trainer", "counting:fails_at=4,fails_with=2", "--seed", "2")
    assert (alone.code, alone.out) == (1, "")
    assert alone.err.splitlines()[-1].startswith("failed: seed 2: rl train: the trainer ended with exit status 1")
    assert alone.err.count("failed: ") == 1


def test_a_dry_run_prints_the_configuration_and_the_command_and_leaves_nothing(train, tmp_path):
    done = train("--trainer", "counting:fails_at=3", "--dry-run", "optim.lr=1", "+model.x=2")
    assert done.code == 0, done.err
    assert done.out.startswith("fails_at: 3\noverrides: ['optim.lr=1', '+model.x=2']\n# reward: ")
    *_, folder, command = done.out.splitlines()
    assert folder.startswith(f"# folder: {tmp_path}/rl/game24-tiny24-weak-repexp-counting-s0-")
    assert command.startswith(f"# COUNTING=yes {shlex.quote(sys.executable)} ")
    assert command.endswith(folder.removeprefix("# folder: "))
    assert "harness-rl-" not in done.out  # where it was rehearsed
    assert not list(tmp_path.iterdir())


def test_what_the_machine_lacks_is_said_before_the_start_and_after_the_configuration(train, tmp_path):
    for given in ((), ("--dry-run",)):
        done = train("gpus=8", *given)
        assert done.code == 2
        assert done.err.splitlines()[-1] == "error: counting: this machine has no 8 GPUs"
        assert ("overrides: ['gpus=8']" in done.out) == bool(given)
    assert not list(tmp_path.glob("rl/*"))


def test_a_wrong_training_is_refused_with_one_line_and_leaves_no_folder(train, tmp_path):
    for arguments, message in rl_refusals.COMMAND:
        assert error_line(train(*arguments)).startswith(f"error: {message}"), arguments
    assert not list(tmp_path.glob("rl/*"))


def test_data_out_of_reach_name_the_option_of_the_command(harness, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness_tasks.data.sources.hub_is_out_of_reach", lambda: True)
    last = harness(*TRAIN, "--task", "gsm8k").err.splitlines()[-1]
    assert last.endswith("rl train takes a file for each split: --data train=FILE --data dev=FILE")
    assert not list(tmp_path.iterdir())


def test_a_training_of_hours_is_not_begun_where_nobody_can_be_asked(harness, tmp_path):
    command = [*TRAIN, *SMALL[:4], "--store", tmp_path]  # 4 prompts with 8 rollouts
    alone = harness(*command, "--set", "steps=700").err.splitlines()[-1]
    assert alone.startswith("error: rl train: not begun, since it takes 22,400 responses of up to")
    assert alone.endswith("--set hours=H, --set steps=N and --set batch=N make it shorter")
    several = harness(*command, "--set", "steps=300", "--seeds", "1", "2", "3")  # 9,600 each
    assert "since it takes 28,800 responses" in several.err
    day = harness(*command, "--set", "hours=24", "--seeds", "1", "2", "3")
    assert "since it takes up to about 72:00:00" in day.err
    assert not list(tmp_path.glob("rl/*"))


def test_a_training_without_an_end_is_refused_with_its_size(harness, sums, tmp_path):
    options = ["--task", sums["task"], "--data", sums["data"][""], "--set", "batch=4", "--set", "mini_batch=4", "--yes"]
    for given in ((), ("--dry-run",)):
        done = harness(*TRAIN, *options, "--store", tmp_path, *given)
        line = "error: rl train: neither hours nor steps are given, and 1,000 epochs are 2,000 steps of 32 responses ("
        assert done.code == 2
        assert done.err.splitlines()[-1].startswith(line)
    assert not list(tmp_path.glob("rl/*"))


def test_a_wrong_evaluation_is_refused_with_one_line(harness, tmp_path):
    run = counted_run(tmp_path, 0)
    text = (run.folder / "run.json").read_text()
    other = tmp_path / "other"
    other.mkdir()
    (other / "run.json").write_text(text.replace('"tiny24-weak"', '"tiny24-faint"'))
    for arguments, message in (
        ((run.folder, "--step", "3"), f"rl eval: {run.folder} has no checkpoint at step 3 (it has 2, 4, 6)"),
        ((run.folder, "--split", "train"), "rl eval: --split must be test or dev, got 'train'"),
        ((run.folder, "--n", "0"), "rl eval: --n must be at least 1, got 0"),
        ((run.folder, "--max-tokens", "0"), "rl eval: --max-tokens must be at least 1, got 0"),
        ((run.folder, other), f"rl eval: {other} has the model 'tiny24-faint', {run.folder} 'tiny24-weak': evaluate"),
        ((other,), f"rl eval: {other} has no complete checkpoint"),
    ):
        assert error_line(harness("rl", "eval", *arguments, "--plugin", COUNTING)).startswith(f"error: {message}"), (
            arguments
        )
