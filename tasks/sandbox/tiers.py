"""How programs are confined on this machine, from the best: bwrap, landlock, none. Found by trying, not by guessing.

bwrap      an empty world by user namespaces: no network, no other processes, no files but the interpreter's, read-only;
           seccomp and resource limits. Needs bubblewrap, and user namespaces for the user.
landlock   the same seccomp and limits; Landlock closes the file system but for the interpreter. A program can still
           ask whether a path exists. Containers and some distributions refuse user namespaces but have this.
none       limits, and seccomp where there is a table for the machine. Only on demand (unsafe_exec).

Before a tier is used in a process, canary programs try to do harm in it (`canaries.py`); all takes about 0.2 s.
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
from .workers import Command, Worker, WorkerLost

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
    """The best tier that holds on this machine, and a line on it for the reader.

    Raises HarnessError where nothing confines and `unsafe_exec` is False. Tried once in a process.
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
    """One tier that was asked for, and its remark. Raises HarnessError where it is unknown or does not hold."""
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
    """Why a tier cannot be used here; "" if it can. `python` is for the cache: another one, another answer."""
    if sys.platform != "linux":
        return f"programs are confined on Linux only, this is {sys.platform}"
    interpreter()
    try:
        worker = Worker(command(tier, "plain"))
    except WorkerLost as problem:
        return str(problem)
    try:
        return canaries.harm_done(lambda suite, program: worker.run(suite, program, None, True), tier != "none")
    except WorkerLost as problem:
        return f"its worker was lost: {problem}"
    finally:
        worker.kill()


def command(tier: str, kind: str) -> Command:
    """How a worker of a kind ("plain", "numpy") is started in a tier."""
    python = interpreter()
    numpy = python.numpy_folders if kind == "numpy" else []
    settings: dict[str, Any] = {"tier": tier, "numpy": os.path.dirname(numpy[0]) if numpy else None}
    run = [python.executable, *OPTIONS]
    if tier == "bwrap":
        program = shutil.which("bwrap")
        if program is None:
            raise WorkerLost("bubblewrap (bwrap) is not installed")
        return Command([program, *_bwrap_options(python, numpy), *run], True, ENVIRONMENT, settings)
    settings["readable"], settings["listable"] = _landlock_paths(python, numpy)
    return Command(run, False, ENVIRONMENT, settings)


def _bwrap_options(python: Interpreter, numpy: list[str]) -> Iterator[str]:
    """The world of a program. Its environment is the one that bwrap is started with, which is ENVIRONMENT.

    No --die-with-parent: that means the parent's thread, and threads come and go. Workers die when fd 0 hangs up.
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
    """What may be read, and what only listed: a rule holds for all below a folder, so packages are left out by name."""
    roots = sorted({os.path.realpath(root) for root in (*SYSTEM_LIBRARIES, *python.folders)})
    readable = [path for root in roots if os.path.isdir(root) for path in _without(root, python.packages)]
    return sorted({*readable, *numpy, python.executable, *LOADER_FILES}), roots


def _without(folder: str, hidden: tuple[str, ...]) -> Iterator[str]:
    """The folder, or its entries where something below it is hidden."""
    if folder in hidden:
        return
    if not any(inside(path, folder) for path in hidden):
        yield folder
        return
    for name in sorted(os.listdir(folder)):
        yield from _without(os.path.join(folder, name), hidden)
