"""A task whose grading is under way for ever, in the sandbox and in a loop in C, and a selector that ranks for ever.

Its plugin makes executor `local` start worker processes at once.
"""

import os
from pathlib import Path

from harness import Problem, Task, correct, hookimpl
from harness_plugins.executors import local as local_processes

local_processes.ALONE_S = local_processes.START_S = -1.0
ENDS, ENDLESS = "def square(x): return x * x", "def square(x):\n    while True: pass"


def came(where):
    """Leave a file for this process, which has come so far."""
    Path(os.environ["LINGERING"], f"{where}-{os.getpid()}").touch()


class Lingering(Task):
    """Problem 0 is graded at once; every other one keeps its process busy until that is killed."""

    n, max_tokens = 4, 8

    def __init__(self, data=None):
        pass

    def problems(self, split):
        return [Problem(f"{i}", f"Say colour {i}.") for i in range(8)]

    def verify_all(self, problem, responses, *, finish):
        from harness_tasks.math_task import ALGEBRA
        from harness_tasks.sandbox import Suite, shared_sandbox

        ALGEBRA.outcomes([[["equal", "x+x", "2*x"]]], 20.0)
        suite, number = Suite("square", [[3]], [60.0]), int(problem.id)
        if number == 0:
            shared_sandbox(unsafe_exec=True).run_all(suite, [ENDS])
            return [correct() for _ in responses]
        if number % 2:
            came("sandbox")
            shared_sandbox(unsafe_exec=True).run_all(suite, [ENDLESS])
        came("spinning")
        max(iter(int, 1))  # never lets go of the interpreter


class Spinning:
    needs = ()

    def rank(self, pool, rng):
        came("ranking")
        yield max(iter(int, 1))


@hookimpl
def register_selectors(register):
    register("spinning", Spinning)


@hookimpl
def register_tasks(register):
    register("lingering", Lingering)
