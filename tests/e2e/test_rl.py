"""`harness rl train` as a process that is started twice and interrupted; a third party's trainer counts.

One that is killed by signal 9 takes its trainer along: environments/test_trl.py.
"""

import signal
import subprocess

import pytest
from support.processes import alive, descendants, harness_command, run_to_end, wait_for
from support.training_runs import COUNTING

from harness_plugins.rl.training import read_metrics


@pytest.mark.slow
def test_a_second_command_is_refused_and_ctrl_c_ends_the_first_with_its_trainer(tmp_path):
    options = ["--task", "game24", "--model", "tiny24-weak", "--plugin", COUNTING, "--trainer", "counting:waits_at=4"]
    options += ["--set", "batch=4", "--set", "mini_batch=4", "--set", "steps=6", "--limit", "8"]
    command, run = harness_command("rl", "train", *options, "--out", tmp_path / "run"), tmp_path / "run"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: len(read_metrics(run / "metrics.jsonl")) == 3)
            family = descendants(process.pid)
            second = run_to_end(command)
            assert second.returncode == 1
            [line] = second.stderr.splitlines()
            assert f"rl train: {run} is in use by process {process.pid} on " in line
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=240)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "interrupted: the trainer was stopped; the same command goes on from its last checkpoint" in stderr
    assert family
    assert not any(map(alive, family))
