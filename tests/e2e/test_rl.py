"""`harness rl train` as a process that is killed, interrupted, or started twice; a third party's trainer counts."""

import signal
import subprocess
from pathlib import Path

import pytest
from support.json_lines import read_json_lines
from support.processes import alive, harness_command, run_to_end, wait_for, wait_until_ended
from support.training_runs import COUNTING

from harness_plugins.rl.run_files import read_metrics

pytestmark = pytest.mark.slow


@pytest.fixture
def command(tmp_path) -> list[str]:
    """Train in `run`; the trainer waits before step 4 until that folder holds a file `go`."""
    options = ["--task", "game24", "--model", "tiny24-weak", "--plugin", COUNTING, "--trainer", "counting:waits_at=4"]
    options += ["--set", "batch=4", "--set", "mini_batch=4", "--set", "steps=6", "--limit", "8"]
    return harness_command("rl", "train", *options, "--out", tmp_path / "run")


@pytest.fixture
def waiting(command, tmp_path):
    """The command's process, whose trainer waits before step 4; and the trainer's id."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: len(read_metrics(tmp_path / "run" / "metrics.jsonl")) == 3)
        [trainer] = counting_in(tmp_path / "run")
        yield process, trainer
        process.kill()


def counting_in(folder: Path) -> list[int]:
    """The processes that count in that folder."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().decode(errors="replace").split("\0")[:-1]
        except OSError:
            continue
        if arguments[1:] == [str(COUNTING), str(folder)]:
            pids.append(int(path.parent.name))
    return pids


def test_a_command_killed_by_signal_9_takes_its_trainer_along_and_goes_on_at_once(command, waiting, tmp_path):
    process, trainer = waiting
    process.kill()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as resumed:
        wait_until_ended([trainer], 240)
        (tmp_path / "run" / "go").touch()
        _, stderr = resumed.communicate(timeout=240)
    assert resumed.returncode == 0, stderr
    assert "going on after step 3" in stderr
    steps = [line["step"] for line in read_json_lines(tmp_path / "run" / "metrics.jsonl")]
    assert steps == [1, 2, 3, 4, 5, 6]
    assert not counting_in(tmp_path / "run")


def test_a_second_command_is_refused_and_ctrl_c_ends_the_first_with_its_trainer(command, waiting, tmp_path):
    process, trainer = waiting
    second = run_to_end(command)
    assert second.returncode == 2
    [line] = second.stderr.splitlines()
    assert line.startswith(f"error: rl train: {tmp_path / 'run'} is in use by process {process.pid} on ")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "interrupted: the trainer was stopped; the same command goes on from its last checkpoint" in stderr
    assert not alive(trainer)
