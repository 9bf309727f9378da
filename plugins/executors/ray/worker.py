"""What runs in the processes of a Ray cluster: the harness' own functions, once it is sure that they fit the run.

Nothing here imports ray. A worker compares what the run's terms say with what it finds, once a process: the versions,
the plugin files, and a token in the store, which is how it knows that the folder is the same one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import platform
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.plugin_system.registry import GROUP
from harness.stages.work import forget_components

Terms = dict[str, Any]  # plain data: a node without the harness must be able to read it

_agreed = ""  # the run that this process has found to fit


def make_terms(run: str, token: Path | None, plugin_files: Sequence[Path]) -> Terms:
    """What every process that works for a run has to agree with."""
    ours = {dist.metadata["Name"] for dist in distributions() if any(one.group == GROUP for one in dist.entry_points)}
    return {
        "run": run,
        "folder": os.getcwd(),
        "token": str(token.absolute()) if token else "",
        "python": _python(),
        "versions": {name: version(name) for name in sorted(ours)},
        "files": {str(path): _digest(path) for path in plugin_files},
    }


def difference(terms: Terms) -> str:
    """What is wrong with this process for that run, in a few words; "" where nothing is."""
    if terms["python"] != _python():
        return f"Python {_python()} there, {terms['python']} here: install the same"
    for name, wanted in terms["versions"].items():
        found = _version(name)
        if found != wanted:
            return f"{name} {found} there, {wanted} here: install the same"
    if terms["token"] and _content(terms["token"]) != terms["run"].encode():
        folder = Path(terms["token"]).parent
        return f"it does not see the store's folder {folder}: --store must be on a file system that all nodes share"
    for name, digest in terms["files"].items():
        if _digest(Path(name)) != digest:
            return f"--plugin {name} is not there, or another file: it must be on a file system that all nodes share"
    return ""


def done(terms: Terms, function: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    """(True, what the function gives), or (False, what it raised)."""
    try:
        _enter(terms)
        return True, function(*arguments)
    except Exception as failure:
        return False, _portable(failure)


class Worker:
    """Does one thing after the other, and says meanwhile how far it is. What its functions load stays loaded."""

    def __init__(self) -> None:
        self._at = (-1, 0)

    def ready(self) -> None:
        """Answered once the process is there."""

    def do(self, terms: Terms, number: int, function: Callable[..., Any], item: Any) -> tuple[bool, Any, int]:
        """What `done` gives, and how many units were reported."""
        self._at = (number, 0)
        well, result = done(terms, function, item, self._count)
        return well, result, self._at[1]

    def at(self) -> tuple[int, int]:
        """Which item is under way, and the units of it that are finished."""
        return self._at

    def _count(self, units: int) -> None:
        self._at = (self._at[0], self._at[1] + units)


def _enter(terms: Terms) -> None:
    global _agreed
    if terms["run"] == _agreed:
        return
    with contextlib.suppress(OSError):  # relative paths mean what they mean where the run was started
        os.chdir(terms["folder"])
    wrong = difference(terms)
    if wrong:
        raise HarnessError(f"executor ray: node {platform.node()}: {wrong}")
    forget_components()
    _agreed = terms["run"]


def _portable(failure: Exception) -> Exception:
    """The exception as another process can read it; with the traceback that it had here, where it is a bug."""
    if isinstance(failure, HarnessError):
        return HarnessError(str(failure))
    failure.add_note(f"on {platform.node()}:\n{''.join(traceback.format_exception(failure))}")
    try:
        pickle.loads(pickle.dumps(failure))
    except Exception:
        return RuntimeError(f"{type(failure).__name__}: {failure}\n{''.join(traceback.format_exception(failure))}")
    return failure


def _python() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _digest(path: Path) -> str:
    content = _content(str(path))
    return hashlib.sha256(content).hexdigest() if content else ""
