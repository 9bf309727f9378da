"""Child processes that end with all that they have started: when they are late, on Ctrl-C, and when their owner ends.

`limited` calls a function in a process that is killed if it takes too long. `Warden` runs commands through a process in
between (`warden.py`), which ends them and all their descendants even if this process, the owner, is ended by SIGKILL.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, TypeVar, cast

from harness.errors import HarnessError, error_text

T = TypeVar("T")
R = TypeVar("R")

START_S = 300.0  # to start Python and import a function's module; the machine may be busy
POLL_S = 0.2
GRACE_S = 10.0  # between SIGTERM and SIGKILL
END_S = 15.0  # more than the grace time, after which a warden is given up
LONGEST = 60  # bytes of the temporary folder's path: a socket's has at most 107


def limited(function: Callable[[T], R], argument: T, seconds: float) -> R:
    """Return `function(argument)`, called in a process that is kept for the next call, and killed if it is late.

    Both are picklable. To start the process and to import the function is not part of the time. TimeoutError if the
    call takes longer than `seconds`, EOFError if its process died. An exception is raised as HarnessError, by its text.
    """
    global _limited
    with _one_call:
        if _limited is None or not _limited.alive:
            _limited = BoundedChild(_carry_out)
        fault = _limited.ask((function, argument), START_S)
        result: Any = None
        if fault is None:
            fault, result = _limited.answer(seconds)
    if fault is not None:
        raise HarnessError(fault)
    return cast(R, result)


def end_limited() -> None:
    """End the process of `limited`, if there is one; the next call starts another, with modules as they are then."""
    if _limited is not None:
        _limited.end()


_one_call = threading.Lock()
_limited: BoundedChild | None = None


def _carry_out(link: Connection) -> None:
    """In the process of `limited`: call the functions that come; a first answer to each says that it could be read."""
    end_with_owner()
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            try:
                function, argument = link.recv()
            except EOFError:
                return
            except Exception as failure:
                link.send(error_text(failure))
                continue
            link.send(None)
            try:
                link.send((None, function(argument)))
            except Exception as failure:
                link.send((error_text(failure), None))


class BoundedChild:
    """A process that calls `serve(link, *arguments)`, which answers each object that it receives from `link` by one.

    serve       importable; it begins with `end_with_owner()` and ends when the link is closed (EOFError)
    arguments   picklable
    """

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        self._link, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, *arguments))
        self._process.start()
        other.close()
        self._end = Finalize(self, _end_process, (self._process, self._link), exitpriority=10)  # exit waits for it

    def ask(self, request: object, limit_s: float) -> Any:
        """Send a request, and return what `answer` returns."""
        with suppress(OSError):
            self._link.send(request)
        return self.answer(limit_s)

    def answer(self, limit_s: float) -> Any:
        """The next answer. TimeoutError if it does not come in time, EOFError if the process died; it is then ended."""
        try:
            if not self._link.poll(limit_s):
                raise TimeoutError
            return self._link.recv()
        except BaseException as failure:  # after an interrupt, too, its answer must not be taken for a later one's
            self.end()
            if isinstance(failure, OSError) and not isinstance(failure, TimeoutError):
                raise EOFError from None
            raise

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.is_alive()

    def end(self) -> None:
        """Kill it, and all processes that it has started."""
        self._end()


def _end_process(process: BaseProcess, link: Connection) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                child.kill()
    process.kill()
    process.join()
    link.close()


def end_with_owner() -> None:
    """End this process when its owner, the process that started it, ends; no effect outside multiprocessing.

    The owner holds one end of a pipe, which closes when the whole owner has ended, even by SIGKILL, not one thread of
    it. On Linux the kernel then sends SIGKILL, also into a loop in C; on other systems a thread waits for the pipe.
    """
    owner = multiprocessing.parent_process()
    if owner is None:
        return
    pipe, poll = owner.sentinel, select.poll()
    poll.register(pipe, select.POLLIN)

    def look(timeout_ms: int | None) -> None:
        if poll.poll(timeout_ms):
            os.kill(os.getpid(), signal.SIGKILL)

    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
        look(0)  # it may have closed before the signal was set up
    else:
        threading.Thread(target=look, args=(None,), daemon=True).start()


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    status    its exit status, -n if signal n ended it; None if it was ended because its time was up
    out, err  the ends of its stdout and stderr; empty if they went to a log
    """

    status: int | None
    out: str = ""
    err: str = ""


class Lost(Exception):
    """The warden has ended, and with it the command: it was closed, or something killed it."""


class Warden:
    """A process that runs commands for this one, one at a time, and ends each with all that it has started.

    folder  for files of its commands, and short enough for a socket; deleted when the warden ends
    """

    def __init__(self, passed: Sequence[int] = ()) -> None:
        place = tempfile.gettempdir()
        self.folder = Path(
            tempfile.mkdtemp(prefix="harness-", dir=place if len(place) <= LONGEST else "/tmp")
        ).resolve()
        command = [sys.executable, "-P", "-m", "harness.system.warden", str(self.folder)]
        pipe = subprocess.PIPE  # the command does not come as an argument: a search for it must not find the warden
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True, pass_fds=passed)
        assert process.stdin
        assert process.stdout
        self._in, self._out, self._grace = process.stdin, process.stdout, [GRACE_S]
        self.close = weakref.finalize(self, _close, process, self._grace)  # at exit too
        self.pid = process.pid

    def __enter__(self) -> Warden:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        log: Path | None = None,
        limit_s: float | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        """Start a command in this process' working directory, without input; Lost if the warden has ended.

        environment  variables to add to those of this process
        log          the file to which stdout and stderr are appended; None: their ends are kept
        limit_s      the time after which it is ended: by SIGTERM, and `grace_s` seconds later by SIGKILL
        """
        self._grace[0] = grace_s
        task = {
            "command": list(map(str, command)),
            "environment": {**os.environ, **(environment or {})},
            "folder": os.getcwd(),
            "log": log and str(log.absolute()),
            "limit_s": limit_s,
            "grace_s": grace_s,
        }
        try:
            self._in.write(json.dumps(task).encode() + b"\n")
            self._in.flush()
        except (BrokenPipeError, ValueError):  # ValueError: the pipe is closed
            raise Lost from None

    def ended(self, timeout_s: float | None = None) -> Ended | None:
        """How the command ended, with all its descendants; None if it runs still after `timeout_s`.

        OSError if it could not be started, Lost if the warden has ended.
        """
        try:
            if not wait([self._out.fileno()], timeout_s):
                return None
            answer: dict[str, Any] = json.loads(self._out.readline())
        except ValueError:  # the pipe is closed, or there is no whole line
            raise Lost from None
        if "fault" in answer:
            raise OSError(*answer["fault"])
        return Ended(answer["status"], *answer["printed"])

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any) -> Ended:
        """Run a command to its end; the arguments are those of `start`, the errors those of `ended`."""
        self.start(command, environment, **options)
        ended = self.ended()
        assert ended
        return ended


def _close(process: subprocess.Popen[bytes], grace: Sequence[float]) -> None:
    """Let a warden end its command and itself."""
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(grace[0] + END_S)
    except subprocess.TimeoutExpired:  # a process that cannot be killed: it waits for a device
        process.kill()
        process.wait()
    process.stdout.close()


class Wardens:
    """Wardens for several threads, each kept for the next command; `close` ends them and what they run."""

    def __init__(self) -> None:
        self._idle: list[Warden] = []
        self._busy: set[Warden] = set()
        self.closed = False

    @contextmanager
    def one(self) -> Iterator[Warden]:
        """A warden that nobody else uses; after an exception it is ended. Lost if all are closed."""
        try:
            warden = self._idle.pop()
        except IndexError:
            warden = Warden()
        self._busy.add(warden)
        try:
            if self.closed:
                raise Lost
            yield warden
        except BaseException:
            warden.close()
            raise
        else:
            self._idle.append(warden)
        finally:
            self._busy.discard(warden)

    def close(self) -> None:
        """End all wardens, and the commands that they run."""
        self.closed = True
        for warden in [*self._idle, *self._busy]:
            warden.close()


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    watch: Callable[[], None] = lambda: None,
    grace_s: float = GRACE_S,
    passed: Sequence[int] = (),
) -> int:
    """Run the command and return its exit status (-n if signal n ended it); stdout and stderr are appended to `log`.

    `watch` is called several times a second while the command runs, and once after it. Any exception from it, Ctrl-C,
    and the end of this process end the command and all its descendants: by SIGTERM, and after `grace_s` by SIGKILL.
    Descendants that an ended command leaves are ended too. OSError if the command cannot be started.
    `environment`: variables to add to those of this process.
    `passed`: file descriptors that are held until all has ended.
    """
    with Warden(passed) as warden:
        try:
            warden.start(command, environment, log=log, grace_s=grace_s)
            while (ended := warden.ended(POLL_S)) is None:
                watch()
        except Lost:
            return -signal.SIGKILL
        watch()
        assert ended.status is not None
        return ended.status
