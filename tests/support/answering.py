"""What the process of `harness.system.children.limited` does in tests; importable there."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any


def echo(value: Any) -> Any:
    """Return the value, if it is no word that asks for something else.

    A path: start another process, write both numbers there, and never return. "pid": this process; "die" and "raise".
    """
    if isinstance(value, Path):
        value.write_text(f"{os.getpid()} {subprocess.Popen(['sleep', '1000']).pid}")
        time.sleep(1000)
    if value == "die":
        os._exit(1)
    if value == "raise":
        raise ValueError("no ink left")
    return os.getpid() if value == "pid" else value
