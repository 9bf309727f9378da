"""Start vLLM, and end it with all its descendants when the process that owns it is gone.

`python -m harness_plugins.engines.vllm.warden FOLDER OWNER`: a separate small process in its own session, so that
neither Ctrl-C nor the owner's death by SIGKILL ends it before vLLM has ended. Without it vLLM's engine and workers
outlive a killed parent (seen for minutes, with all their memory).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from harness.system.children import run_child

KILLED = "the process was ended by"
GRACE_S = 1.0  # vLLM needs no time to clean up


class Abandoned(Exception):
    """The owner is gone, or has sent SIGTERM."""


def main() -> None:
    """Run the command of FOLDER/command.json until it, or the process OWNER, ends."""
    folder, owner = Path(sys.argv[1]), int(sys.argv[2])
    start = json.loads((folder / "command.json").read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, _leave)

    def watch() -> None:
        if os.getppid() != owner:
            raise Abandoned

    try:
        watch()
        status = run_child(start["command"], start["environment"], folder / "log.txt", watch, GRACE_S)
        if status < 0:
            print(f"{KILLED} {signal.Signals(-status).name}", flush=True)
    except Abandoned:
        pass


def _leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Abandoned


if __name__ == "__main__":
    main()
