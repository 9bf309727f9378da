"""Run commands in processes of their own, wait for them, kill them, and see what is left of them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def harness_command(*arguments: object) -> list[str]:
    """The command line of `harness ARGUMENTS` as a process."""
    return [sys.executable, "-m", "harness", *map(str, arguments)]


def run_to_end(command: Iterable[object], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command; its exit status and all that it printed."""
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)


def printed_by(code: str, **options: Any) -> str:
    """What a program prints in a fresh interpreter, without the blanks around it; it must exit with 0."""
    return run_to_end([sys.executable, "-c", code], check=True, **options).stdout.strip()


def wait_for(condition: Callable[[], Any], limit_s: float = 240.0, what: str = "what the test waits for") -> Any:
    """The first true value of `condition()`; AssertionError after `limit_s` seconds."""
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.02)
    return value


def kill_when(ready: Callable[[], Any], command: list[str], **options: Any) -> None:
    """Start a command and SIGKILL it as soon as `ready()` is true; AssertionError if it ends before."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    while not ready():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL


def alive(pid: int) -> bool:
    """Whether a process runs still; a zombie does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def wait_until_ended(pids: Iterable[int], limit_s: float) -> None:
    """AssertionError if one of the processes runs still after `limit_s` seconds."""
    pids = list(pids)
    wait_for(lambda: not any(map(alive, pids)), limit_s, f"the end of {pids}")


def descendants(pid: int | None = None) -> list[int]:
    """The processes below one, or below this one."""
    below = []
    for task in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                below += [child, *descendants(child)]
    return below


def processes_with(text: str) -> set[int]:
    """The processes that have this text in their environment."""
    pids = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            pids |= {int(path.parent.name)} if text.encode() in path.read_bytes() else set()
    return pids


def free_port() -> int:
    """A port on loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
