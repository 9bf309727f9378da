"""The trusted end of one worker: starts it, sends requests, reads frames against deadlines, kills it.

A worker is one fork server (`inside.py`) in one sandbox. Whatever comes out of it is read as bounded, hostile bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import select
import signal
import struct
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, cast

from harness import HarnessError

from . import bounds
from .suites import Run, Suite

START_S = 60.0  # a worker starts in 0.1 s; a machine may be busy
SPARE_S = 30.0  # beyond the fork server's own deadline, after which it is taken for lost
FRAME = 1 << 20
TOLD = 4000  # characters of a dead worker's last words
JUDGED = 200  # characters kept of a result that a judge has seen: 6400 programs may return 4 MB each

# With their endings: a string that names a file beside this one belongs to the code that keys hold.
SENT = ("bounds.py", "canonical.py", "syscalls.py", "confinement.py", "child.py", "inside.py")

# Reads one frame from fd 0 and makes modules of the sources in it. Their built-ins are copies: a program that patches
# the real ones does not patch ours. They leave sys.modules, where a program might look for them.
BOOTSTRAP = """
def take(length):
    import os
    taken = b""
    while len(taken) < length:
        part = os.read(0, length - len(taken))
        if not part:
            os._exit(0)
        taken += part
    return taken

def start():
    import builtins, pickle, sys, types
    sources, settings = pickle.loads(take(int.from_bytes(take(4), "little")))
    package = sys.modules["sandbox"] = types.ModuleType("sandbox")
    package.__path__ = []
    for name, source in sources:
        module = sys.modules["sandbox." + name] = types.ModuleType("sandbox." + name)
        module.__package__ = "sandbox"
        module.__builtins__ = vars(builtins).copy()
        setattr(package, name, module)
        exec(compile(source, "<sandbox " + name + ">", "exec"), vars(module))
    for name in [name for name in sys.modules if name.partition(".")[0] == "sandbox"]:
        del sys.modules[name]
    module.main(settings)

start()
"""

_END_STATUSES = {"syntax", "raised", "missing", "memory", "output"}  # beside "ok" and "stopped"
_RESULT = re.compile(rb"([0-9]{1,18}) ([ -~]+)")
_FINAL = re.compile(rb"=([a-z]+) ([ -~]*)")
_TIMEOUTS = {27: "timeout", 24: "timeout", 14: "stalled"}  # SIGPROF, SIGXCPU, SIGALRM

_alive: weakref.WeakSet[Worker] = weakref.WeakSet()


@cache
def _sources() -> list[tuple[str, str]]:
    """The modules that run inside: name and source."""
    return [(Path(name).stem, Path(__file__).with_name(name).read_text("utf-8")) for name in SENT]


class WorkerLost(Exception):
    """The worker died, hangs, or talks nonsense."""


@dataclass(frozen=True)
class Command:
    """How a worker is started: program and arguments, whether bwrap runs it, environment, and what it is told first."""

    arguments: Sequence[str]
    under_bwrap: bool
    environment: Mapping[str, str]
    settings: Mapping[str, Any]


class Worker:
    """One running fork server. Not thread-safe: whoever took it from the pool has it alone."""

    def __init__(self, command: Command):
        self.command = command
        self.serial = 0
        self.suites: dict[str, None] = {}
        self._received = bytearray()
        self._inner: int | None = None
        self._ending = threading.Lock()
        self._process = self._popen()
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._requests, self._frames, self._errors = cast("tuple[IO[bytes], IO[bytes], IO[bytes]]", pipes)
        os.set_blocking(self._requests.fileno(), False)
        os.set_blocking(self._errors.fileno(), False)
        _alive.add(self)
        try:
            self._greet()
        except BaseException:
            self.kill()
            raise

    # Life and death

    def _popen(self) -> subprocess.Popen[bytes]:
        arguments: list[str] = list(self.command.arguments)
        passed: tuple[int, ...] = ()
        reading, writing = os.pipe()
        if self.command.under_bwrap:
            arguments[1:1] = ["--info-fd", str(writing)]
            passed = (writing,)
        try:
            process = subprocess.Popen(
                [*arguments, "-c", BOOTSTRAP],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd="/",
                env=dict(self.command.environment),
                pass_fds=passed,
                start_new_session=True,  # a Ctrl-C is for the harness; it ends its workers
            )
        except OSError as problem:
            os.close(reading)
            raise WorkerLost(str(problem)) from None
        finally:
            os.close(writing)
        self._find_inner(reading)
        return process

    def _find_inner(self, reading: int) -> None:
        """Hold on to the first process inside bwrap: killing bwrap itself would leave it alone."""
        told = b""
        with open(reading, "rb", buffering=0) as pipe:
            end = time.monotonic() + START_S
            while self.command.under_bwrap and not told.endswith(b"}\n") and time.monotonic() < end:
                if _ready(pipe.fileno(), select.POLLIN, end):
                    part = pipe.read(4096)
                    if not part:
                        break
                    told += part
        match = re.search(rb'"child-pid": (\d+)', told)
        if match:
            try:
                self._inner = os.pidfd_open(int(match[1]))
            except OSError:  # gone already, or Linux before 5.3
                self._inner = None

    def _greet(self) -> None:
        blob = pickle.dumps((_sources(), dict(self.command.settings)), 4)
        self._write(struct.pack("<I", len(blob)) + blob)
        kind, _ = self.frame(time.monotonic() + START_S)
        if kind != b"+":
            raise WorkerLost("it did not greet")

    def interrupt(self) -> None:
        """End it from another thread: whoever reads from it loses it."""
        with self._ending, contextlib.suppress(ProcessLookupError):
            if self._inner is not None:
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
            self._process.kill()

    def kill(self) -> None:
        """End it, whatever it is doing."""
        _alive.discard(self)
        self.interrupt()
        self._process.wait()
        with self._ending:
            self._close_inner()
        for pipe in (self._requests, self._frames, self._errors):
            pipe.close()

    def forget(self) -> None:
        """In a forked process: let go of the parent's worker, so that it ends when the parent does."""
        self._process.returncode = 0
        for pipe in (self._requests, self._frames, self._errors):
            pipe.close()
        self._close_inner()

    def _close_inner(self) -> None:
        if self._inner is not None:
            os.close(self._inner)
            self._inner = None

    def last_words(self) -> str:
        """The last line that it wrote on standard error, if any."""
        lines = (self._errors.read(1 << 16) or b"").decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:TOLD] if lines else ""

    # Frames

    def send(self, kind: str, serial: int, head: Any = None, body: bytes = b"") -> None:
        """One request. Raises WorkerLost."""
        header = pickle.dumps((kind, serial, head), 4)
        self._write(struct.pack("<II", len(header), len(body)) + header + body)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        descriptor = self._requests.fileno()
        end = time.monotonic() + START_S
        while rest:
            if not _ready(descriptor, select.POLLOUT, end):
                raise WorkerLost("it does not listen")
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:
                continue
            except OSError as problem:
                raise WorkerLost(self.last_words() or str(problem)) from None

    def frame(self, end: float) -> tuple[bytes, bytes]:
        """The next frame: its kind and what is in it. Raises WorkerLost at the deadline `end`."""
        kind, length = struct.unpack("<cI", self._take(5, end))
        if length > FRAME:
            raise WorkerLost("a frame is too long")
        return kind, self._take(length, end)

    def _take(self, length: int, end: float) -> bytes:
        descriptor = self._frames.fileno()
        while len(self._received) < length:
            if not _ready(descriptor, select.POLLIN, end):
                raise WorkerLost("it did not answer in time")
            part = os.read(descriptor, FRAME)
            if not part:
                raise WorkerLost(self.last_words() or "it ended")
            self._received += part
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken

    # Requests

    def run(self, suite: Suite, source: str, judge: Callable[[int, str], bool] | None, stop_at_raise: bool) -> Run:
        """Run one program. `judge(test, text)` sees results as they come; False ends the run."""
        key, content = suite.packed
        if key not in self.suites:
            self._teach(suite, key, content)
        self.suites[key] = self.suites.pop(key)
        head = {"suite": key, "stop_at_raise": stop_at_raise}
        transcript = Transcript(len(suite.inputs), judge)
        return self._follow(transcript, "run", head, source.encode("utf-8", "surrogatepass"), suite.total_cpu_s)

    def _teach(self, suite: Suite, key: str, content: bytes) -> None:
        self.send("suite", 0, key, content)
        kind, payload = self.frame(time.monotonic() + START_S)
        if kind != b"+":
            said = payload.decode("utf-8", "replace")[:200]
            raise HarnessError(f"suite {suite.key}: its inputs do not load inside the sandbox ({said})")
        self.suites[key] = None
        while len(self.suites) > bounds.KEPT_SUITES:
            del self.suites[next(iter(self.suites))]

    def normalise(self, sources: Sequence[str], cpu_s: float, memory_bytes: int, output_bytes: int) -> Run:
        """Normal forms of many programs, parsed in one process."""
        limits = {"memory_bytes": memory_bytes, "total_cpu_s": cpu_s, "pipe_bytes": output_bytes}
        transcript = Transcript(len(sources), None)
        return self._follow(transcript, "normalise", limits, pickle.dumps(list(sources), 4), cpu_s)

    def _follow(self, transcript: Transcript, kind: str, head: Any, body: bytes, cpu_s: float) -> Run:
        """Send a request, read its lines, until its process has ended."""
        self.serial += 1
        self.send(kind, self.serial, head, body)
        end = time.monotonic() + bounds.IDLE_S + bounds.WALL_PER_CPU * cpu_s + SPARE_S
        told = False
        while True:
            kind_of_frame, payload = self.frame(end)
            if kind_of_frame == b"e":
                how, code = json.loads(payload)
                return transcript.run(how, code)
            if kind_of_frame != b"d":
                raise WorkerLost("it sent an unknown frame")
            started = time.monotonic()
            transcript.read(payload)
            end += time.monotonic() - started  # the judge's time is not the worker's
            if transcript.over and not told:
                told = True
                self.send("stop", self.serial)


def _ready(descriptor: int, event: int, end: float) -> bool:
    """Whether a descriptor can be read or written, or has hung up, before the deadline. (select() stops at 1,024.)"""
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, end - time.monotonic()) * 1000))


class Transcript:
    """What a program's process has written so far: `+`, lines of results, a final line. All but the `+` is hostile."""

    def __init__(self, tests: int, judge: Callable[[int, str], bool] | None):
        self.tests, self.judge = tests, judge
        self.results: list[str] = []
        self.cpu_s: list[float] = []
        self.final: tuple[str, str] | None = None
        self._confined = False
        self._refusal = ""
        self._parts: list[bytes] = []

    @property
    def over(self) -> bool:
        """Whether what comes now no longer counts."""
        return self.final is not None

    def read(self, part: bytes) -> None:
        """Take in what has come, as far as lines are whole. (The fork server bounds the bytes.)"""
        *lines, rest = part.split(b"\n")
        if lines:
            lines[0] = b"".join(self._parts) + lines[0]
            self._parts = []
        self._parts.append(rest)
        for line in lines:
            if not self.over:
                self._line(line)

    def _line(self, line: bytes) -> None:
        if not self._confined:
            self._confined = line == b"+"
            self._refusal = line[1:].decode("utf-8", "replace")
            return
        match = _RESULT.fullmatch(line)
        if match is None or len(self.results) >= self.tests:
            self.final = self._ending(line)
            return
        text = match[2].decode("ascii")
        self.results.append(text if self.judge is None else text[:JUDGED])
        self.cpu_s.append(int(match[1]) / 1e9)
        if self.judge is not None and not self.judge(len(self.results) - 1, text):
            self.final = ("stopped", "by the judge")

    def _ending(self, line: bytes) -> tuple[str, str]:
        match = _FINAL.fullmatch(line)
        status, detail = (match[1].decode(), match[2].decode()[:200]) if match else ("", "")
        if status == "ok":
            fits = len(self.results) == self.tests
        elif status == "stopped":
            fits = bool(self.results) and self.results[-1].startswith("E")
        else:
            fits = status in _END_STATUSES
        return (status, detail) if fits else ("killed", "it wrote what is no result")

    def run(self, how: str, code: int) -> Run:
        """The run, given how the process ended. Raises WorkerLost if it ended before it was confined: our fault."""
        if not self._confined:
            raise WorkerLost(f"a program's process could not be set up: {self._refusal or f'{how} {code}'}")
        status, detail = self.final or _without_final(how, code)
        return Run(status, self.results, self.cpu_s, detail)


def _without_final(how: str, code: int) -> tuple[str, str]:
    if how == "signal":
        names = {int(number): number.name for number in signal.Signals}
        return _TIMEOUTS.get(code, "killed"), names.get(code, str(code))
    if how in ("stalled", "output", "timeout"):
        return how, "its timers disarmed" if how == "timeout" else ""
    reasons = {"exit": f"exited with {code}", "closed": "closed its output", "threads": "too many threads"}
    return "killed", reasons.get(how, how)


def _forget_all() -> None:
    for worker in list(_alive):
        worker.forget()
    _alive.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
