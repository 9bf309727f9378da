"""Suite and Run, what is run and what comes back; and one worker, seen from the trusted side.

A worker is a fork server (`inside.py`) in a sandbox: start it, have it run programs, watch them, kill it. Each program
writes its results to a pipe that ends here. All that comes from a program is hostile bytes of bounded number.

A program can find and disarm the timers in its own process that limit a test. So its lines are counted here, and it is
ended if it has used too much CPU time before its next line.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import re
import select
import signal
import socket
import struct
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

START_S = 60.0  # a worker starts in 0.1 s; a machine may be busy
ANSWERS_S = 30.0  # an answer takes microseconds
KEPT_SUITES = 8  # suites that a worker keeps

# Wall time of a whole run: IDLE_S, and WALL_PER_CPU for each second of CPU time that the program has used so far. So an
# honest program on a busy machine may take long, and a program that sleeps may not.
IDLE_S, WALL_PER_CPU = 20.0, 20.0

DEFINE_CPU_S = 2.0  # to define a program, unless its first test may take longer
ENCODE_CPU_S = 10.0  # to encode a result, in addition to the test's limit
SPARE_CPU_S = 0.5  # in addition to all these; then the process is killed from outside
THREADS = 256  # of a program: an attack started 13,000 in 1.4 s, and a machine may allow 32,768

TICK_S = 0.02  # the interval at which a running program's results are read
MANY = 1 << 14  # after so many bytes in one interval, results are read as they arrive
LINE_BYTES = 300  # of a line, without a result's text: a time, or a status and a detail
JUDGED = 200  # characters kept of a result that a judge has seen: 6400 programs may return 4 MB each

_END_STATUSES = {"syntax", "raised", "missing", "memory", "output"}  # in addition to "ok" and "stopped"
_RESULT = re.compile(rb"([0-9]{1,18}) ([ -~]+)")
_FINAL = re.compile(rb"=([a-z]+) ([ -~]*)")

# The files that are sent into the sandbox. They are named with their endings because a string that names a file beside
# this one makes that file a part of the code hash in keys.
SENT = ("canonical.py", "confinement.py", "inside.py")

# Makes modules of the sources that it reads first. Their built-ins are copies, so that a program that patches the real
# ones does not change the modules. They are removed from sys.modules, where a program might look for them.
BOOTSTRAP = """
import pickle, sys

def start(files, settings):
    import builtins, types
    package = sys.modules["sandbox"] = types.ModuleType("sandbox")
    package.__path__ = []
    for name, source in files:
        module = sys.modules["sandbox." + name] = types.ModuleType("sandbox." + name)
        module.__package__ = "sandbox"
        module.__builtins__ = vars(builtins).copy()
        setattr(package, name, module)
        exec(compile(source, "<sandbox " + name + ">", "exec"), vars(module))
    for name in [name for name in sys.modules if name.partition(".")[0] == "sandbox"]:
        del sys.modules[name]
    module.main(settings)

start(*pickle.load(sys.stdin.buffer))
"""


@dataclass(frozen=True)
class Suite:
    """The inputs that programs are called on, and the limits of a run; it has no expected outputs.

    entry_point   the function that a program must define
    inputs        the positional arguments of each test: plain Python data, which is pickled into the sandbox, not out
    cpu_limits_s  CPU seconds of each test
    digest        for each test, whether its result returns as a digest, `h` and a SHA-256 (`canonical.digest`); for
                  results of many MB
    memory_bytes  address space in addition to the bare interpreter's
    output_bytes  limit on all results' texts together
    total_cpu_s   CPU seconds of the whole run
    """

    entry_point: str
    inputs: Sequence[Sequence[Any]]
    cpu_limits_s: Sequence[float]
    digest: Sequence[bool] = ()
    memory_bytes: int = 1 << 30
    output_bytes: int = 4 << 20
    total_cpu_s: float = 60.0

    @cached_property
    def packed(self) -> tuple[str, bytes, list[float]]:
        """A hash of the contents; hash and contents as they are sent into the sandbox; the CPU seconds of each line.

        Each input is pickled separately. A digest may take all the time of the run: Mbpp/255 returns 10^8 strings in
        1.4 s, which take 9 s to hash.
        """
        digests = self.digest or [False] * len(self.inputs)
        tests = [
            (limit, self.total_cpu_s if as_digest else limit + ENCODE_CPU_S, as_digest)
            for limit, as_digest in zip(self.cpu_limits_s, digests, strict=True)
        ]
        inputs = [pickle.dumps(tuple(arguments), 4) for arguments in self.inputs]
        define_cpu_s = max([DEFINE_CPU_S, *self.cpu_limits_s[:1]])
        content = vars(self) | {"inputs": inputs, "tests": tests, "define_cpu_s": define_cpu_s}
        lines = [limit + encode for limit, encode, _ in tests]
        lines.append(max(lines, default=0.0))  # before the last line, the last test's result is freed
        lines[0] += define_cpu_s
        key = hashlib.sha256(pickle.dumps(content, 4)).hexdigest()
        return key, pickle.dumps((key, content), 4), lines


@dataclass
class Run:
    """How one program ran.

    status   "ok" (all tests ran, though some may have raised), or why it ended early: "syntax", "raised" (while it was
             defined), "missing" (no entry point), "timeout" (CPU time), "stalled" (wall time), "memory", "output" (too
             much), "killed" (it crashed or exited), "stopped" (by the judge, or because a test raised); "error" is a
             fault of the sandbox
    results  the canonical texts of the results, in order; `E` and the exception's name for a test that raised. If a
             judge has seen them, only their first 200 characters
    cpu_s    the CPU seconds of each of these tests; a program can forge its own
    detail   more about the status, for a reader
    process_cpu_s  the CPU seconds of the program's whole process, as the kernel counts them
    """

    status: str
    results: list[str] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    detail: str = ""
    process_cpu_s: float = 0.0


class WorkerLost(Exception):
    """The worker died, hangs, or could not set up a program's process."""


class Transcript:
    """What a program's process has written so far: `+`, lines of results, a final line; all but the `+` is hostile.

    tests   the number of tests
    judge   called as `judge(test, text)` with each result; the run is decided when it returns False
    """

    def __init__(self, tests: int, judge: Callable[[int, str], bool] | None):
        self.tests, self.judge = tests, judge
        self.results: list[str] = []
        self.cpu_s: list[float] = []
        self.final: tuple[str, str] | None = None  # status and detail; further lines do not count
        self.lines, self._first, self._rest = 0, b"", bytearray()

    def read(self, part: bytes) -> None:
        """Interpret the complete lines of what has arrived, and store the rest until the next call."""
        self._rest += part
        if b"\n" not in part:
            return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            if self.lines == 0:
                self._first = bytes(line)
            elif self._first == b"+" and self.final is None:
                self._line(line)
            self.lines += 1

    def _line(self, line: bytearray) -> None:
        """Read a result, or the final line; "killed" if the latter does not fit the results before it."""
        match = _RESULT.fullmatch(line)
        if match is not None and len(self.results) < self.tests:
            text = match[2].decode("ascii")
            self.results.append(text if self.judge is None else text[:JUDGED])
            self.cpu_s.append(int(match[1]) / 1e9)
            if self.judge is not None and not self.judge(len(self.results) - 1, text):
                self.final = "stopped", "by the judge"
            return
        match = _FINAL.fullmatch(line)
        status, detail = (match[1].decode(), match[2].decode()[:200]) if match else ("", "")
        fits = status in _END_STATUSES
        fits |= status == "ok" and len(self.results) == self.tests
        fits |= status == "stopped" and bool(self.results) and self.results[-1].startswith("E")
        self.final = (status, detail) if fits else ("killed", "it wrote what is no result")

    def run(self, reason: tuple[str, str] | tuple[()], status: int, process_cpu_s: float) -> Run:
        """Return the run. Raises WorkerLost if the process ended before it was confined, a fault of the sandbox.

        reason   status and detail if the process was ended from outside, else ()
        status   its wait status
        """
        if self._first != b"+":
            refusal = self._first[1:].decode("utf-8", "replace")
            raise WorkerLost(f"a program's process could not be set up: {refusal or ' '.join(reason) or status}")
        ending = self.final or reason
        if not ending and os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = next((known.name for known in signal.Signals if known == number), str(number))
            ending = "timeout" if number in (signal.SIGPROF, signal.SIGXCPU) else "killed", name
        word, detail = ending or ("killed", f"exited with {os.WEXITSTATUS(status)}")
        return Run(word, self.results, self.cpu_s, detail, process_cpu_s)


@cache
def _sources() -> list[tuple[str, str]]:
    return [(Path(name).stem, Path(__file__).with_name(name).read_text("utf-8")) for name in SENT]


_alive: weakref.WeakSet[Worker] = weakref.WeakSet()


class Worker:
    """One running fork server. Not thread-safe but for `interrupt`. Raises WorkerLost.

    command       the program and its arguments
    environment   the environment variables
    settings      see `inside.Server`
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], settings: Mapping[str, Any]):
        self.suites: list[str] = []
        self._ending = threading.Lock()
        self._socket, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [*command, "-c", BOOTSTRAP],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                env=dict(environment),
                start_new_session=True,  # a Ctrl-C reaches only the harness, which ends its workers, by their group
            )
        except OSError as problem:
            self._socket.close()
            raise WorkerLost(str(problem)) from None
        finally:
            theirs.close()
        assert self._process.stderr
        self._errors = self._process.stderr
        os.set_blocking(self._errors.fileno(), False)
        _alive.add(self)
        try:
            self._socket.settimeout(START_S)
            self._send(pickle.dumps((_sources(), dict(settings)), 4))
            if self._answer(1) != b"+":
                raise WorkerLost("it did not greet")
            self._socket.settimeout(ANSWERS_S)
        except BaseException:
            self.kill()
            raise

    def interrupt(self) -> None:
        """End the worker from another thread; the thread that uses it gets WorkerLost."""
        with self._ending, contextlib.suppress(ProcessLookupError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)  # bwrap, what it started, the program

    def kill(self) -> None:
        """End the worker, whatever it is doing, and close its socket: what is left of it ends then."""
        _alive.discard(self)
        self.interrupt()
        self._process.wait()
        self.forget()

    def forget(self) -> None:
        """Close the socket to the worker, without ending it.

        A forked process does so, since a worker ends when its socket hangs up: nobody else may hold it open.
        """
        self._process.returncode = self._process.returncode or 0
        self._socket.close()
        self._errors.close()

    def run(
        self,
        suite: Suite,
        program: str,
        lent: Sequence[str] = (),
        judge: Callable[[int, str], bool] | None = None,
        stop_at_raise: bool = True,
    ) -> Run:
        """Run one program on a suite and return its `Run`.

        lent            sources that are run before the program
        judge           called as `judge(test, text)` with each result as it arrives; False ends the program
        stop_at_raise   whether to end the program at its first test that raises
        """
        key, content, allowances = suite.packed
        if key not in self.suites:
            if len(self.suites) == KEPT_SUITES:
                self._request(b"s", pickle.dumps((self.suites.pop(0), None), 4))
            self._request(b"s", content)
            self.suites.append(key)
        transcript = Transcript(len(suite.inputs), judge)
        reading, writing = os.pipe()
        try:
            try:
                self._request(b"r", pickle.dumps((key, stop_at_raise, list(lent), program), 4), writing)
            finally:
                os.close(writing)
            bytes_left = suite.output_bytes + LINE_BYTES * (len(suite.inputs) + 2)
            reason = self._watch(transcript, reading, allowances, bytes_left)
        finally:
            os.close(reading)
        self._request(b"k" if reason else b"e")
        cpu_s, status, is_killed = struct.unpack("<di?", self._answer(13))
        return transcript.run(reason or (("killed", "closed its output") if is_killed else ()), status, cpu_s)

    def _watch(
        self, transcript: Transcript, pipe: int, allowances: Sequence[float], left: int
    ) -> tuple[str, str] | tuple[()]:
        """Read what a program writes until it has closed the pipe or ended; return the status if it must be ended.

        The pipe of one that has ended is open where this process was forked meanwhile.

        allowances   CPU seconds that it may use before each line after the first; the last holds for all further ones
        left         bytes that it may write
        """
        os.set_blocking(pipe, False)
        poll = select.poll()
        poll.register(pipe, 0)  # hanging up only, so that lines gather
        deadline, lines, cpu_bound, has_ended = time.monotonic() + IDLE_S, 0, SPARE_CPU_S, False
        while True:
            poll.poll(TICK_S * 1000)
            started, before, part = time.monotonic(), left, b"+"
            while part and transcript.final is None:
                try:
                    part = os.read(pipe, 1 << 16)
                except BlockingIOError:
                    break
                left -= len(part)
                if left < 0:
                    return "output", ""
                transcript.read(part)
            if transcript.final is not None:
                return "stopped", ""
            if not part or has_ended:
                return ()
            if before - left > MANY:
                poll.modify(pipe, select.POLLIN)
            deadline += time.monotonic() - started  # the judge's time does not count for the program
            self._request(b"l")
            cpu_s, threads, has_ended = struct.unpack("<di?", self._answer(13))
            if threads > THREADS:
                return "killed", "too many threads"
            if transcript.lines > lines:
                lines = transcript.lines
                cpu_bound = cpu_s + allowances[min(lines, len(allowances)) - 1] + SPARE_CPU_S
            if cpu_s > cpu_bound:
                return "timeout", "its timers disarmed"
            if time.monotonic() > deadline + WALL_PER_CPU * cpu_s:
                return "stalled", ""

    # The socket

    def _request(self, kind: bytes, body: bytes = b"", *descriptors: int) -> None:
        self._send(struct.pack("<cI", kind, len(body)), *descriptors)
        self._send(body)

    def _send(self, data: bytes, *descriptors: int) -> None:
        try:
            socket.send_fds(self._socket, [data], descriptors) if descriptors else self._socket.sendall(data)
        except OSError as problem:
            raise self._lost(problem) from None

    def _answer(self, length: int) -> bytes:
        try:
            answer = self._socket.recv(length)  # it is sent in one piece
        except OSError as problem:
            raise self._lost(problem) from None
        if len(answer) < length:
            raise self._lost()
        return answer

    def _lost(self, problem: OSError | None = None) -> WorkerLost:
        """Return the error that says why: silence, or the last line that the worker wrote on standard error."""
        if isinstance(problem, TimeoutError):
            return WorkerLost("it did not answer in time")
        lines = (self._errors.read(4000) or b"").decode("utf-8", "replace").strip().splitlines()
        return WorkerLost(lines[-1] if lines else str(problem or "it ended"))


def _forget_all() -> None:
    for worker in list(_alive):
        worker.forget()
    _alive.clear()


os.register_at_fork(after_in_child=_forget_all)
