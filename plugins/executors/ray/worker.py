"""Run the harness' functions in the processes of a Ray cluster, after checking that the process fits the run.

This module does not import ray. Once in each process a worker compares the run's terms with its own environment: the
versions, the plugin files, and a token in the store, which shows that it sees the same folder.
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
from typing import Any, TypeAlias

from harness import HarnessError
from harness.plugin_system.registry import GROUP
from harness.stages.work import forget_components

Counted: TypeAlias = tuple[int, int | None]  # units and tokens
Terms = dict[str, Any]  # plain data: a node without the harness must be able to read it

_agreed = ""  # the run whose terms this process fulfils


def make_terms(run: str, token: Path | None, plugin_files: Sequence[Path]) -> Terms:
    """Return the terms of a run: what each process that works for it must have in common with this process.

    run           the run's id, which the file `token` holds
    token         a file in the store that each process must see; None: this is not checked
    plugin_files  files whose content each process must see unchanged
    """
    installed = {
        dist.metadata["Name"] for dist in distributions() if any(point.group == GROUP for point in dist.entry_points)
    }
    return {
        "run": run,
        "folder": os.getcwd(),
        "token": str(token.absolute()) if token else "",
        "python": _python(),
        "versions": {name: version(name) for name in sorted(installed)},
        "files": {str(path): _digest(path) for path in plugin_files},
    }


def difference(terms: Terms) -> str:
    """Return how this process differs from the run's terms, in a few words; "" if it does not."""
    if terms["python"] != _python():
        return f"Python {_python()} there, {terms['python']} here: install the same"
    for name, expected in terms["versions"].items():
        installed = _version(name)
        if installed != expected:
            return f"{name} {installed} there, {expected} here: install the same"
    if terms["token"] and _content(terms["token"]) != terms["run"].encode():
        folder = Path(terms["token"]).parent
        return f"it does not see the store's folder {folder}: --store must be on a file system that all nodes share"
    for name, digest in terms["files"].items():
        if _digest(Path(name)) != digest:
            return f"--plugin {name} is not there, or another file: it must be on a file system that all nodes share"
    return ""


def done(terms: Terms, function: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    """Call the function; return (True, its result), or (False, the exception that it raised, picklable).

    If this process differs from the terms, the function is not called, and the exception is a HarnessError.
    """
    try:
        _enter(terms)
        return True, function(*arguments)
    except Exception as failure:
        return False, _portable(failure)


class Count:
    """The `ReportsTokens` that a worker gives to its function: what was counted of the item so far.

    tokens_so_far   None before the first call of `tokens`, which says that the model is loaded
    """

    def __init__(self) -> None:
        self.units = 0
        self.tokens_so_far: int | None = None

    def __call__(self, units: int) -> None:
        """Count units as done."""
        self.units += units

    def tokens(self, count: int) -> None:
        """Count tokens as sampled."""
        self.tokens_so_far = (self.tokens_so_far or 0) + count

    @property
    def counted(self) -> Counted:
        """The units and tokens so far."""
        return self.units, self.tokens_so_far


class Worker:
    """Does one item after another, and can be asked for its progress. What its functions load stays loaded."""

    def __init__(self) -> None:
        self._number, self._count = -1, Count()

    def ready(self) -> None:
        """Do nothing; Ray answers the call once the process has started."""

    def do(self, terms: Terms, number: int, function: Callable[..., Any], item: Any) -> tuple[bool, Any, Counted]:
        """Call function(item, report) as `done` does; return `done`'s two values and what was reported to `report`.

        number   the item's index, which `at` returns meanwhile
        """
        self._number, self._count = number, Count()
        well, result = done(terms, function, item, self._count)
        return well, result, self._count.counted

    def at(self) -> tuple[int, Counted]:
        """Return the index of the current or last item (-1: none yet), and what is counted of it."""
        return self._number, self._count.counted


def _enter(terms: Terms) -> None:
    global _agreed
    if terms["run"] == _agreed:
        return
    with contextlib.suppress(OSError):  # so that relative paths mean the same as where the run was started
        os.chdir(terms["folder"])
    fault = difference(terms)
    if fault:
        raise HarnessError(f"executor ray: node {platform.node()}: {fault}")
    forget_components()
    _agreed = terms["run"]


def _portable(failure: Exception) -> Exception:
    """Return the exception in a form that can be pickled; for a bug it includes this process' traceback."""
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
