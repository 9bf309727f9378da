"""Lock a folder, so that one process at a time uses it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import HarnessError

NAME = "lock"  # in the folder: the process that holds it, as `PID on HOST`
ENDING_S = 60.0  # time for the children of a killed process to end
POLL_S = 0.1


@contextmanager
def locked(folder: Path, command: str) -> Iterator[int]:
    """Lock the folder, creating it if needed; yield the lock's file descriptor, so that a child can hold it too.

    HarnessError, one line that starts with `command`, names the process that holds the lock. If that process is dead
    and only its children still hold the lock, wait up to `ENDING_S` seconds for them to end, then raise it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("a+", encoding="utf-8") as file:
        _acquire(file.fileno(), folder, command)
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()} on {platform.node()}\n")
        file.flush()
        yield file.fileno()


def _acquire(descriptor: int, folder: Path, command: str) -> None:
    deadline = time.monotonic() + ENDING_S
    while True:
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder = (folder / NAME).read_text(encoding="utf-8").strip()
        if _runs(holder) or time.monotonic() > deadline:
            raise HarnessError(
                f"{command}: {folder} is in use by process {holder or '?'}: wait for it, end it, or give another --out"
            )
        time.sleep(POLL_S)


def _runs(holder: str) -> bool:
    """Whether the process that holds the lock is running; assumed so if it is on another machine."""
    pid, _, host = holder.partition(" on ")
    if not pid.isdigit() or host != platform.node():
        return bool(holder)
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
