"""Start, use and end the checker process and its children (`checker.py`), from the process that grades."""

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

WALL_LIMIT_S = 20.0  # of a check; only an overloaded machine needs so long for 2 s of CPU time
START_LIMIT_S = 120.0  # to load sympy and math-verify: two seconds on an idle machine

LOST = "lost"  # the outcome if a child was killed from outside, or did not answer within the wall limit


class Outcome(NamedTuple):
    """The outcome of a check, and the CPU seconds that count for it.

    word   the child's answer ("equal", "different", ...), or how the child ended ("timeout", "crashed", "lost")
    """

    word: str
    cpu_s: float


class CheckerFailure(Exception):
    """The checker cannot start; the message says why."""


class Gone(Exception):
    """The checker process has ended."""


def _started(control: socket.socket) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-P", str(Path(__file__).with_name("checker.py"))]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}  # sympy's order of terms may depend on it
    silent = subprocess.DEVNULL
    return subprocess.Popen(program, stdin=control.fileno(), stdout=silent, stderr=silent, env=environment)


class CheckerProcess:
    """The checker process, which forks and ends children. Thread-safe. Raises CheckerFailure if it cannot start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control, far_end = socket.socketpair()
        with far_end:
            try:
                self._process = _started(far_end)
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
        """Start a child that gets its checks through a socket, and return its process id. Raises Gone."""
        return int(self._request("fork", (connection.fileno(),)))

    def reap(self, child: int) -> int:
        """End a child, if it has not ended; return its exit code, or minus the signal that ended it. Raises Gone."""
        return int(self._request(child))

    def _request(self, request: object, descriptors: tuple[int, ...] = ()) -> Any:
        """Send a request with file descriptors, and return the reply. Raises Gone if the checker has ended."""
        with self._lock:
            try:
                if descriptors:
                    socket.send_fds(self._control, [frame(request)], descriptors)
                else:
                    self._control.sendall(frame(request))
                return read_frame(self._control.recv)
            except (EOFError, OSError, ValueError) as failure:
                self._control.close()  # a late reply must not be taken for that to another request
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
        """In a forked process, close its copy of the socket, without ending the checker, which is the parent's."""
        self._control.close()
        self._process.returncode = 0


class Child:
    """A process that does checks, one at a time."""

    def __init__(self, checker: CheckerProcess) -> None:
        self.checker = checker
        self.connection, far_end = socket.socketpair()
        with far_end:
            try:
                self.pid = checker.fork(far_end)
            except Gone:
                self.connection.close()
                raise
        self.served = 0
        self.deadline = 0.0
        self._cpu_s = 0.0

    def begin(self, claims: Claims, cpu_s: float) -> None:
        """Send a check, which is a tuple of claims, and its limit in CPU seconds to the child."""
        self.served += 1
        self._cpu_s = cpu_s
        self.deadline = time.monotonic() + WALL_LIMIT_S
        self.connection.sendall(frame({"cpu_s": cpu_s, "claims": claims}))

    def outcome(self) -> Outcome:
        """Wait for the child's answer and return it or, if the child has ended or answers too late, how it ended.

        For "timeout" and "crashed" the whole limit counts as CPU time, for "lost" nothing.
        """
        try:
            word, cpu_s = read_frame(self.connection.recv)
        except (EOFError, OSError, ValueError):
            ending = self._ending()
            return Outcome(ending, 0.0 if ending == LOST else self._cpu_s)
        return Outcome(str(word), float(cpu_s))

    def _ending(self) -> str:
        """End the child and return how it ended: "timeout", "crashed" or "lost"."""
        try:
            code = self.end()
        except Gone:
            return LOST
        if code == -signal.SIGPROF:
            return "timeout"
        return "crashed" if code in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT) else LOST

    def end(self) -> int:
        """End the child and return its exit code, or minus the signal that ended it."""
        self.connection.close()
        return self.checker.reap(self.pid)
