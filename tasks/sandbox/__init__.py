"""Run untrusted programs on given inputs and return their results as text; nothing else leaves the sandbox.

A generated program is assumed to be hostile. Of 50 attacks on evalplus 0.3.1, which runs a program in a forked child
that can reach the expected outputs and shared memory, five forged a pass; others killed the checker, wrote files or ran
on after it had ended. The expected outputs never enter this sandbox. Results leave it as canonical text, and the caller
compares them.

    with Sandbox() as sandbox:
        suite = Suite("square", inputs=[[3], [4]], cpu_limits_s=[1.0, 1.0])
        run, = sandbox.run_all(suite, ["def square(x): return x * x"])
        run.status, run.results      # "ok", ["i9", "i10"]

canonical.py               values as text; this text read again, on the trusted side
sandbox.py                 Sandbox: distributes programs over workers
worker.py                  Suite and Run; one worker and what a program writes, seen from the trusted side
tiers.py                   how workers are confined on this machine, the programs that test it, and which Python runs
inside.py                  what runs in the sandbox: the fork server, and the process of one program
confinement.py             the limits that the kernel enforces on that process
forked.py                  checks of ours that may hang or crash, in a program of their own (math-verify)
"""

from .canonical import Malformed, digest, encode, loose, members, number, numbers, same
from .sandbox import Sandbox, shared_sandbox
from .tiers import find_tier
from .worker import Run, Suite

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
