"""What the sandbox's tests run: a function on two inputs, programs on inputs of one argument, and changed workers."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness_tasks.sandbox import Run, Sandbox, Suite, shared_sandbox, tiers, worker
from support.processes import descendants

if TYPE_CHECKING:
    import pytest

SQUARE = "def square(x): return x * x"
SQUARES = Suite("square", [[3], [4]], [1.0, 1.0])
NINE_SIXTEEN = ["i9", "i10"]


def results(sandbox: Sandbox, program: str, *inputs: Any, **bounds: Any) -> Run:
    """The run of a program whose `solve` is called on inputs of one argument each."""
    suite = Suite("solve", [[value] for value in inputs], **{"cpu_limits_s": [2.0] * len(inputs), **bounds})
    return sandbox.run_all(suite, [program])[0]


def change_source(monkeypatch: pytest.MonkeyPatch, module: str, old: str, new: str) -> None:
    """Let workers started from now on have a changed source."""
    sources = dict(worker._sources())
    assert sources[module].count(old) == 1
    sources[module] = sources[module].replace(old, new)
    monkeypatch.setattr(worker, "_sources", lambda: list(sources.items()))
    tiers._problem.cache_clear()


def workers_and_squares() -> tuple[int, list[str]]:
    """How many workers the shared sandbox of this process has, and what it returns; runs in child processes too."""
    shared = shared_sandbox(unsafe_exec=True)
    return shared.workers, shared.run_all(SQUARES, [SQUARE])[0].results


def worker_processes(sandbox: Sandbox) -> list[int]:
    """The processes of a sandbox's workers and of the programs in them, each after the one that started it."""
    return [pid for worker in list(sandbox._users) for pid in (worker._process.pid, *descendants(worker._process.pid))]


def programs_cpu_s(sandbox: Sandbox) -> float:
    """The CPU seconds of the programs that have ended, by what the kernel has added to their parents' account."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in worker_processes(sandbox)]
    return sum(int(of_children) for field in fields for of_children in field[13:15]) / os.sysconf("SC_CLK_TCK")


def strike(sandbox: Sandbox, number: int) -> bool:
    """Send a signal to the workers' processes, all stopped before: none may report that another was killed."""
    pids = worker_processes(sandbox)
    for sent in (signal.SIGSTOP, number):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sent)
    return True
