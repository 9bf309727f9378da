"""Runs untrusted programs on given inputs and returns their results as text; nothing that they do gets out otherwise.

A generated program is hostile until shown otherwise: of 50 tries against evalplus 0.3.1 (which runs it in a forked
child, with expected outputs and shared memory at hand) five forged a pass, and others killed the checker, wrote files,
or outlived it. Here expected outputs never enter the sandbox, results leave it as canonical text, and the caller
compares.

    with Sandbox() as sandbox:
        suite = Suite("square", "square", inputs=[[3], [4]], cpu_limits_s=[1.0, 1.0])
        run, = sandbox.run_all(suite, ["def square(x): return x * x"])
        run.status, run.results      # "ok", ["i9", "i10"]

canonical.py, reading.py      values as text, and back
suites.py                     Suite and Run
pool.py                       Sandbox: programs spread over workers
tiers.py, canaries.py         how workers are confined on this machine, and the programs that try it out
interpreters.py               which Python runs the programs, and what it needs
workers.py                    the trusted end of one worker
inside.py, child.py           what runs in the sandbox: the fork server, and the process of one program
confinement.py, syscalls.py   what the kernel holds that process to
bounds.py                     what both sides count with
"""

from __future__ import annotations

from .canonical import digest, encode
from .pool import Sandbox, shared_sandbox
from .reading import Malformed, loose, members, number, numbers, same
from .suites import Run, Suite
from .tiers import find_tier

__all__ = [
    "Malformed",
    "Run",
    "Sandbox",
    "Suite",
    "digest",
    "encode",
    "find_tier",
    "loose",
    "members",
    "number",
    "numbers",
    "same",
    "shared_sandbox",
]
