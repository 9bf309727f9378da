"""A harness that is killed with SIGKILL leaves no process behind, whatever its processes are doing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.hostile_code import descendants
from support.paths import SUPPORT, TOY

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc, to see what is left")

LINGERING = SUPPORT / "never_ending.py"
START_S, END_S = 240.0, 30.0  # a loaded machine takes long to start processes


def marked(mark: str) -> set[int]:
    """The processes that inherited a mark in their environment; those of a sandbox inherit nothing."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.add(int(path.parent.name))
    return found


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition, what: str, limit_s: float):
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {limit_s:g} s")


def killed(command, mark: str, ready) -> set[int]:
    """Start a command, SIGKILL it once it is `ready`, and return the processes that it had, itself excepted."""
    process = subprocess.Popen(
        list(map(str, command)),
        env={**os.environ, "MARK": mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(lambda: ready() or process.poll() is not None, "it is at work", START_S)
        assert process.poll() is None, "it ended too early"
        family = set(descendants(process.pid)) | marked(f"MARK={mark}") - {process.pid}
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return family


def assert_gone(family: set[int], mark: str) -> None:
    try:
        wait_for(lambda: not any(map(running, {*family, *marked(f"MARK={mark}")})), "all have ended", END_S)
    finally:
        for pid in {*family, *marked(f"MARK={mark}")}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_killed_run_leaves_no_worker_sandbox_or_checker_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("LINGERING", str(tmp_path))
    command = [sys.executable, "-m", "harness", "run", "--task", "lingering", "--engine", "toy", "--plugin", TOY]
    command += ["--plugin", LINGERING, "--selector", "shuffle", "--executor", "local:workers=2", "--unsafe-exec"]
    command += ["--store", tmp_path / "runs"]

    def ready():
        return list(tmp_path.glob("spinning-*")) and list(tmp_path.glob("sandbox-*"))

    family = killed(command, tmp_path.name, ready)
    assert len(family) >= 8  # tracker, fork server, two workers, their checkers and sandboxes
    assert_gone(family, tmp_path.name)


def test_a_killed_run_leaves_no_bounded_ranking_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("LINGERING", str(tmp_path))
    command = [sys.executable, "-m", "harness", "run", "--task", "colours", "--engine", "toy", "--plugin", TOY]
    command += ["--plugin", LINGERING, "--selector", "spinning", "--rank-timeout", "600", "--store", tmp_path / "runs"]
    command += ["--executor", "local:workers=1"]
    family = killed(command, tmp_path.name, lambda: list(tmp_path.glob("ranking-*")))
    assert len(family) >= 3  # tracker, fork server, the child that ranks
    assert_gone(family, tmp_path.name)
