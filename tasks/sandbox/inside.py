"""The fork server, which runs in the sandbox; each fork runs one program on all inputs of a suite.

Requests arrive on file descriptor 0, frames leave on 1. A program's process has only a pipe to the fork server and
writes lines to it. The fork server puts them into frames, so that a program can forge neither a frame nor another
program's result. A program's process is a copy of the fork server's memory, but no other program's source or result is
in it: sources are wiped after the fork, lines pass through one buffer that is wiped, and expected outputs never enter
the sandbox. When descriptor 0 hangs up, because the harness ended or was killed, everything in the sandbox ends.

A program can find and disarm the timers in its own process that limit a test. So the fork server counts the lines, and
kills a process that has used too much CPU time before its next line.

The cost of a fork is that of copying page tables. So few modules are loaded before: those that many solutions import.

This file is sent into the sandbox as source, with the modules that it imports: standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import pickle
import random
import select
import signal
import struct
import sys
import termios
import time
import warnings
from collections.abc import Callable, Iterator
from os import _exit
from typing import Any

from . import bounds, canonical, child, confinement

PRELOAD = (
    "bisect", "cmath", "collections", "copy", "datetime", "functools", "heapq", "itertools", "math", "operator", "re",
    "string", "typing",
)  # fmt: skip

TICK_S = 0.02  # the interval at which a running program's results are read
PIPE_BYTES = 1 << 16  # the capacity of a pipe
MANY = 1 << 14  # after so many bytes in one interval, results are read as they arrive


class _Gone(Exception):
    """The other side has hung up."""


class Server:
    """Answers requests, one at a time, until the other side hangs up."""

    def __init__(self, settings: dict[str, Any]):
        self.tier = settings["tier"]
        self.pid = os.getpid()
        self.null = os.open("/dev/null", os.O_RDWR)
        self.base = _address_space()
        self.suites: dict[str, dict[str, Any]] = {}
        self.filter = confinement.compile_filter()
        if self.filter is None and self.tier != "none":
            raise OSError(f"there is no table of system calls for {os.uname().machine}")
        confinement.default_signals()
        confinement.prefer_for_oom()
        confinement.give_up_privileges()
        if self.tier == "landlock":
            confinement.landlock(settings["readable"], settings["listable"])

    def serve(self) -> None:
        """Answer requests until the other side hangs up, which raises _Gone."""
        while True:
            kind, serial, head, body = _request()
            if kind == "suite":
                self.learn(head, body)
            elif kind == "run":
                suite = self.suites[head["suite"]] = self.suites.pop(head["suite"])
                work = functools.partial(child.run_tests, suite, head["stop_at_raise"])
                self.fork(serial, suite, suite["allowances"], body, work)
            elif kind == "normalise":
                self.fork(serial, head, [bounds.PARSE_CPU_S + bounds.SPARE_CPU_S], body, child.normalise)

    def learn(self, key: str, body: bytearray) -> None:
        """Unpickle and store a suite, and send `+`; if it does not load, send `!` and the reason.

        Each input was pickled separately, so that no two tests share a list. Only the last used suites stay stored.

        key    the hash of the suite
        body   the pickled suite
        """
        try:
            suite = pickle.loads(body)
            suite["inputs"] = [pickle.loads(pickled) for pickled in suite["inputs"]]
            suite["allowances"] = child.allowances(suite)
        except Exception as problem:
            _send(b"!", f"{type(problem).__name__}: {problem}".encode("utf-8", "replace"))
            return
        self.suites[key] = suite
        while len(self.suites) > bounds.KEPT_SUITES:
            del self.suites[next(iter(self.suites))]
        gc.collect()
        gc.freeze()
        _send(b"+")

    def fork(
        self,
        serial: int,
        limits: dict[str, Any],
        allowances: list[float],
        body: bytearray,
        work: Callable[[bytearray], None],
    ) -> None:
        """Do the work in a new process, pass its lines on, and send how it ended.

        serial       the number of the request
        limits       memory_bytes, total_cpu_s and pipe_bytes of the process
        allowances   CPU seconds that it may use before each of its lines
        body         the argument of `work`, which is wiped after the fork
        """
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self.enter(writing, limits)
                work(body)
            finally:  # also if the program has damaged what `work` uses
                _exit(1)
        os.close(writing)
        body[:] = bytes(len(body))
        try:
            ending = _Relay(serial, pid, reading, limits["pipe_bytes"], allowances).relay()
        finally:
            os.close(reading)
        _send(b"e", json.dumps(ending).encode())

    def enter(self, writing: int, limits: dict[str, Any]) -> None:
        """Turn this process into that of a program: only the result pipe is open, limits and filter are set."""
        for descriptor in range(3):
            os.dup2(self.null, descriptor)
        os.dup2(writing, child.RESULT_PIPE)
        os.closerange(child.RESULT_PIPE + 1, 256)
        os.set_blocking(child.RESULT_PIPE, False)
        try:
            self.confine(limits)
        except Exception as problem:
            os.write(child.RESULT_PIPE, f"-{problem}\n".encode())
            raise
        os.write(child.RESULT_PIPE, child.ENTERED)

    def confine(self, limits: dict[str, Any]) -> None:
        """Seed the random generators, then set the limits and the filter of system calls."""
        random.seed(0)  # so that a program always gets the same verdict
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(0)
        confinement.die_with_parent(self.pid)
        confinement.limit_resources(self.base + limits["memory_bytes"], limits["total_cpu_s"])
        if self.filter is not None:
            confinement.install(self.filter)


class _Relay:
    """Watches one process: passes its lines on, and kills it on request, if it is too slow, or if it writes too much.

    bound        bytes that it may write
    allowances   CPU seconds that it may use before each line; the last value holds for all further lines
    """

    def __init__(self, serial: int, pid: int, reading: int, bound: int, allowances: list[float]):
        self.serial, self.pid, self.reading, self.left = serial, pid, reading, bound
        self.allowances = allowances
        self.lines, self.cpu_bound = 0, allowances[0]
        self.buffer = bytearray(PIPE_BYTES)
        self.deadline = time.monotonic() + bounds.IDLE_S
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN)
        self.ended = _pidfd(pid)
        self.poll.register(reading if self.ended is None else self.ended, select.POLLIN)

    def relay(self) -> tuple[str, int, float]:
        """Watch the process until it has ended, and return how it ended, and its CPU seconds in all.

        It ended with ("exit", code), ("signal", number) or, if this method killed it, (reason, 0), a reason of `watch`.
        """
        reason = self.watch()
        if reason:
            os.kill(self.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self.pid, 0)
        if self.ended is not None:
            os.close(self.ended)
        cpu_s = usage.ru_utime + usage.ru_stime
        if reason:
            return reason, 0, cpu_s
        signalled = os.WIFSIGNALED(status)
        return ("signal", os.WTERMSIG(status), cpu_s) if signalled else ("exit", os.WEXITSTATUS(status), cpu_s)

    def watch(self) -> str:
        """Return "" when the process has ended, or why it must be killed: "stopped", "stalled", "timeout", ..."""
        while True:
            ready = {descriptor for descriptor, _ in self.poll.poll(TICK_S * 1000)}
            if 0 in ready and self.must_stop():
                return "stopped"
            has_ended = self.ended in ready
            closed = self.drain()
            if self.left < 0:
                return "output"
            if has_ended or (closed and self.ends()):
                return ""
            if closed:
                return "closed"
            if _threads(self.pid) > bounds.THREADS:
                return "threads"
            cpu_s = _cpu_time(self.pid)
            if cpu_s > self.cpu_bound:
                return "timeout"
            if time.monotonic() > self.deadline + bounds.WALL_PER_CPU * cpu_s:
                return "stalled"

    def must_stop(self) -> bool:
        """Read a request, and return whether it is to stop this process."""
        kind, serial, _, _ = _request()
        return kind == "stop" and serial == self.serial

    def drain(self) -> bool:
        """Pass on what the process has written, and count its lines; return whether it has closed its end of the pipe.

        The time until the harness has taken it does not count for the program.
        """
        started, before = time.monotonic(), self.lines
        while self.left >= 0 and (length := _waiting(self.reading)):
            self.left -= length
            if length > MANY:
                self.poll.register(self.reading, select.POLLIN)
            if self.left >= 0:
                self.pass_on(length)
        if self.lines > before:
            allowance = self.allowances[min(self.lines, len(self.allowances) - 1)]
            self.cpu_bound = _cpu_time(self.pid) + allowance
        self.deadline += time.monotonic() - started
        return _hung_up(self.reading)

    def pass_on(self, length: int) -> None:
        """Pass so many bytes on, through a buffer that is wiped afterwards."""
        view = memoryview(self.buffer)
        while length:
            count = os.readv(self.reading, [view[:length]])
            length -= count
            self.lines += self.buffer.count(b"\n", 0, count)
            _write(struct.pack("<cI", b"d", count))
            _write(view[:count])
            view[:count] = bytes(count)

    def ends(self) -> bool:
        """Whether the process, which has closed its pipe, ends within 0.1 s."""
        for _ in range(100):
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
            time.sleep(0.001)
        return False


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:  # Linux before 5.3
        return None


def _cpu_time(pid: int) -> float:
    """Return the CPU seconds of a process, read from its clock, whose number is that of clock_getcpuclockid(3)."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _threads(pid: int) -> int:
    """Return the number of a process's threads, from the links to their folder: RLIMIT_NPROC does not limit root."""
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2
    except OSError:
        return 0


def _address_space() -> int:
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[0]) * os.sysconf("SC_PAGESIZE")


def _waiting(pipe: int) -> int:
    """Return the number of bytes in a pipe."""
    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))[0])


def _hung_up(pipe: int) -> bool:
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return [event for _, event in poll.poll(0)] == [select.POLLHUP]


# Frames


def _take(length: int) -> bytearray:
    """Read so many bytes. Raises _Gone if the other side has hung up."""
    data = bytearray(length)
    rest = memoryview(data)
    while rest:
        count = os.readv(0, [rest])
        if not count:
            raise _Gone
        rest = rest[count:]
    return data


def _request() -> tuple[str, int, Any, bytearray]:
    """Return the next request: kind, serial number, head, and the body, of which this process has no other copy."""
    header, body = struct.unpack("<II", _take(8))
    kind, serial, head = pickle.loads(_take(header))
    return kind, serial, head, _take(body)


def _send(kind: bytes, payload: bytes = b"") -> None:
    _write(struct.pack("<cI", kind, len(payload)) + payload)


def _write(data: bytes | memoryview) -> None:
    rest = memoryview(data)
    with _broken_pipe_as_gone():
        while rest:
            rest = rest[os.write(1, rest) :]


@contextlib.contextmanager
def _broken_pipe_as_gone() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise _Gone from None


# The start


def main(settings: dict[str, Any]) -> None:
    """Load the modules that programs use, confine this process, send a greeting, then answer requests.

    settings   tier, numpy (its parent folder or None), and Landlock's paths: readable, listable
    """
    warnings.simplefilter("ignore")
    for name in PRELOAD:
        importlib.import_module(name)
    if settings["numpy"] is not None:
        sys.path.append(settings["numpy"])
        importlib.import_module("numpy.random")
        canonical.learn_numpy()
    server = Server(settings)
    gc.collect()
    gc.freeze()
    try:
        _send(b"+")
        server.serve()
    except _Gone:
        _exit(0)  # a program that still runs ends with this process
