"""Run a user's commands one after another in a process of their own, the keeper, which leaves nothing behind.

Each command and all that it starts ends with it, or when its time is up, or when the owner of the keeper ends, even by
SIGKILL: the keeper then reads the end of its pipe. A keeper runs one command at a time; several are several processes.
It has a folder for the files of its commands, which it deletes at the end.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .children import Tail, started

GRACE_S = 2.0  # between SIGTERM and SIGKILL
LOOK_S = 0.2  # how often the keeper looks whether its owner has ended


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    status    its exit status, -n if signal n ended it; None if it was ended because its time was up
    out, err  the ends of its stdout and stderr
    """

    status: int | None
    out: str
    err: str


class Lost(Exception):
    """The keeper has ended, and with it the command: it was closed, or the command killed it."""


class Keeper:
    """A process that runs commands for this one; `folder` is for their files."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="harness-")).resolve()
        command = [sys.executable, "-P", "-m", "harness.system.keeper", str(self.folder)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)

    def run(self, command: list[str], limit_s: float) -> Ended:
        """Run a command in this process' working directory, without input; OSError if it cannot be started, Lost."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps({"command": command, "limit_s": limit_s}).encode() + b"\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, ValueError):  # ValueError: its pipe is closed, or it wrote no whole line
            raise Lost from None
        if "fault" in answer:
            raise OSError(*answer["fault"])
        return Ended(**answer)

    def close(self) -> None:
        """End the keeper, and a command that it runs."""
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # if it was killed


def main() -> None:
    """Run the commands that come through stdin, until it is closed."""
    try:
        while (line := sys.stdin.buffer.readline()) and (answer := _run(json.loads(line))):
            sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
            sys.stdout.buffer.flush()
    except BrokenPipeError:  # the owner has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    finally:
        shutil.rmtree(sys.argv[1], ignore_errors=True)


def _run(task: dict[str, Any]) -> dict[str, Any] | None:
    """How a command ended, or why it could not be started; None if the owner has ended."""
    poll = select.poll()
    poll.register(0, select.POLLIN)  # the owner sends nothing before it has the answer: it can only close the pipe
    deadline, pipe = time.monotonic() + task["limit_s"], subprocess.PIPE
    try:
        with started(task["command"], GRACE_S, tied=True, stdout=pipe, stderr=pipe) as child:
            assert child.stdout
            assert child.stderr
            out, err = Tail(child.stdout), Tail(child.stderr)
            status = None
            while status is None and (left_s := deadline - time.monotonic()) > 0:
                if poll.poll(0):
                    return None
                with suppress(subprocess.TimeoutExpired):
                    status = child.wait(min(LOOK_S, left_s))
    except OSError as failure:
        return {"fault": [failure.errno, failure.strerror]}
    except ValueError as failure:  # a null byte in an argument
        return {"fault": [errno.EINVAL, str(failure)]}
    return {"status": status, "out": out.text(), "err": err.text()}


if __name__ == "__main__":
    main()
