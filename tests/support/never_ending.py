"""A task whose grading is under way for ever, in the sandbox and in a loop in C, and a selector that ranks for ever.

Its plugin makes executor `local` start worker processes at once.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness import Problem, Task, correct, hookimpl
from harness_plugins.executors import local as local_processes

FOLDER = Path(os.environ["LINGERING"])  # a file for each process that has come so far
local_processes.ALONE_S = local_processes.START_S = -1.0


class Lingering(Task):
    """Problem 0 is graded at once; every other one keeps its process busy until that is killed."""

    n, max_tokens = 4, 8

    def __init__(self, data=None):
        pass

    def problems(self, split):
        for i in range(8):
            yield Problem(f"{i}", f"Say colour {i}.")

    def verify_all(self, problem, responses, *, finish):
        from harness_tasks.math_task import ALGEBRA
        from harness_tasks.sandbox import Suite, shared_sandbox

        ALGEBRA.outcomes([[["equal", "x+x", "2*x"]]], 20.0)
        suite = Suite("square", [[3]], [60.0])
        programs = ["def square(x): return x * x", "def square(x):\n    while True: pass"]
        if problem.id == "0":
            shared_sandbox(unsafe_exec=True).run_all(suite, programs[:1])
            return [correct() for _ in responses]
        if int(problem.id) % 2:
            (FOLDER / f"sandbox-{os.getpid()}").touch()
            shared_sandbox(unsafe_exec=True).run_all(suite, programs[1:])
        (FOLDER / f"spinning-{os.getpid()}").touch()
        max(iter(int, 1))  # never lets go of the interpreter


class Spinning:
    """A selector that never lets go of the interpreter."""

    needs = ()

    def rank(self, pool, rng):
        (FOLDER / f"ranking-{os.getpid()}").touch()
        yield max(iter(int, 1))


@hookimpl
def register_selectors(register):
    register("spinning", Spinning)


@hookimpl
def register_tasks(register):
    register("lingering", Lingering)
