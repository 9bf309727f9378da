"""Read the JSON objects of a file, plain or gzip: one object per line or one array of objects, each with its place.

A folder is read as its `*.jsonl` and `*.jsonl.gz` files, in the order of their names.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harness.errors import HarnessError

from .expansion import BoundedGzip
from .files import open_regular
from .json_text import parsed

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Line:
    """One JSON object of a file.

    number  of its line in the file, from 1, blank lines counted; in an array, of its entry
    place   where it stands, e.g. "line 3" or "entry 3"
    where   file and place, for messages
    """

    value: dict[str, Any]
    number: int
    place: str
    where: str


def beginning(path: Path, size: int = 4096) -> bytes:
    """The first bytes of a file."""
    with open_regular(path) as file:
        return file.read(size)


@contextmanager
def opened(path: Path, what: str) -> Iterator[IO[str]]:
    """Open a file as text; its content, not its name, tells whether it is gzip. HarnessError (one line) if not text.

    what  what the file is, as messages begin: "pool", "ids"
    """
    with _faults(path, what):
        if not path.exists():
            raise HarnessError(f"{what} {path}: no such file")
        with open_regular(path) as raw:
            zipped = raw.peek(2)[:2] == _GZIP
            binary: Any = BoundedGzip(raw, f"{what} {path}") if zipped else raw
            with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
                yield text


@contextmanager
def _faults(path: Path, what: str) -> Iterator[None]:
    """Turn errors of opening and decoding a file into a HarnessError of one line that names it."""
    try:
        yield
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as failure:
        raise HarnessError(f"{what} {path}: not UTF-8 text, plain or gzipped ({failure})") from failure
    except OSError as failure:
        raise HarnessError(f"{what} {path}: cannot be read ({failure.strerror or failure})") from failure


def read_lines(path: Path, what: str = "pool") -> Iterator[Line]:
    """Yield the objects of a file or folder one at a time and skip blank lines. An array is read at once.

    what  what the file is, as messages begin: "pool", "ids"
    """
    if not path.is_dir():
        yield from _lines_of(path, what)
        return
    files = sorted(file for pattern in ("*.jsonl", "*.jsonl.gz") for file in path.glob(pattern))
    if not files:
        raise HarnessError(f"{what} {path}: a folder without *.jsonl files: name the file")
    for file in files:
        yield from _lines_of(file, what)


def count_lines(path: Path) -> int:
    """The number of lines of a file, including blank ones."""
    with opened(path, "pool") as lines:
        return sum(1 for _ in lines)


def _lines_of(path: Path, what: str) -> Iterator[Line]:
    with opened(path, what) as file:
        begun = False
        for number, text in enumerate(file, 1):
            stripped = text.strip()
            if not stripped:
                continue
            where = f"{what} {path}, line {number}"
            if not begun and stripped[0] == "[":
                yield from _entries(parsed(text + file.read(), where, lenient=True), f"{what} {path}")
                return
            if not begun and stripped == "{":  # one object over many lines: an error can then name its keys
                text += file.read()
            begun = True
            yield Line(_object(parsed(text, where, lenient=True), stripped, where), number, f"line {number}", where)


def _entries(values: Any, file: str) -> Iterator[Line]:
    for number, value in enumerate(values, 1):
        where = f"{file}, entry {number}"
        yield Line(_object(value, type(value).__name__, where), number, f"entry {number}", where)


def _object(value: Any, text: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise HarnessError(f"{where}: expected JSON objects, one a line or all in one array, got {text[:60]!r}")
    return value
