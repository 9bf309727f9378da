"""Commands of `harness` in one process, one after another, so that it joins a cluster once and its workers stay.

As a program it reads lines of JSON, `{"arguments": [...], "folder": ..., "files": ...}`, and writes each command's
output and exit code to `out`, `err` and `code` in the folder `files`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HANGS_S = 300.0


@dataclass
class Finished:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> Any:
        """The table of `--json`."""
        return json.loads(self.out)


class CommandSession:
    """A process for commands; `start` returns where standard error goes, `finish` waits for the command's end."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )

    def start(self, *arguments: object, folder: Path | None = None) -> Path:
        """Start a command in a folder; the file of its standard error."""
        (self.folder / "code").unlink(missing_ok=True)
        (self.folder / "err").write_text("")
        places = {"folder": str(folder or self.folder), "files": str(self.folder)}
        print(json.dumps({"arguments": list(map(str, arguments)), **places}), file=self.process.stdin, flush=True)
        return self.folder / "err"

    def finish(self) -> Finished:
        """Wait for the started command."""
        code, deadline = self.folder / "code", time.monotonic() + HANGS_S
        while not code.exists():
            assert self.process.poll() is None, "the session has died"
            assert time.monotonic() < deadline, (self.folder / "err").read_text()
            time.sleep(0.02)
        return Finished(int(code.read_text()), (self.folder / "out").read_text(), (self.folder / "err").read_text())

    def run(self, *arguments: object, folder: Path | None = None) -> Finished:
        """Run a command to its end."""
        self.start(*arguments, folder=folder)
        return self.finish()

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait(HANGS_S)


def main() -> None:
    """Run the commands of standard input."""
    from harness.cli import main as harness

    for line in sys.stdin:
        wish = json.loads(line)
        files = Path(wish["files"])
        for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
            with open(files / name, "w") as file:
                os.dup2(file.fileno(), stream.fileno())
        os.chdir(wish["folder"])
        sys.argv = ["harness", *wish["arguments"]]
        code = 0
        try:
            harness()
        except SystemExit as stop:
            code = stop.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        (files / "code.part").write_text(str(code))
        (files / "code.part").rename(files / "code")


if __name__ == "__main__":
    main()
