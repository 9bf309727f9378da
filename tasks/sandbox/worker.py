"""One worker, seen from the trusted side: start it, send requests, read frames before deadlines, kill it.

A worker is a fork server (`inside.py`) in a sandbox. All that it sends is read as hostile bytes of bounded number.
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
from .transcript import Transcript, WorkerLost

START_S = 60.0  # a worker starts in 0.1 s; a machine may be busy
SPARE_S = 30.0  # after the fork server's own deadline; then it is taken for lost
FRAME = 1 << 20
LAST_WORDS = 4000  # characters of a dead worker's last line that are kept

# The files that are sent into the sandbox. They are named with their endings because a string that names a file beside
# this one makes that file a part of the code hash in keys.
SENT = ("bounds.py", "canonical.py", "syscalls.py", "confinement.py", "child.py", "inside.py")

# Reads one frame from file descriptor 0 and makes modules of the sources in it. Their built-ins are copies, so that a
# program that patches the real ones does not change the modules. They are removed from sys.modules, where a program
# might look for them.
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

_alive: weakref.WeakSet[Worker] = weakref.WeakSet()


@cache
def _sources() -> list[tuple[str, str]]:
    """Return name and source of each module that runs inside the sandbox."""
    return [(Path(name).stem, Path(__file__).with_name(name).read_text("utf-8")) for name in SENT]


@dataclass(frozen=True)
class Command:
    """How a worker is started.

    arguments     the program and its arguments
    under_bwrap   whether the program is bwrap
    environment   the environment variables
    settings      what the fork server is sent first, see `inside.main`
    """

    arguments: Sequence[str]
    under_bwrap: bool
    environment: Mapping[str, str]
    settings: Mapping[str, Any]


class Worker:
    """One running fork server. Not thread-safe: one thread at a time takes it from the pool."""

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
        inherited: tuple[int, ...] = ()
        reading, writing = os.pipe()
        if self.command.under_bwrap:
            arguments[1:1] = ["--info-fd", str(writing)]
            inherited = (writing,)
        try:
            process = subprocess.Popen(
                [*arguments, "-c", BOOTSTRAP],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd="/",
                env=dict(self.command.environment),
                pass_fds=inherited,
                start_new_session=True,  # a Ctrl-C reaches only the harness, which ends its workers
            )
        except OSError as problem:
            os.close(reading)
            raise WorkerLost(str(problem)) from None
        finally:
            os.close(writing)
        self._find_inner(reading)
        return process

    def _find_inner(self, reading: int) -> None:
        """Keep a descriptor of the first process inside bwrap, which would survive if only bwrap were killed."""
        status = b""
        with open(reading, "rb", buffering=0) as pipe:
            end = time.monotonic() + START_S
            while self.command.under_bwrap and not status.endswith(b"}\n") and time.monotonic() < end:
                if _ready(pipe.fileno(), select.POLLIN, end):
                    part = pipe.read(4096)
                    if not part:
                        break
                    status += part
        match = re.search(rb'"child-pid": (\d+)', status)
        if match:
            try:
                self._inner = os.pidfd_open(int(match[1]))
            except OSError:  # it has ended already, or Linux is older than 5.3
                self._inner = None

    def _greet(self) -> None:
        """Send the modules and settings, and wait for the greeting. Raises WorkerLost."""
        blob = pickle.dumps((_sources(), dict(self.command.settings)), 4)
        self._write(struct.pack("<I", len(blob)) + blob)
        kind, _ = self.frame(time.monotonic() + START_S)
        if kind != b"+":
            raise WorkerLost("it did not greet")

    def interrupt(self) -> None:
        """End the worker from another thread; in the thread that reads from it, that read raises WorkerLost."""
        with self._ending, contextlib.suppress(ProcessLookupError):
            if self._inner is not None:
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
            self._process.kill()

    def kill(self) -> None:
        """End the worker, whatever it is doing, and close its pipes."""
        _alive.discard(self)
        self.interrupt()
        self._process.wait()
        with self._ending:
            self._close_inner()
        for pipe in (self._requests, self._frames, self._errors):
            pipe.close()

    def forget(self) -> None:
        """In a forked process, close the inherited pipes to the parent's worker, without ending the worker.

        The worker ends when its pipe closes, so no other process may hold that pipe open after the parent has ended.
        """
        self._process.returncode = 0
        for pipe in (self._requests, self._frames, self._errors):
            pipe.close()
        self._close_inner()

    def _close_inner(self) -> None:
        if self._inner is not None:
            os.close(self._inner)
            self._inner = None

    def last_words(self) -> str:
        """Return the last line that the worker wrote on standard error; "" without one."""
        lines = (self._errors.read(1 << 16) or b"").decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:LAST_WORDS] if lines else ""

    # Frames

    def send(self, kind: str, serial: int, head: Any = None, body: bytes = b"") -> None:
        """Send one request. Raises WorkerLost.

        kind     "suite", "run", "normalise" or "stop"
        serial   the number of the request; of a "stop" that of the request to stop
        head     plain data about the request
        body     the pickled suite, or the pickled list of programs
        """
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
        """Return the next frame: its kind and its content. Raises WorkerLost at `end`, a time of `time.monotonic`."""
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
        data = bytes(self._received[:length])
        del self._received[:length]
        return data

    # Requests

    def run(
        self, suite: Suite, sources: Sequence[str], judge: Callable[[int, str], bool] | None, stop_at_raise: bool
    ) -> Run:
        """Run one program on a suite and return its `Run`. Raises WorkerLost.

        sources         what is run before the program, and the program
        judge           called as `judge(test, text)` with each result as it arrives; False ends the program
        stop_at_raise   whether to end the program at its first test that raises
        """
        key, content = suite.packed
        if key not in self.suites:
            self._teach(suite, key, content)
        self.suites[key] = self.suites.pop(key)
        head = {"suite": key, "stop_at_raise": stop_at_raise}
        transcript = Transcript(len(suite.inputs), judge)
        return self._follow(transcript, "run", head, pickle.dumps(list(sources), 4), suite.total_cpu_s)

    def _teach(self, suite: Suite, key: str, content: bytes) -> None:
        """Send a suite, which the worker keeps. Raises HarnessError if its inputs do not load in the sandbox."""
        self.send("suite", 0, key, content)
        kind, payload = self.frame(time.monotonic() + START_S)
        if kind != b"+":
            reason = payload.decode("utf-8", "replace")[:200]
            raise HarnessError(f"suite {suite.key}: its inputs do not load inside the sandbox ({reason})")
        self.suites[key] = None
        while len(self.suites) > bounds.KEPT_SUITES:
            del self.suites[next(iter(self.suites))]

    def normalise(self, sources: Sequence[str], cpu_s: float, memory_bytes: int, output_bytes: int) -> Run:
        """Parse many programs in one process; the results of the `Run` returned are their normal forms.

        The limits (`cpu_s`: CPU seconds) are for all programs together.
        """
        limits = {"memory_bytes": memory_bytes, "total_cpu_s": cpu_s, "pipe_bytes": output_bytes}
        transcript = Transcript(len(sources), None)
        return self._follow(transcript, "normalise", limits, pickle.dumps(list(sources), 4), cpu_s)

    def _follow(self, transcript: Transcript, kind: str, head: Any, body: bytes, cpu_s: float) -> Run:
        """Send a request and read the lines of its process until it has ended; return the run."""
        self.serial += 1
        self.send(kind, self.serial, head, body)
        end = time.monotonic() + bounds.IDLE_S + bounds.WALL_PER_CPU * cpu_s + SPARE_S
        sent_stop = False
        while True:
            kind_of_frame, payload = self.frame(end)
            if kind_of_frame == b"e":
                return transcript.run(*json.loads(payload))
            if kind_of_frame != b"d":
                raise WorkerLost("it sent an unknown frame")
            started = time.monotonic()
            transcript.read(payload)
            end += time.monotonic() - started  # the judge's time does not count for the worker
            if transcript.over and not sent_stop:
                sent_stop = True
                self.send("stop", self.serial)


def _ready(descriptor: int, event: int, end: float) -> bool:
    """Whether a descriptor can be read or written, or has hung up, before the deadline.

    It uses poll, since select allows no descriptors above 1,024.
    """
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, end - time.monotonic()) * 1000))


def _forget_all() -> None:
    for worker in list(_alive):
        worker.forget()
    _alive.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
