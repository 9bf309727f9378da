"""What a process of `harness.system.bounded_child` does in tests; importable there."""

from __future__ import annotations

import subprocess
import time
from multiprocessing.connection import Connection


def echo(link: Connection, greeting: str) -> None:
    """Answer each request by itself; `sleep` starts another process, answers its id, and nothing more."""
    link.send(greeting)
    while (request := link.recv()) != "die":
        if request == "sleep":
            link.send(subprocess.Popen(["sleep", "1000"]).pid)
            time.sleep(1000)
        link.send(request)
