"""Run a user's commands one after another in a process of their own, the keeper, which leaves nothing behind.

Each command and all that it starts ends with it, or when its time is up, or when the owner of the keeper ends, even by
SIGKILL: the keeper then reads the end of its pipe. A keeper runs one command at a time; several are several processes.
It has a folder for the files of its commands, which it deletes at the end.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .children import started

GRACE_S = 2.0  # between SIGTERM and SIGKILL
LOOK_S = 0.2  # how often the keeper looks whether its owner has ended
MOST = 65_536  # bytes of output that are read, the last ones


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    status    its exit status, -n if signal n ended it; None if it was ended because its time was up
    out, err  the ends of its stdout and stderr
    """

    status: int | None
    out: str
    err: str


class Keeper:
    """A process that runs commands for this one; `folder` is for their files."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="harness-"))
        command = [sys.executable, "-P", "-m", "harness.system.keeper", str(self.folder)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)

    def run(self, command: list[str], limit_s: float) -> Ended:
        """Run a command in this process' working directory, without input; OSError if it cannot be started."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"command": command, "limit_s": limit_s}).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise OSError("the process that runs the commands was ended")
        answer: dict[str, Any] = json.loads(line)
        if "fault" in answer:
            raise OSError(answer["fault"])
        return Ended(answer["status"], _end_of(self.folder / "out"), _end_of(self.folder / "err"))

    def close(self) -> None:
        """End the keeper, and a command that it runs."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MOST))
        return file.read().decode("utf-8", "replace")


def main() -> None:
    """Run the commands that come through stdin, until it is closed."""
    folder = Path(sys.argv[1])
    try:
        while line := sys.stdin.buffer.readline():
            answer = json.dumps(_run(json.loads(line), folder)).encode() + b"\n"
            sys.stdout.buffer.write(answer)
            sys.stdout.buffer.flush()
    except BrokenPipeError:  # the owner has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    poll = select.poll()
    poll.register(0, select.POLLIN)  # the owner sends nothing before it has the answer: it can only close the pipe
    deadline = time.monotonic() + task["limit_s"]
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        try:
            with started(task["command"], GRACE_S, tied=True, stdout=out, stderr=err) as child:
                while (left_s := deadline - time.monotonic()) > 0 and not poll.poll(0):
                    try:
                        return {"status": child.wait(min(LOOK_S, left_s))}
                    except subprocess.TimeoutExpired:
                        pass
                return {"status": None}
        except (OSError, ValueError) as failure:  # ValueError: a null byte in an argument
            return {"fault": getattr(failure, "strerror", None) or str(failure)}


if __name__ == "__main__":
    main()
