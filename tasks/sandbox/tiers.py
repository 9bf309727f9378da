"""Find out how programs can be confined on this machine, by trying the tiers from the best to the worst.

bwrap      user namespaces: no network, no other processes, and only the interpreter's files, read-only; seccomp and
           resource limits. It needs bubblewrap, and the right to create user namespaces.
landlock   the same seccomp and limits; Landlock closes the file system except for the interpreter's files. A program
           can still find out whether a path exists. Containers and some distributions refuse user namespaces but allow
           this.
none       resource limits, and seccomp if there is a table for the machine. Only on request (unsafe_exec).

Before a process uses a tier, canary programs try to do harm in it, which takes about 0.2 s.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness import HarnessError

from .canonical import encode
from .worker import Suite, Worker, WorkerLost

TIERS = ("bwrap", "landlock", "none")
FORCED, PYTHON = "HARNESS_SANDBOX_TIER", "HARNESS_SANDBOX_PYTHON"  # environment variables

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

SYSTEM_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")
LOADER_FILES = ("/etc/ld.so.cache", "/etc/alternatives")

# -I would ignore PYTHONHASHSEED; -s, -P and a fixed environment isolate as well.
OPTIONS = ("-s", "-S", "-P", "-B")


def find_tier(unsafe_exec: bool = False, tier: str | None = None) -> tuple[str, str]:
    """Return the best tier that works on this machine, and a line about it for the reader. Each is tried once.

    Raises HarnessError if nothing confines programs and `unsafe_exec` is False.

    tier   the tier to use; None: the one that the environment variable HARNESS_SANDBOX_TIER names, or else the best.
           Raises HarnessError if it is unknown or does not work, or if it is "none" and `unsafe_exec` is False
    """
    tier = tier or os.environ.get(FORCED)
    if tier and tier not in TIERS:
        raise HarnessError(f"sandbox: unknown tier {tier!r} (choose from {', '.join(TIERS)})")
    if tier == "none" and not unsafe_exec:
        raise HarnessError("sandbox: the tier 'none' confines nothing; accept the risk with --unsafe-exec")
    reasons: list[str] = []
    for name in [tier] if tier else TIERS if unsafe_exec else TIERS[:-1]:
        problem = _problem(name, os.environ.get(PYTHON))
        if not problem:
            return name, REMARKS[name].format(reason="as asked for" if tier else "; ".join(reasons))
        reasons.append(f"no {name}: {problem}")
    if tier:
        raise HarnessError(f"sandbox: the tier {tier!r} does not hold here: {problem}")
    raise HarnessError(
        f"sandbox: nothing here confines generated code ({'; '.join(reasons)}); install bubblewrap, or accept the risk "
        "with --unsafe-exec"
    )


# Canaries. Each defines canary(path), which returns True if it could do harm.

SECRET = "only outside"
HARM = {
    "opened a socket": "import socket\ndef canary(path): return bool(socket.socket())",
    "started a process": "import os\ndef canary(path): return os.fork() > 0 or os._exit(0)",
    "wrote a file": "import os\ndef canary(path): return os.open('/tmp/canary', os.O_CREAT | os.O_WRONLY) >= 0",
    "read a file outside": f"def canary(path): return open(path).read() == {SECRET!r}",
    "signalled its parent": "import os\ndef canary(path): return os.kill(os.getppid(), 0) is None",
    "took too much memory": "import mmap\ndef canary(path): return len(mmap.mmap(-1, 1 << 30)) > 0",
    "ran too long": """
import signal, time
def canary(path):
    try:
        signal.setitimer(signal.ITIMER_PROF, 0)
    except OSError:
        pass
    started = time.process_time()
    while time.process_time() < started + 1:
        pass
    return True
""",
}
HONEST = "def canary(path): return [path, {1: (2.5, 'a')}, 2 ** 70]"


@cache
def _problem(tier: str, python: str | None) -> str:
    """Return why a tier cannot be used on this machine; "" if it can. `python` is a key of the cache only.

    It cannot if a canary does harm (in "none" they are not tried), or if the honest program ends as it should not.
    """
    if sys.platform != "linux":
        return f"programs are confined on Linux only, this is {sys.platform}"
    try:
        worker = Worker(*command(tier, "plain"))
        try:
            with tempfile.TemporaryDirectory(prefix="canary-") as folder:
                path = f"{folder}/secret"
                Path(path).write_text(SECRET)
                suite = Suite("canary", [[path]], [0.05], memory_bytes=256 << 20, total_cpu_s=5.0)
                for name, program in HARM.items() if tier != "none" else ():
                    if worker.run(suite, program).results == ["T"]:
                        return f"a test program {name}"
                honest = worker.run(suite, HONEST)
        finally:
            worker.kill()
    except WorkerLost as problem:
        return str(problem)
    if (honest.status, honest.results) == ("ok", [encode([path, {1: (2.5, "a")}, 2**70])]):
        return ""
    return f"an honest test program ended as {honest.status} {honest.detail}".rstrip()


# How a worker is started


def command(tier: str, kind: str) -> tuple[list[str], dict[str, str], dict[str, Any]]:
    """Return a worker's command, environment and settings. Raises WorkerLost if bubblewrap is needed and missing.

    kind   "plain", or "numpy" for a worker that has numpy loaded
    """
    python = interpreter()
    numpy = [python.numpy, f"{python.numpy}.libs"] if kind == "numpy" and python.numpy else []
    numpy = [folder for folder in numpy if os.path.isdir(folder)]
    settings: dict[str, Any] = {"tier": tier, "numpy": os.path.dirname(numpy[0]) if numpy else None}
    words = [python.executable, *OPTIONS]
    if tier == "bwrap":
        program = shutil.which("bwrap")
        if program is None:
            raise WorkerLost("bubblewrap (bwrap) is not installed")
        return [program, *_bwrap_options(python, numpy), *words], ENVIRONMENT, settings
    # A rule of Landlock holds for all that is below a folder, so folders with hidden packages are given by their
    # entries, and can themselves be listed only.
    roots = sorted({os.path.realpath(root) for root in (*SYSTEM_LIBRARIES, *python.folders)})
    readable = [path for root in roots if os.path.isdir(root) for path in _without(root, python.packages)]
    settings["readable"] = sorted({*readable, *numpy, python.executable, *LOADER_FILES})
    settings["listable"] = roots
    return words, ENVIRONMENT, settings


def _bwrap_options(python: Interpreter, numpy: list[str]) -> Iterator[str]:
    """Yield the options of bwrap that define what a program sees.

    --die-with-parent is not used: it means the parent's thread, which may end before the parent. Workers end when their
    socket hangs up. --new-session is not needed, since a worker is a session of its own, without a terminal.
    """
    yield from ("--unshare-all", "--unshare-user", "--cap-drop", "ALL")
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


def _without(folder: str, hidden: tuple[str, ...]) -> Iterator[str]:
    """Yield the folder or, if something below it is hidden, its entries without that."""
    if folder in hidden:
        return
    if not any(Path(path).is_relative_to(folder) for path in hidden):
        yield folder
        return
    for name in sorted(os.listdir(folder)):
        yield from _without(os.path.join(folder, name), hidden)


# The interpreter

_QUESTION = """
import json, sys
from importlib.util import find_spec
numpy = find_spec("numpy")
mapped = [line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if ".so" in line]
executable = getattr(sys, "_base_executable", None) or sys.executable
print(json.dumps([sys.version_info[:2] >= (3, 11), executable, [sys.base_prefix, sys.base_exec_prefix], mapped,
                  numpy and numpy.origin]))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter.

    executable   its file
    folders      the folders that it imports from
    packages     the folders of installed packages, which programs must not see
    numpy        the folder of numpy, "" if it is not installed
    """

    executable: str
    folders: tuple[str, ...]
    packages: tuple[str, ...]
    numpy: str


def interpreter() -> Interpreter:
    """Return the interpreter that runs the programs: this one, or the one that HARNESS_SANDBOX_PYTHON names.

    Raises HarnessError if it does not run or is older than 3.11.
    """
    return _described(os.environ.get(PYTHON) or sys.executable)


@cache
def _described(path: str) -> Interpreter:
    try:
        answer = subprocess.run([path, "-I", "-c", _QUESTION], capture_output=True, timeout=60, check=True, text=True)
        is_new, executable, prefixes, mapped, numpy = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as problem:
        raise HarnessError(f"sandbox: the interpreter {path} does not run ({problem}); set {PYTHON}") from None
    if not is_new:
        raise HarnessError(f"sandbox: {path} is older than Python 3.11; set {PYTHON}")
    folders = tuple(_library_folders(prefixes, mapped))
    packages = {path for root in [*SYSTEM_LIBRARIES, *folders] for path in Path(root).glob("python3*/*-packages")}
    hidden = tuple(sorted({str(path.resolve()) for path in packages if path.is_dir()}))
    return Interpreter(os.path.realpath(executable), folders, hidden, os.path.dirname(numpy or ""))


def _library_folders(prefixes: list[str], mapped: list[str]) -> Iterator[str]:
    """Yield `lib` and `lib64` of the prefixes and the folders of loaded libraries, except those inside the system's."""
    folders = [f"{prefix}/{name}" for prefix in prefixes for name in ("lib", "lib64")]
    folders += [os.path.dirname(path) for path in mapped]
    outermost = [os.path.realpath(folder) for folder in SYSTEM_LIBRARIES]
    for folder in sorted({os.path.realpath(folder) for folder in folders if os.path.isdir(folder)}):
        if not any(Path(folder).is_relative_to(other) for other in outermost):
            outermost.append(folder)
            yield folder
