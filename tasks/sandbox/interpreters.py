"""Find the Python that runs the programs, and the files that it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness import HarnessError

PYTHON = "HARNESS_SANDBOX_PYTHON"
OLDEST = (3, 11)

SYSTEM_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")
LOADER_FILES = ("/etc/ld.so.cache", "/etc/alternatives")

# -I would ignore PYTHONHASHSEED; -s, -P and a fixed environment isolate as well.
OPTIONS = ("-s", "-S", "-P", "-B")

_QUESTION = """
import json, sys
from importlib.util import find_spec
numpy = find_spec("numpy")
mapped = [line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if ".so" in line]
executable = getattr(sys, "_base_executable", None) or sys.executable
print(json.dumps([sys.version_info[:2], executable, [sys.base_prefix, sys.base_exec_prefix], mapped,
                  numpy and numpy.origin]))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter.

    executable   its file
    folders      the folders that it imports from
    packages     the folders of installed packages, which programs must not see
    numpy        the folder of numpy, None if it is not installed
    """

    executable: str
    folders: tuple[str, ...]
    packages: tuple[str, ...]
    numpy: str | None

    @property
    def numpy_folders(self) -> list[str]:
        """The folder of numpy, and that of the libraries in its wheel."""
        folders = [self.numpy, f"{self.numpy}.libs"] if self.numpy else []
        return [folder for folder in folders if os.path.isdir(folder)]


def interpreter() -> Interpreter:
    """Return the interpreter that runs the programs: this one, or the one that HARNESS_SANDBOX_PYTHON names.

    Raises HarnessError if it does not run or is older than 3.11.
    """
    return _described(os.environ.get(PYTHON) or sys.executable)


@cache
def _described(path: str) -> Interpreter:
    """Run an interpreter to find out its version and folders."""
    try:
        answer = subprocess.run([path, "-I", "-c", _QUESTION], capture_output=True, timeout=60, check=True, text=True)
        version, executable, prefixes, mapped, numpy = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as problem:
        raise HarnessError(f"sandbox: the interpreter {path} does not run ({problem}); set {PYTHON}") from None
    if tuple(version) < OLDEST:
        raise HarnessError(f"sandbox: {path} is Python {version[0]}.{version[1]}, but 3.11 is the oldest; set {PYTHON}")
    folders = tuple(_library_folders(prefixes, mapped))
    packages = tuple(_package_folders([*SYSTEM_LIBRARIES, *folders]))
    return Interpreter(os.path.realpath(executable), folders, packages, os.path.dirname(numpy) if numpy else None)


def _library_folders(prefixes: list[str], mapped: list[str]) -> Iterator[str]:
    """Yield `lib` and `lib64` of the prefixes and the folders of loaded libraries, except those inside the system's."""
    folders = [f"{prefix}/{name}" for prefix in prefixes for name in ("lib", "lib64")]
    folders += [os.path.dirname(path) for path in mapped]
    system = [os.path.realpath(folder) for folder in SYSTEM_LIBRARIES]
    outermost: list[str] = []
    for folder in sorted({os.path.realpath(folder) for folder in folders if os.path.isdir(folder)}):
        if not any(inside(folder, other) for other in (*outermost, *system)):
            outermost.append(folder)
            yield folder


def _package_folders(roots: list[str]) -> list[str]:
    """Return the folders `site-packages` and `dist-packages`; programs must not see what is installed there."""
    folders = {path.resolve() for root in roots for path in Path(root).glob("python3*/*-packages") if path.is_dir()}
    return sorted(map(str, folders))


def inside(path: str, folder: str) -> bool:
    """Whether a path is the folder or inside it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
