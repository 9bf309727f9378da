"""Start a trainer, and end it and all its descendants when the owner, the process that started this one, has ended.

`python -m harness.system.warden PIPE` is a separate process in a separate session. PIPE is the reading end of a pipe
whose other end only the owner holds: it closes however the owner ends, even by SIGKILL. The command to start arrives
through the pipe. The warden ends as its command did: by the same signal or with the same status.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
from pathlib import Path
from typing import Any

from .children import run_child


class Abandoned(Exception):
    """The owner has ended, or asked the warden to end."""


def main() -> None:
    """Run the command until the command or the owner ends."""
    pipe = int(sys.argv[1])
    signal.signal(signal.SIGTERM, _leave)
    os.set_inheritable(pipe, False)
    poll = select.poll()
    poll.register(pipe, select.POLLIN)

    def watch() -> None:
        if poll.poll(0):
            raise Abandoned

    try:
        task = _task(pipe)
        status = run_child(task["command"], {}, Path(task["log"]), watch, task["grace_s"], tied=True)
    except Abandoned:
        status = -signal.SIGTERM
    except OSError as failure:
        print(f"error: the command cannot be started: {failure}", file=sys.stderr)
        status = 127
    _end_as(status)


def _task(pipe: int) -> dict[str, Any]:
    """Read the owner's line: command, log, grace_s. The pipe stays open, and nothing more is sent through it."""
    line = bytearray()
    while not line.endswith(b"\n"):
        part = os.read(pipe, 1)
        if not part:
            raise Abandoned
        line += part
    task: dict[str, Any] = json.loads(line)
    return task


def _leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Abandoned


def _end_as(status: int) -> None:
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no handler to reset
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main()
