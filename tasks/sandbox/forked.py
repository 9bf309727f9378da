"""Do checks that may hang or crash in a program of their own, `Checker`, and its children.

The program loads what its checks need, once, and calls `serve`. It forks children, under limits that no code in them
can lift, which do the checks of each batch side by side and then wait for the next. The kernel counts a check's CPU
seconds (ITIMER_PROF, whose signal is not caught, so that no Python code sees an exception). A child also has a limit
on memory, writes no file, and is under the sandbox's filter of system calls. It answers in lines of JSON on a pipe;
nothing is unpickled. One that ended is replaced in milliseconds.

All checks of a batch are tried with a small limit first, those that overran it again with the full one: so a few checks
that need seconds never keep a check that needs milliseconds from its outcome.
"""

from __future__ import annotations

import atexit
import gc
import json
import multiprocessing
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from . import confinement

CPU_LIMIT_S = 2.0  # of a check
QUICK_S = 0.2  # of a check's first try; an honest check takes 0.001 to 0.1 s
MEMORY_BYTES = 2 << 30  # address space in addition to that of the loaded libraries
WALL_LIMIT_S = 20.0  # without an answer of any child; only an overloaded machine needs so long for 2 s of CPU time
GO_ON = 3  # exit code of a child that leaves the rest of its checks to a fresh one
RECYCLE = 5_000  # checks of a child before a fresh one replaces it: caches grow
TRIES = 2  # a check whose child is killed from outside is repeated once


class CheckerFailure(Exception):
    """The program cannot start, or ends again and again; the message says why."""


class Checker:
    """The program `main` of a module, which each process that uses it starts at its first check. Thread-safe."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._program: subprocess.Popen[str] | None = None
        _checkers.add(self)

    def outcomes(self, batch: Sequence[Any], bound_s: float) -> list[str]:
        """Return the outcome of each check, in order (see `run_forked`). Raises CheckerFailure.

        bound_s   CPU seconds for all checks together; what they leave no time for is "over"
        """
        children = 1 if multiprocessing.parent_process() is not None else len(os.sched_getaffinity(0))
        outcomes = ["timeout"] * len(batch)
        for limit_s in sorted({min(QUICK_S, CPU_LIMIT_S), CPU_LIMIT_S}):
            again = [index for index, outcome in enumerate(outcomes) if outcome == "timeout"]
            if again:
                count = min(children, 1 + len(again) // 4)  # a few checks are not worth a second warm child
                request = {"checks": [batch[index] for index in again], "children": count, "limit_s": limit_s}
                replies = self._ask(json.dumps(request | {"bound_s": max(bound_s, 0.0)}))
                for index, (outcome, cpu_s) in zip(again, replies, strict=True):
                    outcomes[index] = outcome
                    bound_s -= cpu_s
        return outcomes

    def _ask(self, request: str) -> list[tuple[str, float]]:
        with self._lock:
            for _ in range(TRIES):
                program = self._program = self._program or self._started()
                assert program.stdin is not None
                assert program.stdout is not None
                try:
                    program.stdin.write(request + "\n")
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

    def _started(self) -> subprocess.Popen[str]:
        words, pipe = [sys.executable, "-P", "-c", f"import {self._module} as program; program.main()"], subprocess.PIPE
        environment = {**os.environ, "PYTHONHASHSEED": "0"}  # sympy's order of terms may depend on it
        try:
            program = subprocess.Popen(
                words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
            )
        except OSError as failure:
            raise CheckerFailure(f"{sys.executable}: {failure.strerror}") from failure
        assert program.stdout
        greeting = json.loads(program.stdout.readline() or '{"failed": "it ended before it was ready"}')
        if "ready" not in greeting:
            self._program = program
            self.forget()
            raise CheckerFailure(f"{sys.executable}: {greeting['failed']}")
        return program

    @property
    def pid(self) -> int | None:
        return self._program.pid if self._program else None

    def forget(self, is_ours: bool = True) -> None:
        """End the program; of a parent process's only close the pipes, so that it ends with that."""
        program, self._program = self._program, None
        if program is not None:
            assert program.stdin is not None
            assert program.stdout is not None
            if is_ours:
                program.kill()
            with suppress(OSError):  # a request that it never read
                program.stdin.close()
            program.stdout.close()
            program.returncode = program.wait() if is_ours else 0


_checkers: weakref.WeakSet[Checker] = weakref.WeakSet()


def _forget_the_parents() -> None:
    for checker in _checkers:
        checker._lock = threading.Lock()
        checker.forget(is_ours=False)


os.register_at_fork(after_in_child=_forget_the_parents)


@atexit.register
def _forget_all() -> None:
    for checker in _checkers:
        checker.forget()


def serve(load: Callable[[], Callable[[Any], str]]) -> None:
    """Load what the checks need, then do those that are asked for, until standard input ends.

    load   returns the function that does a check
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    try:
        do = load()
    except BaseException as failure:
        print(json.dumps({"failed": f"{type(failure).__name__}: {failure}"}), flush=True)
        return
    gc.freeze()
    print(json.dumps({"ready": os.getpid()}), flush=True)
    idle: list[_Child] = []
    for line in sys.stdin:
        print(json.dumps(run_forked(do, idle=idle, **json.loads(line))), flush=True)


class _Child(NamedTuple):
    """A child, and the pipes on which it takes requests and answers."""

    pid: int
    requests: int
    answers: int


def run_forked(
    do: Callable[[Any], str],
    checks: list[Any],
    children: int,
    limit_s: float,
    bound_s: float,
    idle: list[_Child] | None = None,
) -> list[list[Any]]:
    """Return [outcome, CPU seconds] of each check, done by `children` processes side by side.

    An outcome is what `do` returns, or how the check ended: "memory", "timeout" (after `limit_s` CPU seconds),
    "crashed", "lost" (its process was killed from outside, twice), or "over": the CPU seconds of all checks together,
    `bound_s` shared by the children, were used up before it.

    idle   children that wait for work; those that have ended theirs are added. None: all are ended
    """
    waiting_children = [] if idle is None else idle
    outcomes: list[list[Any]] = [["over", 0.0] for _ in checks]
    waiting = [deque(range(first, len(checks), children)) for first in range(min(children, len(checks)))]
    spent = [0.0] * len(waiting)
    tries = [0] * len(checks)
    running: dict[int, tuple[int, _Child, bytearray]] = {}  # pipe of answers -> queue, child, what it wrote
    while True:
        for queue in set(range(len(waiting))) - {each for each, _, _ in running.values()}:
            if waiting[queue] and spent[queue] < bound_s / len(waiting):
                child = waiting_children.pop() if waiting_children else _fork(do)
                request = {"checks": [checks[index] for index in waiting[queue]], "limit_s": limit_s}
                request["bound_s"] = bound_s / len(waiting) - spent[queue]
                running[child.answers] = (queue, child, bytearray())
                with suppress(BrokenPipeError):  # it was killed while it waited
                    _write(child.requests, json.dumps(request).encode() + b"\n")
        if not running:
            for child in waiting_children if idle is None else ():
                _end(child)
            return outcomes
        ready = select.select(list(running), [], [], WALL_LIMIT_S)[0]
        for pipe in ready or list(running):
            queue, child, written = running[pipe]
            part = os.read(pipe, 1 << 16) if ready else b""
            written += part
            *lines, rest = written.split(b"\n")
            written[:] = rest
            for line in lines:
                answer = json.loads(line)
                if answer is None:  # it has done all, or its time is over
                    waiting[queue].clear()
                    waiting_children.append(child)
                    del running[pipe]
                else:
                    index = waiting[queue].popleft()
                    outcomes[index] = answer
                    spent[queue] += answer[1]
            if part:
                continue
            del running[pipe]
            code = _end(child)
            if code == GO_ON:
                continue
            ended = {-signal.SIGPROF: "timeout", -signal.SIGSEGV: "crashed", -signal.SIGABRT: "crashed"}.get(
                code, "lost"
            )
            index = waiting[queue][0]
            tries[index] += 1
            if ended != "lost" or tries[index] >= TRIES:
                outcomes[waiting[queue].popleft()] = [ended, 0.0 if ended == "lost" else limit_s]
                spent[queue] += outcomes[index][1]


def _write(pipe: int, content: bytes) -> None:
    while content:
        content = content[os.write(pipe, content) :]


def _end(child: _Child) -> int:
    """End a child; return its exit code, or minus the signal that ended it."""
    os.close(child.requests)
    os.close(child.answers)
    os.kill(child.pid, signal.SIGKILL)  # one that has ended already keeps the status that it ended with
    return os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])


def _fork(do: Callable[[Any], str]) -> _Child:
    """Start a child that does the checks of each request in turn, and says null after the last."""
    (taken, requests), (answers, given) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid:
        os.close(taken)
        os.close(given)
        return _Child(pid, requests, answers)
    try:
        os.dup2(taken, 0)
        os.dup2(given, 1)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # those of the other children: each ends when its own is closed
        arm = _confine()
        served = 0
        while request := _line():
            started = time.process_time()
            for check in request["checks"]:
                before = time.process_time()
                if before - started >= request["bound_s"]:
                    break
                arm(request["limit_s"])
                outcome = _outcome(do, check)
                arm(0.0)
                _write(1, json.dumps([outcome, time.process_time() - before]).encode() + b"\n")
                served += 1
                if outcome == "memory" or served >= RECYCLE:
                    os._exit(GO_ON)
            _write(1, b"null\n")
        os._exit(0)
    finally:
        os._exit(1)


def _line() -> Any:
    """Return the next request; None if there are no more."""
    content = bytearray()
    while not content.endswith(b"\n"):
        part = os.read(0, 1 << 16)
        if not part:
            return None
        content += part
    return json.loads(content)


def _outcome(do: Callable[[Any], str], check: Any) -> str:
    try:
        return do(check)
    except MemoryError:
        return "memory"


def _confine() -> Callable[[float], Any]:
    """Put this process under its limits; return the function that sets its CPU limit in seconds (0 removes it)."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with suppress(OSError), open("/proc/self/statm") as file:
        most = int(file.read().split()[0]) * resource.getpagesize() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with suppress(OSError, KeyError):  # a container may forbid it, a machine may have no table; the other limits hold
        confinement.give_up_privileges()
        confinement.Filter().install()
        return lambda cpu_s: confinement.arm(cpu_s, 0.0)  # the filter allows the address of this timer only
    return lambda cpu_s: signal.setitimer(signal.ITIMER_PROF, cpu_s)
