"""A plugin file: engines that fail or wait where a test wants it, in whichever process they run.

Their marks lie beside this file, of which each test takes a copy.
"""

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from harness_file_toy import Parrot

from harness import HarnessError, hookimpl
from harness.system import progress

MARKS = Path(__file__).parent
LIMIT_S = 300.0
progress.SHOW_AFTER_S = progress.PLAIN_EVERY_S = 0.0  # each count is printed: a test may wait for it


@dataclass
class Gated(Parrot):
    """Draws as the parrot; waits after `after` problems of a call, with a file of its process, until the gate opens."""

    after: int = 1

    def sample(self, request):
        def done(j, responses):
            request.done(j, responses)
            if j + 1 == self.after:
                (MARKS / f"waiting-{os.getpid()}").touch()
                deadline = time.monotonic() + LIMIT_S
                while not (MARKS / "open").exists() and time.monotonic() < deadline:
                    time.sleep(0.05)

        return super().sample(replace(request, done=done))


class Faulty(Parrot):
    """Refuses each time that it samples."""

    def sample(self, request):
        with open(MARKS / "calls", "a") as calls:
            calls.write("x")
        raise HarnessError("faulty: no ink left; fill it up")


@hookimpl
def register_engines(register):
    register("gated", Gated)
    register("faulty", Faulty)
