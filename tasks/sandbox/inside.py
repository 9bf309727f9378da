"""What runs in the sandbox: the fork server, and the process of each program, which is a fork of it.

The fork server obeys the harness on a socket, its file descriptor 0: it learns suites, forks, says what a program's
process has used, ends it, and says how it ended. A program's process gets a pipe to the harness for its results, and
nothing else. It is a copy of the fork server's memory, but no other program's source or result is in it: the server
wipes sources after the fork and never sees results, and expected outputs never enter the sandbox. When the socket
hangs up, because the harness ended or was killed, everything in the sandbox ends.

A hostile program can reach everything in its own process, this module too, and gains nothing but other text in its own
results. The kernel enforces the time limits (`confinement.arm`). A program can find and disarm the timers of a test, so
the harness counts its lines and its CPU time, and has it ended (`worker.py`).

Lines on the result pipe: `+` once the process is confined, `<ns of CPU> <text>` for each test, `=<status> <detail>` at
the end.

The cost of a fork is that of copying page tables. So few modules are loaded before: those that many solutions import.
This file is sent into the sandbox as source, with the modules that it imports: standard library only.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import random
import re
import signal
import struct
import sys
import time
import types
import warnings
from _socket import CMSG_SPACE, MSG_WAITALL, socket
from os import _exit, write  # by name: a program may patch `os.write`
from select import POLLOUT, poll
from time import thread_time_ns
from typing import Any, NoReturn

from . import canonical, confinement

PRELOAD = (
    "ast", "bisect", "cmath", "collections", "copy", "datetime", "functools", "heapq", "itertools", "math", "operator",
    "re", "string", "typing",
)  # fmt: skip

RESULT_PIPE = 3
ENDS_S = 0.1  # a process that has closed its pipe has so long to end


class Server:
    """Obeys one request after the other. A request is a letter, the length of its body, and the body.

    s   learn or forget a suite: the pickled key, and the suite or None
    r   run a program: the key of a suite and the arguments of `run_tests`, pickled; the result pipe comes with it
    l   look at its process: CPU seconds, number of threads, whether it has ended
    e   end it, after ENDS_S in which it may end by itself; k: at once. CPU seconds, wait status, whether it was killed

    settings   tier, numpy (its parent folder or None), and Landlock's paths: readable, listable
    """

    def __init__(self, settings: dict[str, Any]):
        self.pid, self.program = os.getpid(), 0
        self.null = os.open("/dev/null", os.O_RDWR)
        self.socket = socket(-1, -1, -1, 0)
        self.base = confinement.address_space()
        self.suites: dict[str, dict[str, Any]] = {}
        self.filter: confinement.Filter | None = None
        try:
            self.filter = confinement.Filter()
        except KeyError:
            if settings["tier"] != "none":
                raise OSError(f"there is no table of system calls for {os.uname().machine}") from None
        confinement.give_up_privileges()
        if settings["tier"] == "landlock":
            confinement.landlock(settings["readable"], settings["listable"])

    def serve(self) -> NoReturn:
        """Obey until the other side hangs up; a program that still runs ends with this process."""
        while True:
            header, sent, *_ = self.socket.recvmsg(5, CMSG_SPACE(4), MSG_WAITALL)
            if len(header) < 5:
                _exit(0)
            kind, length = struct.unpack("<cI", header)
            body = bytearray(length)
            if length and self.socket.recv_into(body, length, MSG_WAITALL) < length:
                _exit(0)
            if kind == b"s":
                self.learn(*pickle.loads(body))
            elif kind == b"r":
                pipe = struct.unpack("i", sent[0][2])[0]
                self.program = os.fork()
                if not self.program:
                    self.run(body, pipe)
                os.close(pipe)
                body[:] = bytes(length)  # the source is wiped
            else:
                self.socket.sendall(struct.pack("<di?", *(self.look() if kind == b"l" else self.end(kind == b"e"))))

    def learn(self, key: str, suite: dict[str, Any] | None) -> None:
        """Store a suite, or forget it. Each input was pickled separately, so that no two tests share a list."""
        if suite is None:
            del self.suites[key]
            return
        suite["inputs"] = [pickle.loads(pickled) for pickled in suite["inputs"]]
        self.suites[key] = suite
        gc.collect()
        gc.freeze()

    def run(self, body: bytearray, pipe: int) -> NoReturn:
        """Confine this process, a new one, with only the result pipe open, then run the program."""
        try:
            for descriptor in range(3):
                os.dup2(self.null, descriptor)
            os.dup2(pipe, RESULT_PIPE)
            os.closerange(RESULT_PIPE + 1, 256)
            os.set_blocking(RESULT_PIPE, False)
            try:
                key, *arguments = pickle.loads(body)
                suite = self.suites[key]
                random.seed(0)  # so that a program always gets the same verdict
                if "numpy" in sys.modules:
                    sys.modules["numpy"].random.seed(0)
                confinement.die_with_parent(self.pid)
                confinement.limit_resources(self.base + suite["memory_bytes"], suite["total_cpu_s"])
                if self.filter is not None:
                    self.filter.install()
            except Exception as problem:
                os.write(RESULT_PIPE, f"-{problem}\n".encode())
                raise
            os.write(RESULT_PIPE, b"+\n")
            run_tests(suite, *arguments)
        finally:  # also if the program has damaged what runs it
            _exit(1)

    def look(self) -> tuple[float, int, bool]:
        """Look at the program's process.

        The number of its clock is that of clock_getcpuclockid(3). Threads are links to a folder, since RLIMIT_NPROC
        does not limit root.
        """
        cpu_s, threads = 0.0, 0
        with contextlib.suppress(OSError):
            cpu_s = time.clock_gettime((~self.program << 3) | 2)
            threads = os.stat(f"/proc/{self.program}/task").st_nlink - 2
        has_ended = os.waitid(os.P_PID, self.program, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return cpu_s, threads, has_ended

    def end(self, is_patient: bool) -> tuple[float, int, bool]:
        """End the program's process."""
        end = time.monotonic() + ENDS_S
        while is_alive := not self.look()[2]:
            if not is_patient or time.monotonic() > end:
                os.kill(self.program, signal.SIGKILL)
                break
            time.sleep(0.0001)
        _, status, usage = os.wait4(self.program, 0)
        return usage.ru_utime + usage.ru_stime, status, is_alive


def main(settings: dict[str, Any]) -> NoReturn:
    """Load the modules that programs use, confine this process, greet, then obey."""
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
    server.socket.sendall(b"+")
    server.serve()


# In the process of a program

_PLAIN_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,60}")


class _NoInput:
    """Standard input that raises an error when it is read."""

    def __getattr__(self, name: str) -> Any:
        raise OSError("there is no standard input")


def run_tests(suite: dict[str, Any], stop_at_raise: bool, lent: list[str], program: str) -> NoReturn:
    """Define the program, call its entry point on each input in turn, write the results to the pipe, and exit.

    stop_at_raise   whether to exit after the first test that raises
    lent            sources that are run before the program; they can fail, and only the names that they define count
    """
    left = suite["output_bytes"]  # characters of results that may still be written
    confinement.arm(suite["define_cpu_s"])
    function = _defined(program, lent, suite["entry_point"])
    for arguments, (cpu_s, encode_cpu_s, as_digest) in zip(suite["inputs"], suite["tests"], strict=True):
        confinement.arm(cpu_s)
        started = thread_time_ns()  # while a limit is armed, Linux updates that of all threads only every 4 ms
        try:
            value, raised = function(*arguments), ""
        except MemoryError:
            _end("memory")
        except BaseException as problem:
            value, raised = None, _name(problem)
        cpu_ns = thread_time_ns() - started
        text = f"E{raised}" if raised else _text(value, encode_cpu_s, as_digest, left)
        left -= len(text)
        if left < 0:
            _end("output")
        _write(f"{cpu_ns} {text}\n".encode("ascii"))
        if raised and stop_at_raise:
            _end("stopped", "a test raised")
        value = None  # freed before the next test begins
    _end("ok")


def _defined(program: str, lent: list[str], entry_point: str) -> Any:
    """Define the program in a separate module, which dataclasses, typing and pickle need; return its entry point."""
    module = types.ModuleType("program")
    module.__dict__["__builtins__"] = sys.modules["builtins"]  # this module's built-ins are a copy
    sys.modules["program"] = module
    sys.stdin = sys.__stdin__ = _NoInput()  # type: ignore[assignment,misc]
    try:
        code = compile(program, "<program>", "exec", dont_inherit=True)
    except BaseException as problem:
        _end("syntax", _name(problem))
    for source in lent:
        with contextlib.suppress(BaseException):
            exec(compile(source, "<lent>", "exec", dont_inherit=True), module.__dict__)
    try:
        exec(code, module.__dict__)
    except MemoryError:
        _end("memory", "while it was defined")
    except BaseException as problem:
        _end("raised", _name(problem))
    if entry_point not in module.__dict__:
        _end("missing", entry_point)
    return module.__dict__[entry_point]


def _text(value: Any, cpu_s: float, as_digest: bool, left: int) -> str:
    """Return the result's canonical text, or its digest."""
    if not as_digest and (value is None or value is True or value is False):
        return canonical.encode(value)
    confinement.arm(cpu_s)
    try:
        return canonical.digest(value) if as_digest else canonical.encode(value, left)
    except MemoryError:
        _end("memory", "while its result was written down")
    except canonical.TooLong:
        _end("output")
    except BaseException:  # a set, for example, that a thread of the program changes meanwhile
        return "X"


def _end(status: str, detail: str = "") -> NoReturn:
    confinement.arm(0)
    _write(f"={status} {detail}\n".encode("ascii", "replace"))
    _exit(0)


def _write(line: bytes) -> None:
    """Write a line. While the pipe is full, the limits are off: waiting for the harness is no fault of the program."""
    rest = memoryview(line)
    while rest:
        try:
            rest = rest[write(RESULT_PIPE, rest) :]
        except BlockingIOError:
            confinement.arm(0)
            waiting = poll()
            waiting.register(RESULT_PIPE, POLLOUT)
            waiting.poll()


def _name(problem: BaseException) -> str:
    """Return the name of the exception's type if it is a plain one, else "Exception"."""
    name = type.__dict__["__name__"].__get__(type(problem))
    return name if _PLAIN_NAME.fullmatch(name) else "Exception"
