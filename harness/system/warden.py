"""Run commands for the process that started this one, its owner, and leave nothing of them behind.

`python -m harness.system.warden FOLDER`, as `children.Warden` starts it: a small process in a session of its own, which
Ctrl-C does not reach. Each line of its input is a command to run, each line of its output says how one ended. Its input
closes however the owner ends, even by SIGKILL; it then ends the command, deletes the folder, and ends.

Trainers start servers (Ray starts its raylet, workers and dashboards), some in sessions of their own. On Linux this
process adopts all orphans among its descendants, so that they are found; on other systems a process that leaves both
its parent and its process group gets away.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress
from typing import IO, Any

import psutil

LOOK_S = 0.2  # how often it looks whether its owner has ended
MOST = 1 << 20  # bytes of output that are kept
DIE_WITH_PARENT, ADOPT_ORPHANS = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER


def main() -> None:
    """Run the commands that come through stdin, until it is closed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    _prctl(ADOPT_ORPHANS, 1)
    try:
        with suppress(BrokenPipeError):  # the owner has ended
            while (line := sys.stdin.buffer.readline()) and (answer := _run(json.loads(line))):
                os.write(1, json.dumps(answer).encode() + b"\n")
    finally:
        shutil.rmtree(sys.argv[1], ignore_errors=True)


def _prctl(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _run(task: dict[str, Any]) -> dict[str, Any] | None:
    """How a command ended, or why it could not be started; None if the owner has ended."""
    poll = select.poll()
    poll.register(0, select.POLLIN)  # the owner sends nothing before it has the answer: it can only close the pipe
    deadline = time.monotonic() + (float("inf") if task["limit_s"] is None else task["limit_s"])
    status = None
    try:
        path = task["log"] or task["out"]
        with open(path, "ab" if task["log"] else "wb") if path else nullcontext(subprocess.PIPE) as out:
            child = subprocess.Popen(
                task["command"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT if task["log"] else None if task["out"] else out,
                cwd=task["folder"],
                env=task["environment"],
                start_new_session=True,
                preexec_fn=lambda: _prctl(DIE_WITH_PARENT, signal.SIGKILL),  # if this process is killed
            )
    except (OSError, ValueError) as failure:  # ValueError: a null byte in an argument
        number = failure.errno if isinstance(failure, OSError) else errno.EINVAL
        return {"fault": [number, getattr(failure, "strerror", str(failure)), task["command"][0]]}
    kept = [(pipe, bytearray()) for pipe in (child.stdout, child.stderr) if pipe]
    readers = [threading.Thread(target=_read, args=each, daemon=True) for each in kept]  # so that it never waits
    for reader in readers:
        reader.start()
    try:
        while status is None and (left_s := deadline - time.monotonic()) > 0:
            if poll.poll(0):
                return None
            with suppress(subprocess.TimeoutExpired):
                status = child.wait(min(LOOK_S, left_s))
    finally:
        _end_all(task["grace_s"])
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)  # where orphans are not adopted, only the group is known
    for reader in readers:
        reader.join(1)  # a process that got away may hold the pipe
    return {"status": status, "printed": [tail[-MOST:].decode("utf-8", "replace") for _, tail in kept]}


def _read(pipe: IO[bytes], tail: bytearray) -> None:
    """Keep the last bytes that a child writes into a pipe."""
    with pipe:
        while chunk := os.read(pipe.fileno(), 1 << 16):
            tail += chunk
            if len(tail) > 2 * MOST:
                del tail[:-MOST]


def _end_all(grace_s: float) -> None:
    """End all descendants of this process: by SIGTERM, and after `grace_s` seconds by SIGKILL."""
    deadline = time.monotonic() + grace_s
    asked: set[psutil.Process] = set()
    while family := set(psutil.Process().children(recursive=True)):
        late = time.monotonic() > deadline
        for process in family if late else family - asked:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.send_signal(signal.SIGKILL if late else signal.SIGTERM)
        asked |= family
        psutil.wait_procs(family, timeout=0.02)


if __name__ == "__main__":
    main()
