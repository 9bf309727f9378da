"""A harness that is killed with SIGKILL leaves no process behind, whatever its processes are doing."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.paths import SUPPORT, TOY
from support.processes import alive, descendants, harness_command, processes_with, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc, to see what is left"),
]


@pytest.mark.parametrize(
    ("options", "signs", "least"),
    [
        # tracker, fork server, two workers, their checkers and sandboxes
        ("--task lingering --selector shuffle --unsafe-exec --executor local:workers=2", "spinning sandbox", 8),
        # tracker, fork server, the child that ranks
        ("--task colours --selector spinning --rank-timeout 600 --executor local:workers=1", "ranking", 3),
    ],
)
def test_a_killed_run_leaves_no_worker_sandbox_checker_or_ranking_behind(tmp_path, options, signs, least):
    """Its processes inherit a mark in their environment, but for those of a sandbox, which inherit nothing."""
    plugins = ["--plugin", TOY, "--plugin", SUPPORT / "never_ending.py", "--store", tmp_path / "runs"]
    environment = {**os.environ, "LINGERING": str(tmp_path), "MARK": tmp_path.name}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = harness_command("run", "--engine", "toy", *plugins, *options.split())
    process = subprocess.Popen(command, env=environment, start_new_session=True, **quiet)

    def begun():
        return all(list(tmp_path.glob(f"{sign}-*")) for sign in signs.split()) or process.poll() is not None

    def family():
        return {*started, *processes_with(f"MARK={tmp_path.name}")}

    started = set()
    try:
        wait_for(begun, what="the work has begun")
        assert process.poll() is None, "it ended too early"
        started.update(descendants(process.pid), family() - {process.pid})
        process.kill()
        process.wait()
        assert len(started) >= least
        wait_for(lambda: not any(map(alive, family())), 60, "all have ended")
    finally:
        for pid in {process.pid, *family()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
