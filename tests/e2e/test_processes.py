"""A harness that is killed with SIGKILL leaves no process behind, whatever its processes are doing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.paths import SUPPORT, TOY
from support.processes import alive, descendants, harness_command, processes_with, wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc, to see what is left")

LINGERING = SUPPORT / "never_ending.py"
START_S, END_S = 240.0, 30.0  # a loaded machine takes long to start processes


def killed(command, mark: str, ready) -> set[int]:
    """Start a command, SIGKILL it once it is `ready`, and return the processes that it had, itself excepted.

    They inherit `mark` in their environment, but for those of a sandbox, which inherit nothing.
    """
    process = subprocess.Popen(
        command,
        env={**os.environ, "MARK": mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(lambda: ready() or process.poll() is not None, START_S, "the work has begun")
        assert process.poll() is None, "it ended too early"
        family = set(descendants(process.pid)) | processes_with(f"MARK={mark}") - {process.pid}
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return family


def assert_gone(family: set[int], mark: str) -> None:
    try:
        wait_for(lambda: not any(map(alive, {*family, *processes_with(f"MARK={mark}")})), END_S, "all have ended")
    finally:
        for pid in {*family, *processes_with(f"MARK={mark}")}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_killed_run_leaves_no_worker_sandbox_or_checker_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("LINGERING", str(tmp_path))
    command = harness_command("run", "--task", "lingering", "--engine", "toy", "--plugin", TOY, "--plugin", LINGERING)
    command += ["--selector", "shuffle", "--executor", "local:workers=2", "--unsafe-exec"]
    command += ["--store", str(tmp_path / "runs")]

    def ready():
        return list(tmp_path.glob("spinning-*")) and list(tmp_path.glob("sandbox-*"))

    family = killed(command, tmp_path.name, ready)
    assert len(family) >= 8  # tracker, fork server, two workers, their checkers and sandboxes
    assert_gone(family, tmp_path.name)


def test_a_killed_run_leaves_no_bounded_ranking_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("LINGERING", str(tmp_path))
    command = harness_command("run", "--task", "colours", "--engine", "toy", "--plugin", TOY, "--plugin", LINGERING)
    command += ["--selector", "spinning", "--rank-timeout", "600", "--executor", "local:workers=1"]
    command += ["--store", str(tmp_path / "runs")]
    family = killed(command, tmp_path.name, lambda: list(tmp_path.glob("ranking-*")))
    assert len(family) >= 3  # tracker, fork server, the child that ranks
    assert_gone(family, tmp_path.name)
