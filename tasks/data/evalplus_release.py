"""evalplus' release files: their download, their rows as problems, and the arguments of MBPP+'s tests."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import platformdirs

from harness import HarnessError, Problem
from harness.errors import Lacking
from harness.system.files import write_atomically
from harness.system.json_text import parsed

from .sources import Row

MOST_BYTES = 100_000_000  # the larger release has 8 million
ANSWERS_S = 20.0  # how long a server may be silent


@dataclass(frozen=True)
class Release:
    """One release file: its name and version as evalplus' download has them, and the SHA-256 of the unpacked file."""

    name: str
    version: str
    sha256: str

    @property
    def url(self) -> str:
        """Return the address of the packed file."""
        place = f"evalplus/{self.name.lower()}_release/releases/download/{self.version}"
        return f"https://github.com/{place}/{self.name}.jsonl.gz"

    @property
    def path(self) -> Path:
        """Return the path of the unpacked file in evalplus' own cache, so that either finds what the other fetched."""
        return platformdirs.user_cache_path("evalplus", appauthor=False) / f"{self.name}-{self.version}.jsonl"


def downloaded(task: str, release: Release) -> Path:
    """Return the path of a release file in evalplus' cache; it is downloaded if it is missing.

    Raises HarnessError if the download fails, or if the file's SHA-256 is not that of the release.

    task   its name begins every error message
    """
    path = release.path
    try:
        content = path.read_bytes() if path.exists() else _fetched(release.url)
    except (OSError, EOFError, ValueError, zlib.error, HTTPException) as failure:
        raise Lacking(
            f"{task}: {release.url} is not on this machine and could not be downloaded ({failure}): "
            f"give the file with --data FILE"
        ) from failure
    if hashlib.sha256(content).hexdigest() != release.sha256:
        where, remedy = (path, "delete it, or") if path.exists() else (release.url, "try again, or")
        raise HarnessError(f"{task}: {where} is not {release.name} {release.version}: {remedy} give --data FILE")
    if not path.exists():
        write_atomically(path, content)
    return path


def _fetched(url: str) -> bytes:
    """Return the unpacked content of a gzipped file; at most `MOST_BYTES`."""
    with urllib.request.urlopen(url, timeout=ANSWERS_S) as answer, gzip.open(answer) as unpacked:
        content = unpacked.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    return bytes(content)


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
            value = parsed(value, "tests", lenient=True)
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


# MBPP+'s tests: JSON has no tuples, sets or complex numbers

Convert = Callable[[Any], Any]


def converted(name: str, inputs: Sequence[Any]) -> list[Any]:
    """Return the arguments of each test of the problem of this name, in the types that its solution takes.

    For some 70 problems of MBPP+ the release file holds lists in the place of other types. Which argument of which
    problem becomes what is a table of evalplus (0.3.1, `data/mbpp.py`); a test compares ours with it over the whole
    release. Mbpp/2 takes two tuples: `converted("Mbpp/2", [[[3, 4], [5, 4]]])` is `[[(3, 4), (5, 4)]]`.
    """
    dataset, _, number = name.rpartition("/")
    convert = _CONVERSIONS.get(int(number)) if dataset == "Mbpp" else None
    return list(inputs) if convert is None else list(map(convert, inputs))


def _each(convert: Convert) -> Convert:
    """Convert every member of a list."""
    return lambda values: [convert(value) for value in values]


def _only(place: int, convert: Convert) -> Convert:
    """Convert one member of a list, and leave the others."""
    return lambda values: [convert(value) if i == place else value for i, value in enumerate(values)]


def _then(*steps: Convert) -> Convert:
    def convert(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return convert


def _deep(value: Any) -> Any:
    """Convert a list and all lists inside to tuples."""
    return tuple(map(_deep, value)) if isinstance(value, list) else value


def _if_list(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _set_or_dict(value: Any) -> Any:
    return set(value) if isinstance(value, list) and value else {}


def _values(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) for key, value in mapping.items()}


_TUPLES, _LISTS_OF_TUPLES = _each(tuple), _each(_each(tuple))

# Conversion of a test's list of arguments -> numbers of the problems
_TABLE: dict[Convert, tuple[int, ...]] = {
    _TUPLES: (
        *(2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424),
        *(429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809),
    ),
    _LISTS_OF_TUPLES: (63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780),
    _then(_LISTS_OF_TUPLES, _TUPLES): (259, 401, 445),
    _only(0, _each(tuple)): (75, 413, 444, 753),
    _only(0, tuple): (250, 307, 405, 446, 617, 720, 763, 808),
    _only(1, tuple): (106, 750),
    _only(0, _values): (722,),
    _only(0, complex): (252,),
    _then(_only(0, float), _only(1, complex), tuple): (124,),
    _each(_each(_set_or_dict)): (115,),
    _each(_then(_each(_if_list), tuple)): (278,),
    _deep: (580, 615, 791),
}
_CONVERSIONS = {number: convert for convert, numbers in _TABLE.items() for number in numbers}
