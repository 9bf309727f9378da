"""Watches over vLLM: starts it, and ends it and all that descends from it when whoever asked for it is gone.

`python -m harness_plugins.engines.vllm.warden FOLDER OWNER`: a process of its own, small and in a session of its own,
so that neither Ctrl-C nor the owner's death by SIGKILL ends it before its work is done. vLLM's engine and workers
outlive a killed parent otherwise (seen for minutes, with the memory that they hold).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from harness.system.children import run_child

KILLED = "the process was ended by"
GRACE_S = 1.0  # nothing that vLLM does at its end is of use to us


class Abandoned(Exception):
    """The owner is gone, or has asked for the end."""


def main() -> None:
    """Run the command of FOLDER/command.json until it, or the process OWNER, ends."""
    folder, owner = Path(sys.argv[1]), int(sys.argv[2])
    asked = json.loads((folder / "command.json").read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, _leave)

    def watch() -> None:
        if os.getppid() != owner:
            raise Abandoned

    try:
        watch()
        status = run_child(asked["command"], asked["environment"], folder / "log.txt", watch, GRACE_S)
        if status < 0:
            print(f"{KILLED} {signal.Signals(-status).name}", flush=True)
    except Abandoned:
        pass


def _leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Abandoned


if __name__ == "__main__":
    main()
