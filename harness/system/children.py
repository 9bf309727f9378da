"""Child processes that end with all that they have started: when they are late, on Ctrl-C, and when their owner ends.

`limited` calls a function in a process that is killed if it takes too long. `Warden` runs commands through a process in
between (`warden.py`), which ends them and all their descendants even if this process, the owner, is ended by SIGKILL.
What a command is that checks a response, and whether it judged or failed, stands at the end.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import pickle
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, TypeVar

import psutil

from harness.errors import HarnessError, did_you_mean, error_text

T = TypeVar("T")
R = TypeVar("R")

START_S = 300.0  # to start Python and import a function's module; the machine may be busy
POLL_S = 0.2
GRACE_S = 10.0  # between SIGTERM and SIGKILL
END_S = 60.0  # more than any grace time, after which a warden is given up
LONGEST = 60  # bytes of the temporary folder's path: a socket's has at most 107


# Functions.


_one_call = threading.Lock()
_pool: ProcessPoolExecutor | None = None
_worker: psutil.Process | None = None


def limited(function: Callable[[T], R], argument: T, seconds: float) -> R:
    """Return `function(argument)`, called in a process that is kept for the next call, and killed if it is late.

    Both are picklable. To start Python and to import the function's module is not part of the time. TimeoutError if the
    call takes longer than `seconds`, EOFError if its process died. An exception is raised as HarnessError, by its text.
    """
    global _pool, _worker
    with _one_call:
        try:
            if _pool is None:
                _pool = ProcessPoolExecutor(1, multiprocessing.get_context("forkserver"), _begin)
                # A worker of multiprocessing joins its children before it ends: this one must have been ended then.
                Finalize(None, end_limited, exitpriority=10)
                _worker = psutil.Process(_pool.submit(os.getpid).result(START_S))
                _pool.submit(_outcome, os.getcwd(), pickle.dumps((callable, function))).result(START_S)
            fault, result = _pool.submit(_outcome, os.getcwd(), pickle.dumps((function, argument))).result(seconds)
        except BaseException as failure:  # after an interrupt, too, its answer must not be taken for a later one's
            end_limited()
            if isinstance(failure, BrokenProcessPool):
                raise EOFError from None
            raise
    if fault:
        raise HarnessError(fault)
    return result  # type: ignore[no-any-return]


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its owner kills it
    end_with_owner()


def _outcome(folder: str, call: bytes) -> tuple[str, Any]:
    try:
        os.chdir(folder)  # the process may have been started elsewhere
        function, argument = pickle.loads(call)
        return "", function(argument)
    except Exception as failure:
        return error_text(failure), None


def end_limited() -> None:
    """Kill the process of `limited` and all that it has started; the next call's has modules as they are then."""
    global _pool, _worker
    if _worker:
        with suppress(psutil.NoSuchProcess):
            for process in [*_worker.children(recursive=True), _worker]:
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    process.kill()
    if _pool:
        _pool.shutdown()
    _pool = _worker = None


def end_with_owner() -> None:
    """End this process when its owner, the process that started it, ends; no effect outside multiprocessing.

    The owner holds one end of a pipe, which closes when the whole owner has ended, even by SIGKILL, not one thread of
    it. On Linux the kernel then sends SIGKILL, also into a loop in C; on any system a thread waits for the pipe.
    """
    owner = multiprocessing.parent_process()
    if owner is None:
        return
    pipe = owner.sentinel
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)

    def follow() -> None:
        wait([pipe])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=follow, daemon=True).start()


# Commands.


@dataclass(frozen=True)
class Ended:
    """How a command ended: its status, -n by signal n, None if its time was up; the ends of its output."""

    status: int | None
    out: str = ""
    err: str = ""


class Lost(Exception):
    """The warden has ended, and with it the command: it was closed, or something killed it."""


class Warden:
    """A process that runs commands for this one, one at a time, and ends each with all that it has started.

    folder  for files of its commands, and short enough for a socket; deleted when the warden ends
    passed  file descriptors that are held until all has ended
    close   ends the command and the warden, at exit too
    """

    def __init__(self, passed: Sequence[int] = ()) -> None:
        place = tempfile.gettempdir()
        folder = tempfile.mkdtemp(prefix="harness-", dir=place if len(place) <= LONGEST else "/tmp")
        self.folder = Path(folder).resolve()
        command = [sys.executable, "-P", "-m", "harness.system.warden", str(self.folder)]
        pipe = subprocess.PIPE  # the command does not come as an argument: a search for it must not find the warden
        self._process: Any = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True, pass_fds=passed)
        self.close = weakref.finalize(self, _close, self._process)

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        log: Path | None = None,
        out: Path | None = None,
        limit_s: float | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        """Start a command in this process' working directory, without input; Lost if the warden has ended.

        environment  variables to add to those of this process
        log          the file to which stdout and stderr are appended; without it and `out` their ends are kept
        out          the file that stdout is written to; stderr is then this process' own
        limit_s      the time after which it is ended: by SIGTERM, and `grace_s` seconds later by SIGKILL
        """
        task = {
            "command": list(map(str, command)),
            "environment": {**os.environ, **(environment or {})},
            "folder": os.getcwd(),
            "log": log and str(log.absolute()),
            "out": out and str(out.absolute()),
            "limit_s": limit_s,
            "grace_s": grace_s,
        }
        try:
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):  # ValueError: the pipe is closed
            raise Lost from None

    def ended(self, timeout_s: float | None = None) -> Ended | None:
        """How the command ended, with all its descendants; None if it runs still after `timeout_s`.

        OSError if it could not be started, Lost if the warden has ended.
        """
        try:
            if not wait([self._process.stdout.fileno()], timeout_s):
                return None
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except ValueError:  # the pipe is closed, or there is no whole line
            raise Lost from None
        if "fault" in answer:
            raise OSError(*answer["fault"])
        return Ended(answer["status"], *answer["printed"])

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        watch: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> Ended:
        """Run a command to its end, and call `watch` meanwhile; arguments as of `start`, errors as of `ended`."""
        self.start(command, environment, **options)
        while (ended := self.ended(POLL_S)) is None:
            watch()
        watch()
        return ended


def _close(process: Any) -> None:
    """Let a warden end its command and itself."""
    with suppress(BrokenPipeError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_S)
    process.kill()  # if it waits for a process that cannot be killed, which waits for a device
    process.wait()
    process.stdout.close()


class Wardens:
    """Wardens for several threads, each kept for the next command; `close` ends them and what they run."""

    def __init__(self) -> None:
        self._idle: list[Warden] = []
        self._every: list[Warden] = []
        self.closed = False

    @contextmanager
    def one(self) -> Iterator[Warden]:
        """A warden that nobody else uses; after an exception it is ended. Lost if all are closed."""
        try:
            warden = self._idle.pop()
        except IndexError:
            warden = Warden()
            self._every.append(warden)
        try:
            if self.closed:
                raise Lost
            yield warden
        except BaseException:
            warden.close()
            raise
        self._idle.append(warden)

    def close(self) -> None:
        """End all wardens, and the commands that they run."""
        self.closed = True
        for warden in list(self._every):
            warden.close()


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path | None = None,
    watch: Callable[[], None] = lambda: None,
    grace_s: float = GRACE_S,
    passed: Sequence[int] = (),
    out: Path | None = None,
) -> int:
    """Run the command and return its exit status (-n if signal n ended it); `log` and `out` are those of `start`.

    `watch` is called several times a second while the command runs, and once after it. Any exception from it, Ctrl-C,
    and the end of this process end the command and all its descendants: by SIGTERM, and after `grace_s` by SIGKILL.
    Descendants that an ended command leaves are ended too. OSError if the command cannot be started.
    """
    warden = Warden(passed)
    try:
        status = warden.run(command, environment, watch, log=log, out=out, grace_s=grace_s).status
        assert status is not None
        return status
    except Lost:
        return -signal.SIGKILL
    finally:
        warden.close()


# A user's program that checks a response. It judges by its exit code alone: 0 is correct, 1 is wrong. But Python ends
# with 1, too, when nothing catches an exception, or when it cannot start.

PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z_]+)\}")
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""")
_SHELL = re.compile(r"[|<>;]|&&")
_INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby|node|bash|dash|zsh|sh|Rscript|julia|lua|php)[0-9.]*")
_SCRIPT = re.compile(r"[^{]+\.(?:py|pl|rb|js|mjs|cjs|sh|bash|R|r|jl|lua|php)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # Python 3.13, with FORCE_COLOR
_FRAME = re.compile(r'^  File "(.+)", line \d+(?:, in (.+))?$', re.MULTILINE)
_END = re.compile(r"^\S.*", re.MULTILINE)  # what ends the frames: the exception
_NO_START = re.compile(  # Python cannot read the program, or not begin: there is no traceback
    r"^(?:(?:Syntax|Indentation|Tab|Fatal Python )[Ee]rror: "
    r"|.*(?:python|pypy)[\d.]*: (?:No module named |Error while finding module |can't find '__main__' module in ))",
    re.MULTILINE,
)


def words_of(command: str, names: Sequence[str], what: str) -> list[str]:
    """The words of a command that checks a response; HarnessError if it cannot be run for one.

    It is split as a shell would split it, and run without a shell.

    names  what `checked` puts in for {name}
    what   the option that has the command, as messages begin: "verify: --verifier"
    """
    try:
        words = shlex.split(command)
    except ValueError as failure:
        raise HarnessError(f"{what} {command!r}: {failure}") from None
    if operator := _SHELL.search(_QUOTED.sub("", command)):
        raise HarnessError(f"{what}: no shell reads {operator[0]!r}: write sh -c '...', or quote it")
    used = PLACEHOLDER.findall(command)
    for name in set(used) - set(names):
        guess = did_you_mean(name, names, "known")
        raise HarnessError(f"{what}: nothing is put in for {{{name}}} {guess}")
    if not {"response_file", "index"} & set(used):
        raise HarnessError(f"{what}: say where the response goes, e.g. 'python check.py {{response_file}}'")
    return words


def checked(
    wardens: Wardens,
    words: Sequence[str],
    texts: Mapping[str, str],
    values: Mapping[str, str],
    inside: Callable[[Path], Sequence[str]],
    limit_s: float,
    grace_s: float,
) -> tuple[Ended, bool]:
    """Run a command that checks a response; return how it ended, and whether it failed itself and did not judge.

    texts   by name, such as "response": what the file holds that is put in for {response_file}
    values  what else is put in, by name
    inside  the words before the command's, given the folder of the files

    Limits and errors are those of `Warden.run`.
    """
    with (
        wardens.one() as warden,
        tempfile.TemporaryDirectory(dir=warden.folder, ignore_cleanup_errors=True) as name,
    ):
        folder = Path(name)
        values = {**values, **{f"{text}_file": str(folder / text) for text in texts}}
        for text, content in texts.items():
            (folder / text).write_bytes(content.encode("utf-8", "replace"))
        filled = [PLACEHOLDER.sub(lambda match: values[match[1]], word) for word in words]
        ended = warden.run([*inside(folder), *filled], limit_s=limit_s, grace_s=grace_s)
        return ended, ended.status == 1 and failed_itself(ended.err, values.get("response_file", ""))


def require_program(words: Sequence[str], what: str) -> None:
    """HarnessError if a command's program is not there, or the script that is the first word after python, sh, ...

    what  the option that has the command, as messages begin: "verify: --verifier"
    """
    program, script = words[0], words[1] if len(words) > 1 else ""
    if shutil.which(program) is None:
        raise HarnessError(
            f"{what}: there is no program {program!r}: give its path, or one that is on PATH; a script must be "
            "executable (`chmod +x`), or stand after what runs it (python, sh, ...)"
        )
    is_run = _INTERPRETER.fullmatch(Path(program).name) and _SCRIPT.fullmatch(script)
    if is_run and not Path(script).exists() and shutil.which(script) is None:
        raise HarnessError(f"{what}: there is no file {script!r} in {Path.cwd()}: give its path from there")


def failed_itself(err: str, response_file: str) -> bool:
    """Whether a program that ended with 1 did not judge, by its standard error.

    That is so if Python could not start it, or by the last traceback that stands there, unless its exception is a
    failed `assert`, or was raised in the response's code: in its file, or in a string that the program executes. Only
    the lines of frames and the exception's type are read: a response whose text a message quotes can at most turn an
    error into a wrong or a wrong into an error.
    """
    _, is_traceback, traceback = _COLOUR.sub("", err).rpartition("Traceback (most recent call last):")
    if not is_traceback:
        return _NO_START.search(traceback) is not None
    end = _END.search(traceback)
    if end is None or re.match(r"AssertionError(?::|$)", end[0]):
        return end is None
    frames = _FRAME.findall(traceback[: end.start()])
    # The outermost string is the program itself: `python -c`. Dataclasses make functions like __init__ of a string.
    return not any(path == response_file for path, _ in frames) and not any(
        path == "<string>" and not re.fullmatch(r"__\w+__", name) for path, name in frames[1:]
    )
