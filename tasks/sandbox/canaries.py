"""Test a tier with programs that try to do harm, before it is used; if one succeeds, the tier is refused."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

from .canonical import encode
from .suites import Run, Suite

SECRET = "only outside"

# Each defines canary(path), which returns True if it could do harm.
HARM = {
    "opened a socket": "import socket\ndef canary(path): return bool(socket.socket())",
    "started a process": "import os\ndef canary(path): return os.fork() > 0 or os._exit(0)",
    "wrote a file": "import os\ndef canary(path): return os.open('/tmp/canary', os.O_CREAT | os.O_WRONLY) >= 0",
    "read a file outside": f"def canary(path): return open(path).read() == {SECRET!r}",
    "signalled its parent": "import os\ndef canary(path): return os.kill(os.getppid(), 0) is None",
    "took too much memory": "import mmap\ndef canary(path): return len(mmap.mmap(-1, 1 << 30)) > 0",
    "ran too long": """
import signal, time
def canary(path):
    try:
        signal.setitimer(signal.ITIMER_PROF, 0)
    except OSError:
        pass
    started = time.process_time()
    while time.process_time() < started + 1:
        pass
    return True
""",
}
HONEST = "def canary(path): return [path, {1: (2.5, 'a')}, 2 ** 70]"

_CPU_S = 0.05


def harm_done(run: Callable[[Suite, str], Run], expect_none: bool = True) -> str:
    """Return what harm a canary could do, in words; "" if none did any and the honest program was right.

    If only the honest program went wrong, return how it ended.

    run           runs one program on a suite
    expect_none   whether to run the harmful programs at all
    """
    with tempfile.TemporaryDirectory(prefix="canary-") as folder:
        path = os.path.join(folder, "secret")
        with open(path, "w") as file:
            file.write(SECRET)
        suite = Suite("canaries", "canary", [[path]], [_CPU_S], memory_bytes=256 << 20, total_cpu_s=5.0)
        for name, program in HARM.items() if expect_none else ():
            if run(suite, program).results == ["T"]:
                return f"a test program {name}"
        return _honest(run(suite, HONEST), path)


def _honest(run: Run, path: str) -> str:
    """Return how the honest program's run ended if that is wrong, else ""."""
    if run.status == "ok" and run.results == [encode([path, {1: (2.5, "a")}, 2**70])]:
        return ""
    return f"an honest test program ended as {run.status} {run.detail}".rstrip()
