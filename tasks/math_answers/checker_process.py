"""The checker process and the children that serve, seen from the process that grades: started, asked, ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from .checker import frame, read_frame
from .equality import Claims

WALL_LIMIT_S = 20.0  # a check; only a machine in distress needs so long for 2 s of CPU
START_LIMIT_S = 120.0  # to load sympy and math-verify: two seconds on an idle machine

LOST = "lost"  # what became of a child that was killed from outside, or answered nothing within the wall limit


class Outcome(NamedTuple):
    """What a child says of a check, or what became of it, and the CPU seconds that it is charged with."""

    word: str
    cpu_s: float


class CheckerFailure(Exception):
    """The checker does not start; the message says why."""


class Gone(Exception):
    """The checker process has ended."""


def _started(control: socket.socket) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-P", str(Path(__file__).with_name("checker.py"))]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}  # sympy's order of terms may depend on it
    silent = subprocess.DEVNULL
    return subprocess.Popen(program, stdin=control.fileno(), stdout=silent, stderr=silent, env=environment)


class CheckerProcess:
    """The checker process: forks and reaps children. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _started(theirs)
            except OSError as failure:
                self._control.close()
                raise CheckerFailure(f"{sys.executable}: {failure.strerror}") from failure
        self._control.settimeout(START_LIMIT_S)
        greeting = self._greeting()
        if "ready" not in greeting:
            self.close()
            raise CheckerFailure(str(greeting.get("failed")))
        self._control.settimeout(WALL_LIMIT_S)

    def _greeting(self) -> dict[str, Any]:
        try:
            greeting: dict[str, Any] = read_frame(self._control.recv)
        except (EOFError, OSError, ValueError) as failure:
            return {"failed": f"{sys.executable} ended before it was ready ({type(failure).__name__})"}
        return greeting

    @property
    def pid(self) -> int:
        return self._process.pid

    def fork(self, connection: socket.socket) -> int:
        """Start a child that serves on a socket; its process id."""
        return int(self._ask("fork", (connection.fileno(),)))

    def reap(self, child: int) -> int:
        """End a child, if it has not ended; its exit code, or minus the signal that ended it."""
        return int(self._ask(child))

    def _ask(self, request: object, descriptors: tuple[int, ...] = ()) -> Any:
        with self._lock:
            try:
                if descriptors:
                    socket.send_fds(self._control, [frame(request)], descriptors)
                else:
                    self._control.sendall(frame(request))
                return read_frame(self._control.recv)
            except (EOFError, OSError, ValueError) as failure:
                self._control.close()  # a late reply must not be taken for another's
                raise Gone from failure

    def close(self) -> None:
        """End the checker and with it its children."""
        self._control.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """In a forked copy of this process: let go of what belongs to the original."""
        self._control.close()
        self._process.returncode = 0


class Child:
    """A process that serves checks, one at a time."""

    def __init__(self, checker: CheckerProcess) -> None:
        self.checker = checker
        self.connection, theirs = socket.socketpair()
        with theirs:
            try:
                self.pid = checker.fork(theirs)
            except Gone:
                self.connection.close()
                raise
        self.served = 0
        self.deadline = 0.0
        self._cpu_s = 0.0

    def begin(self, claims: Claims, cpu_s: float) -> None:
        """Send a check, with its CPU limit."""
        self.served += 1
        self._cpu_s = cpu_s
        self.deadline = time.monotonic() + WALL_LIMIT_S
        self.connection.sendall(frame({"cpu_s": cpu_s, "claims": claims}))

    def outcome(self) -> Outcome:
        """What the child says, or why it does not: "timeout" or "crashed" (charged in full), "lost" (not charged)."""
        try:
            word, cpu_s = read_frame(self.connection.recv)
        except (EOFError, OSError, ValueError):
            ended = self._how_it_ended()
            return Outcome(ended, 0.0 if ended == LOST else self._cpu_s)
        return Outcome(str(word), float(cpu_s))

    def _how_it_ended(self) -> str:
        try:
            code = self.end()
        except Gone:
            return LOST
        if code == -signal.SIGPROF:
            return "timeout"
        return "crashed" if code in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT) else LOST

    def end(self) -> int:
        """End the child; its exit code."""
        self.connection.close()
        return self.checker.reap(self.pid)
