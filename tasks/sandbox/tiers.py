"""Find out how programs can be confined on this machine, by trying the tiers from the best to the worst.

bwrap      user namespaces: no network, no other processes, and only the interpreter's files, read-only; seccomp and
           resource limits. It needs bubblewrap, and the right to create user namespaces.
landlock   the same seccomp and limits; Landlock closes the file system except for the interpreter's files. A program
           can still find out whether a path exists. Containers and some distributions refuse user namespaces but allow
           this.
none       resource limits, and seccomp if there is a table for the machine. Only on request (unsafe_exec).

Before a process uses a tier, canary programs try to do harm in it (`canaries.py`), which takes about 0.2 s.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from harness import HarnessError

from . import canaries
from .interpreters import LOADER_FILES, OPTIONS, PYTHON, SYSTEM_LIBRARIES, Interpreter, inside, interpreter
from .transcript import WorkerLost
from .worker import Command, Worker

TIERS = ("bwrap", "landlock", "none")
FORCED = "HARNESS_SANDBOX_TIER"

REMARKS = {
    "bwrap": "sandbox: bwrap",
    "landlock": "sandbox: Landlock and seccomp only ({reason}); generated code can read the Python installation",
    "none": "sandbox: NONE ({reason}); generated code can read all that you can read",
}

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONIOENCODING": "utf-8:surrogatepass",
}


def find_tier(unsafe_exec: bool = False) -> tuple[str, str]:
    """Return the best tier that works on this machine, and a line about it for the reader.

    If the environment variable HARNESS_SANDBOX_TIER names a tier, return that one. Raises HarnessError if nothing
    confines programs and `unsafe_exec` is False. Each tier is tried once in a process.
    """
    forced = os.environ.get(FORCED)
    if forced:
        return forced_tier(forced, unsafe_exec)
    reasons: list[str] = []
    for tier in TIERS:
        if tier == "none" and not unsafe_exec:
            break
        problem = _problem(tier, os.environ.get(PYTHON))
        if not problem:
            return tier, REMARKS[tier].format(reason="; ".join(reasons))
        reasons.append(f"no {tier}: {problem}")
    raise HarnessError(
        f"sandbox: nothing here confines generated code ({'; '.join(reasons)}); install bubblewrap, or accept the risk "
        "with --unsafe-exec"
    )


def forced_tier(tier: str, unsafe_exec: bool = False) -> tuple[str, str]:
    """Return the requested tier and a line about it for the reader.

    Raises HarnessError if it is unknown or does not work, or if it is "none" and `unsafe_exec` is False.
    """
    if tier not in TIERS:
        raise HarnessError(f"sandbox: unknown tier {tier!r} (choose from {', '.join(TIERS)})")
    if tier == "none" and not unsafe_exec:
        raise HarnessError("sandbox: the tier 'none' confines nothing; accept the risk with --unsafe-exec")
    problem = _problem(tier, os.environ.get(PYTHON))
    if problem:
        raise HarnessError(f"sandbox: the tier {tier!r} does not hold here: {problem}")
    return tier, REMARKS[tier].format(reason="as asked for")


@cache
def _problem(tier: str, python: str | None) -> str:
    """Return why a tier cannot be used on this machine; "" if it can. `python` is a key of the cache only."""
    if sys.platform != "linux":
        return f"programs are confined on Linux only, this is {sys.platform}"
    interpreter()
    try:
        worker = Worker(command(tier, "plain"))
    except WorkerLost as problem:
        return str(problem)
    try:
        return canaries.harm_done(lambda suite, program: worker.run(suite, [program], None, True), tier != "none")
    except WorkerLost as problem:
        return f"its worker was lost: {problem}"
    finally:
        worker.kill()


def command(tier: str, kind: str) -> Command:
    """Return the command that starts a worker in a tier. Raises WorkerLost if bubblewrap is needed and missing.

    kind   "plain", or "numpy" for a worker that has numpy loaded
    """
    python = interpreter()
    numpy = python.numpy_folders if kind == "numpy" else []
    settings: dict[str, Any] = {"tier": tier, "numpy": os.path.dirname(numpy[0]) if numpy else None}
    python_command = [python.executable, *OPTIONS]
    if tier == "bwrap":
        program = shutil.which("bwrap")
        if program is None:
            raise WorkerLost("bubblewrap (bwrap) is not installed")
        return Command([program, *_bwrap_options(python, numpy), *python_command], True, ENVIRONMENT, settings)
    settings["readable"], settings["listable"] = _landlock_paths(python, numpy)
    return Command(python_command, False, ENVIRONMENT, settings)


def _bwrap_options(python: Interpreter, numpy: list[str]) -> Iterator[str]:
    """Yield the options of bwrap that define what a program sees; its environment is that of bwrap, ENVIRONMENT.

    --die-with-parent is not used: it means the parent's thread, which may end before the parent. Workers end when their
    file descriptor 0 hangs up.
    """
    yield from ("--unshare-all", "--unshare-user", "--new-session", "--cap-drop", "ALL")
    yield from ("--uid", "65534", "--gid", "65534", "--hostname", "sandbox")
    for folder in SYSTEM_LIBRARIES:
        if os.path.islink(folder):
            yield from ("--symlink", os.readlink(folder), folder)
        elif os.path.isdir(folder):
            yield from ("--ro-bind", folder, folder)
    for folder in python.folders:
        yield from ("--ro-bind", folder, folder)
    for folder in python.packages:
        yield from ("--tmpfs", folder)
    for path in (*numpy, python.executable, *LOADER_FILES):
        if os.path.exists(path):
            yield from ("--ro-bind", path, path)
    for folder in python.packages:
        yield from ("--remount-ro", folder)
    yield from ("--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/")


def _landlock_paths(python: Interpreter, numpy: list[str]) -> tuple[list[str], list[str]]:
    """Return the paths that may be read, and those that may only be listed.

    A rule of Landlock holds for all that is below a folder, so folders with hidden packages are given by their entries.
    """
    roots = sorted({os.path.realpath(root) for root in (*SYSTEM_LIBRARIES, *python.folders)})
    readable = [path for root in roots if os.path.isdir(root) for path in _without(root, python.packages)]
    return sorted({*readable, *numpy, python.executable, *LOADER_FILES}), roots


def _without(folder: str, hidden: tuple[str, ...]) -> Iterator[str]:
    """Yield the folder or, if something below it is hidden, its entries without that."""
    if folder in hidden:
        return
    if not any(inside(path, folder) for path in hidden):
        yield folder
        return
    for name in sorted(os.listdir(folder)):
        yield from _without(os.path.join(folder, name), hidden)
