"""Run a child process that leaves nothing behind: all its descendants end with it, however it ends.

Trainers start servers (Ray starts its raylet, workers and dashboards), some in separate sessions, so a process group
alone does not contain them. On Linux this process adopts the orphans that its child leaves (PR_SET_CHILD_SUBREAPER) and
ends them too. On other systems it ends the child's process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

POLL_S = 0.2
GRACE_S = 10.0  # between SIGTERM and SIGKILL
MOST = 1 << 20  # bytes of output that are kept
WARDEN_S = 5.0  # added to the grace time, so that a warden has time to end its child
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    watch: Callable[[], None] = lambda: None,
    grace_s: float = GRACE_S,
    *,
    tied: bool = False,
    passed: Sequence[int] = (),
) -> int:
    """Run the command and return its exit status (-n if signal n ended it); stdout and stderr are appended to `log`.

    `watch` is called several times a second while the command runs, and once after it. Any exception from it, and
    Ctrl-C, ends the child and its descendants: by SIGTERM, and after `grace_s` by SIGKILL. Descendants that an ended
    command leaves are ended too. OSError if the command cannot be started.
    `environment`: variables to add to those of this process.
    `tied`: on Linux the child is killed when the calling thread ends, also if its process is ended by SIGKILL.
    `passed`: file descriptors that the child inherits.
    """
    with (
        log.open("ab") as out,
        started(command, grace_s, tied=tied, env={**os.environ, **environment}, stdout=out, pass_fds=passed) as child,
    ):
        while child.poll() is None:
            watch()
            time.sleep(POLL_S)
        watch()
        return child.returncode


@contextmanager
def started(
    command: Sequence[str], grace_s: float = GRACE_S, *, tied: bool = False, **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command; when the block ends, end it and its descendants, by SIGTERM and after `grace_s` by SIGKILL.

    `options` are those of `subprocess.Popen`; stderr is stdout if they do not say. One block at a time in a process: a
    process that another thread starts meanwhile would be taken for a descendant. OSError if it cannot be started.
    """
    with _adopting():
        others = set(_own_children())
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_the_caller if tied else None,
            **{"stderr": subprocess.STDOUT, **options},
        )
        try:
            yield child
        finally:
            with _uninterrupted():
                _end(child, others, grace_s)


class Tail:
    """The last `MOST` bytes that a child writes into a pipe. A thread reads them, so that the child never waits."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), 1 << 16):
                self._kept += chunk
                if len(self._kept) > 2 * MOST:
                    del self._kept[:-MOST]

    def text(self) -> str:
        """What the child wrote at last; to be asked for when it has ended."""
        self._thread.join(1)  # a process that got away may hold the pipe
        return self._kept[-MOST:].decode("utf-8", "replace")


def run_owned(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    watch: Callable[[], None] = lambda: None,
    grace_s: float = GRACE_S,
    passed: Sequence[int] = (),
) -> int:
    """Run a command as `run_child` does; SIGKILL of this process, too, ends the child and its descendants.

    A process in between, the warden, ends them when its pipe from this process closes. The warden inherits `passed`.
    """
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    reading, writing = os.pipe()
    task = json.dumps({"command": list(command), "log": str(log.absolute()), "grace_s": grace_s}).encode() + b"\n"
    try:
        os.write(writing, task)  # not as arguments: a search of command lines for the trainer must not match the warden
        warden = [sys.executable, "-P", "-m", "harness.system.warden", str(reading)]
        return run_child(warden, environment, log, watch, grace_s + WARDEN_S, passed=(reading, *passed))
    finally:
        os.close(reading)
        os.close(writing)


def _die_with_the_caller() -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@contextmanager
def _adopting() -> Iterator[None]:
    """Inside, orphans among this process' descendants become its children, if the system supports it."""
    libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    if libc:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        if libc:
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C inside, so that a second one does not disturb the handling of the first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(child: subprocess.Popen[bytes], others: set[int], grace_s: float) -> None:
    """End the child and its group, then the orphans that this leaves, and so on; `others` are left alone."""
    deadline = time.monotonic() + grace_s
    signalled: set[int] = set()
    while True:
        ended = child.poll() is not None
        orphans = {pid for pid in _own_children() if pid not in others and pid != child.pid}
        if ended and not orphans:
            break
        late = time.monotonic() > deadline
        for pid in orphans - (set() if late else signalled):
            _signal(os.kill, pid, signal.SIGKILL if late else signal.SIGTERM)
        if not ended and (late or child.pid not in signalled):
            _signal(os.killpg, child.pid, signal.SIGKILL if late else signal.SIGTERM)
        signalled |= orphans | {child.pid}
        for pid in orphans:
            _reap(pid)
        time.sleep(0.02)
    _signal(os.killpg, child.pid, signal.SIGKILL)  # where orphans are not adopted, only the group is known


def _signal(send: Callable[[int, int], None], pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(pid, number)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _own_children() -> Iterator[int]:
    """The ids of this process' children; none if the system has no /proc."""
    return (pid for pid, parent in _parents().items() if parent == os.getpid())


def descendants(pid: int) -> list[int]:
    """The ids of a process' children, their children, and so on; none if the system has no /proc."""
    parents, every = _parents(), [pid]
    for ancestor in every:
        every += [child for child, parent in parents.items() if parent == ancestor]
    return every[1:]


def _parents() -> dict[int, int]:
    """Process id -> its parent's, for all processes; empty if the system has no /proc."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    return parents
