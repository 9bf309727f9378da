"""Do checks that may hang or crash in a program of their own, `Checker`, and its children.

The program loads what its checks need, once, and calls `serve`. It forks children, under limits that no code in them
can lift, which do one check after the other. The kernel counts a check's CPU seconds (ITIMER_PROF, whose signal is not
caught, so that no Python code sees an exception). A child also has a limit on memory, writes no file, and is under the
sandbox's filter of system calls. It answers in lines of JSON on a pipe; nothing is unpickled. One that ended is
replaced in milliseconds.

All checks of a batch are tried with a small limit first, those that overran it again with the full one: so a few checks
that need seconds never keep a check that needs milliseconds from its outcome.
"""

from __future__ import annotations

import atexit
import gc
import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from . import confinement

CPU_LIMIT_S = 2.0  # of a check
QUICK_S = 0.2  # of a check's first try; an honest check takes 0.001 to 0.1 s
MEMORY_BYTES = 2 << 30  # address space in addition to that of the loaded libraries
WALL_LIMIT_S = 20.0  # without an answer of any child; only an overloaded machine needs so long for 2 s of CPU time
RECYCLE = 5_000  # checks of a child before a fresh one replaces it: caches grow
TRIES = 2  # a check whose child is killed from outside is repeated once

_ENDINGS = {-signal.SIGPROF: "timeout", -signal.SIGSEGV: "crashed", -signal.SIGABRT: "crashed"}


class CheckerFailure(Exception):
    """The program cannot start, or ends again and again; the message says why."""


class Checker:
    """The program `main` of a module, which each process that uses it starts at its first check. Thread-safe."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._program: Any = None  # a Popen with pipes
        atexit.register(self.forget)
        os.register_at_fork(after_in_child=self._forget_the_parents)

    def outcomes(self, batch: Sequence[Any], bound_s: float) -> list[str]:
        """Return the outcome of each check, in order (see `run_forked`). Raises CheckerFailure.

        bound_s   CPU seconds for all checks together; what they leave no time for is "over"
        """
        cores = 1 if multiprocessing.parent_process() is not None else len(os.sched_getaffinity(0))
        outcomes = ["timeout"] * len(batch)
        for limit_s in sorted({QUICK_S, CPU_LIMIT_S}):
            if again := [index for index, outcome in enumerate(outcomes) if outcome == "timeout"]:
                children = min(cores, 1 + len(again) // 4)  # a few checks are not worth a second warm child
                checks = [batch[index] for index in again]
                for index, (outcome, cpu_s) in zip(again, self._ask(checks, children, limit_s, bound_s), strict=True):
                    outcomes[index] = outcome
                    bound_s -= cpu_s
        return outcomes

    def _ask(self, *request: Any) -> list[tuple[str, float]]:
        with self._lock:
            for _ in range(TRIES):
                program = self._program = self._program or self._started()
                try:
                    program.stdin.write(json.dumps(request) + "\n")
                    program.stdin.flush()
                    if reply := program.stdout.readline():
                        return [(outcome, cpu_s) for outcome, cpu_s in json.loads(reply)]
                except OSError:
                    pass
                except BaseException:  # interrupted: its reply must not be taken for that to the next request
                    self.forget()
                    raise
                self.forget()
        raise CheckerFailure("it ended twice")

    def _started(self) -> Any:
        words = [sys.executable, "-P", "-c", f"import {self._module} as program; program.main()"]
        options: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        environment = {**os.environ, "PYTHONHASHSEED": "0"}  # sympy's order of terms may depend on it
        try:
            program: Any = subprocess.Popen(words, env=environment, **options)
        except OSError as failure:
            raise CheckerFailure(f"{sys.executable}: {failure.strerror}") from failure
        if greeting := json.loads(program.stdout.readline() or '"it ended before it was ready"'):
            self._program = program
            self.forget()
            raise CheckerFailure(f"{sys.executable}: {greeting}")
        return program

    @property
    def pid(self) -> int | None:
        return self._program.pid if self._program else None

    def forget(self, is_ours: bool = True) -> None:
        """End the program; of a parent process's only close the pipes, so that it ends with that."""
        program, self._program = self._program, None
        if program is not None:
            if is_ours:
                program.kill()
            with suppress(OSError):  # a request that it never read
                program.stdin.close()
            program.stdout.close()
            program.returncode = program.wait() if is_ours else 0

    def _forget_the_parents(self) -> None:
        self._lock = threading.Lock()
        self.forget(is_ours=False)


# The program


def serve(load: Callable[[], Callable[[Any], str]]) -> None:
    """Load what the checks need, then do those that are asked for, until standard input ends.

    load   returns the function that does a check
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    try:
        do = load()
    except BaseException as failure:
        print(json.dumps(f"{type(failure).__name__}: {failure}"), flush=True)
        return
    gc.freeze()
    print(json.dumps(""), flush=True)
    idle: list[_Child] = []
    for line in sys.stdin:
        checks, children, limit_s, bound_s = json.loads(line)
        print(json.dumps(run_forked(do, checks, children, limit_s, bound_s, idle)), flush=True)


def run_forked(
    do: Callable[[Any], str], checks: list[Any], children: int, limit_s: float, bound_s: float, idle: list[_Child]
) -> list[list[Any]]:
    """Return [outcome, CPU seconds] of each check, done by at most `children` processes side by side.

    An outcome is what `do` returns, or how the check ended: "memory", "timeout" (after `limit_s` CPU seconds),
    "crashed", "lost" (its process was killed from outside, twice), or "over": the CPU seconds of all checks together,
    `bound_s`, were used up before it began.

    idle   children that wait for work; those that have done theirs are added
    """
    outcomes: list[list[Any]] = [["over", 0.0] for _ in checks]
    waiting = list(range(len(checks)))[::-1]
    tries = Counter[int]()
    busy: dict[int, tuple[_Child, int]] = {}  # by the pipe of answers: the child and the check that it does
    spent_s = 0.0
    while True:
        # as if all that run used up their limit: so which ones are over depends on no timing
        while waiting and len(busy) < children and spent_s + limit_s * len(busy) < bound_s:
            child, index = idle.pop() if idle else _Child(do), waiting.pop()
            child.ask(checks[index], limit_s)
            busy[child.answers] = child, index
        if not busy:
            return outcomes
        ready = select.select(list(busy), [], [], WALL_LIMIT_S)[0]
        for pipe in ready or list(busy):
            child, index = busy.pop(pipe)
            line = os.read(pipe, 1 << 16) if ready else b""  # a short line, which is written in one piece
            if line:
                outcomes[index] = json.loads(line)
                if outcomes[index][0] == "memory" or child.checks >= RECYCLE:
                    child.end()
                else:
                    idle.append(child)
            else:
                ended = _ENDINGS.get(child.end(), "lost")
                tries[index] += 1
                if ended == "lost" and tries[index] < TRIES:
                    waiting.append(index)
                    continue
                outcomes[index] = [ended, 0.0 if ended == "lost" else limit_s]
            spent_s += outcomes[index][1]


class _Child:
    """A process that does one check after the other, and the pipes on which it takes requests and answers."""

    def __init__(self, do: Callable[[Any], str]):
        (taken, self.requests), (self.answers, given) = os.pipe(), os.pipe()
        self.checks = 0
        self.pid = os.fork()
        if self.pid:
            os.close(taken)
            os.close(given)
            return
        try:
            os.dup2(taken, 0)
            os.dup2(given, 1)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # those of the other children: each ends when its own is closed
            arm = _confine()
            for line in os.fdopen(0):
                check, limit_s = json.loads(line)
                before = time.process_time()
                arm(limit_s)
                try:
                    outcome = do(check)
                except MemoryError:
                    outcome = "memory"
                arm(0.0)
                os.write(1, json.dumps([outcome, time.process_time() - before]).encode())
        finally:
            os._exit(1)

    def ask(self, check: Any, limit_s: float) -> None:
        self.checks += 1
        content = json.dumps([check, limit_s]).encode() + b"\n"
        with suppress(BrokenPipeError):  # it was killed while it waited
            while content:
                content = content[os.write(self.requests, content) :]

    def end(self) -> int:
        """End the process; return its exit code, or minus the signal that ended it."""
        os.close(self.requests)
        os.close(self.answers)
        os.kill(self.pid, signal.SIGKILL)  # one that has ended already keeps the status that it ended with
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _confine() -> Callable[[float], Any]:
    """Put this process under its limits; return the function that sets its CPU limit in seconds (0 removes it)."""
    confinement.limit_resources(confinement.address_space() + MEMORY_BYTES, 2 * RECYCLE * CPU_LIMIT_S)
    with suppress(OSError, KeyError):  # a container may forbid it, a machine may have no table; the other limits hold
        confinement.give_up_privileges()
        confinement.Filter().install()
        return confinement.arm  # the filter allows the address of this timer only
    return lambda cpu_s: signal.setitimer(signal.ITIMER_PROF, cpu_s)
