"""A child process that leaves nothing behind: all that descends from it is ended with it, however it ends.

Trainers start servers of their own (Ray its raylet, workers and dashboards), some in sessions of their own, so a
process group alone does not hold them. On Linux this process adopts whatever its child leaves orphaned
(PR_SET_CHILD_SUBREAPER) and ends that too; elsewhere the child's process group is ended.
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

POLL_S = 0.2
GRACE_S = 10.0  # between asking to end and ending
WARDEN_S = 5.0  # beyond that, for a warden to end what it watches over
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
    """The exit status of the command (minus the signal that ended it); both its outputs are appended to `log`.

    `watch` is called several times a second while it runs. Whatever it raises, and Ctrl-C, ends the child and all that
    descends from it: they are asked (SIGTERM), and killed after `grace_s`. OSError where the command cannot be started.
    `tied`: on Linux the child is killed when the thread that calls this ends, by SIGKILL of its process too.
    `passed`: file descriptors that the child inherits.
    """
    with log.open("ab") as out, _adopting():
        others = set(_own_children())
        child = subprocess.Popen(
            list(command),
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=passed,
            preexec_fn=_die_with_the_caller if tied else None,
        )
        try:
            while child.poll() is None:
                watch()
                time.sleep(POLL_S)
            watch()
            return child.returncode
        finally:
            with _uninterrupted():
                _end(child, others, grace_s)


def run_owned(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    watch: Callable[[], None] = lambda: None,
    grace_s: float = GRACE_S,
    passed: Sequence[int] = (),
) -> int:
    """The same, and SIGKILL of this process too ends the child and all that descends from it.

    A warden, a process in between, ends them when the pipe from here closes; it inherits the descriptors `passed`.
    """
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    reading, writing = os.pipe()
    task = json.dumps({"command": list(command), "log": str(log.absolute()), "grace_s": grace_s}).encode() + b"\n"
    try:
        os.write(writing, task)  # not on its command line: who looks for the trainer there is to see the trainer alone
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
    """Orphans among this process' descendants become its children, where the system can do that."""
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
    """A second Ctrl-C, while the first is carried out, changes nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(child: subprocess.Popen[bytes], others: set[int], grace_s: float) -> None:
    """End the child and its group, then the orphans that this makes, and theirs; `others` are left alone."""
    deadline = time.monotonic() + grace_s
    asked: set[int] = set()
    while True:
        ended = child.poll() is not None
        orphans = {pid for pid in _own_children() if pid not in others and pid != child.pid}
        if ended and not orphans:
            break
        late = time.monotonic() > deadline
        for pid in orphans - (set() if late else asked):
            _signal(os.kill, pid, signal.SIGKILL if late else signal.SIGTERM)
        if not ended and (late or child.pid not in asked):
            _signal(os.killpg, child.pid, signal.SIGKILL if late else signal.SIGTERM)
        asked |= orphans | {child.pid}
        for pid in orphans:
            _reap(pid)
        time.sleep(0.02)
    _signal(os.killpg, child.pid, signal.SIGKILL)  # where there is no adopting, the group is all that is known


def _signal(send: Callable[[int, int], None], pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(pid, number)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _own_children() -> Iterator[int]:
    """The ids of this process' children; none where the system does not say."""
    own = os.getpid()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == own:
                yield int(stat.parent.name)
