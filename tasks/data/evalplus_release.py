"""evalplus' release files: their download, and their rows as problems."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import re
import socket
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import HarnessError, Problem

from .sources import Row

CONNECT_S = 20.0


@dataclass(frozen=True)
class Release:
    """One release file: its name and version as evalplus' download has them, and the SHA-256 of the unpacked file."""

    name: str
    version: str
    sha256: str


def downloaded(task: str, release: Release) -> Path:
    """Return the path of a release file in evalplus' cache, where evalplus downloads it if it is missing.

    Raises HarnessError if evalplus is missing, the download fails, or the file's SHA-256 is not that of the release.

    task   its name begins every error message
    """
    files = evalplus_module(task, "evalplus.data.utils")
    url, path = files.get_dataset_metadata(release.name, release.version, False)
    try:
        with _connection_limit(CONNECT_S), contextlib.redirect_stdout(sys.stderr):
            files.make_cache(url, path)
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except (OSError, EOFError, ValueError) as failure:
        raise HarnessError(
            f"{task}: {url} is not on this machine and could not be downloaded ({failure}): "
            f"give the file with --data FILE"
        ) from failure
    if digest != release.sha256:
        raise HarnessError(f"{task}: {path} is not {release.name} {release.version}: delete it, or give --data FILE")
    return Path(path)


@contextlib.contextmanager
def _connection_limit(seconds: float) -> Iterator[None]:
    """Limit the wait for connections that are opened without a timeout, as evalplus' download opens them."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def evalplus_module(task: str, name: str) -> Any:
    """Import a module of evalplus and return it. Raises HarnessError if evalplus is missing.

    Call this only when the module is needed, since evalplus loads pandas.

    task   its name begins the error message
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as failure:
        raise HarnessError(f"{task}: needs evalplus ({failure}): pip install 'diversity-harness[code]'") from failure


def problem_in(row: Row) -> Problem:
    """Return the problem of one row.

    Its reference is the canonical solution. Its `meta` holds the tests' arguments as JSON has them (`base_input`,
    `plus_input`), the `entry_point`, the tolerance `atol`, and `sha256`, a hash of these.
    """
    name, entry_point = row.text("task_id"), row.text("entry_point")
    if not re.fullmatch(r"(Mbpp|HumanEval)/[0-9]+", name):
        raise row.fault(f"task_id must be Mbpp/NUMBER or HumanEval/NUMBER, got {name!r:.60}")
    if not entry_point.isidentifier():
        raise row.fault(f"entry_point must be a function's name, got {entry_point!r:.60}")
    meta: dict[str, Any] = {
        "entry_point": entry_point,
        "base_input": _tests(row, "base_input"),
        "plus_input": _tests(row, "plus_input"),
        "atol": _tolerance(row),
    }
    meta["sha256"] = json_hash(meta)  # computed once, since the inputs are up to 0.4 MB
    return Problem(name, row.text("prompt"), row.text("canonical_solution"), meta)


def json_hash(value: Any) -> str:
    """Return the SHA-256 of a value's JSON, in hex."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _tests(row: Row, column: str) -> list[Any]:
    """Return the arguments of each test. For no tests, Mbpp/793 has an empty object instead of a list."""
    value = row.find(column)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as failure:
            raise row.fault(f"column {column!r} is no JSON ({failure})") from failure
    if value == {}:
        return []
    if not isinstance(value, list) or not all(isinstance(arguments, list) for arguments in value):
        raise row.fault(f"column {column!r} must be a list with a list of arguments for each test")
    return value


def _tolerance(row: Row) -> float:
    value = row.find("atol")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise row.fault(f"column 'atol' must be a number of at least 0, got {value!r:.60}")
    return value
