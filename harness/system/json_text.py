"""Read JSON that comes from outside: a file, a server, a verifier, a journal that was edited. The only way to read it.

Whatever such a text holds, the outcome is a value or a HarnessError of one line. `json.loads` alone raises ValueError,
RecursionError or UnicodeDecodeError, and lets through what breaks later: numbers that no float can hold, values nested
a thousand levels deep, and an object that has a key twice, of which the last one would count.

`read_lines` yields the objects of a file with their places, one a line or all in one array.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from harness.errors import HarnessError

from .files import open_regular, opened

DEEPEST = 100  # levels of nested lists and objects; deeper values break recursive code
_LARGEST = int(sys.float_info.max)
_SURROGATE = re.compile(r"\\u[dD]|[\ud800-\udfff]")  # lone, or one of a pair, which is well
_INT_LIMIT = "; use sys.set_int_max_str_digits() to increase the limit"  # ends what Python says of 5,000 digits
_Shape = TypeVar("_Shape")


class BadJSON(HarnessError, ValueError):
    """A text that is no JSON that we can use, or a value without the shape that it must have: one line."""


class NotJSON(BadJSON):
    """A text that is no JSON at all, perhaps because it is truncated."""


def read(path: Path, what: str, remedy: str = "", *, lenient: bool = False) -> Any:
    """The value in a file; HarnessError, which begins with WHAT FILE, if there is none. Else as `parsed`.

    what  what the file is, as the message begins: "rl eval"
    """
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as failure:
        raise _fault(HarnessError, f"{what} {path}: cannot be read ({failure.strerror or failure})", remedy) from None
    return parsed(content, f"{what} {path}", remedy, lenient=lenient)


def parsed(text: str | bytes, where: str, remedy: str = "", *, lenient: bool = False) -> Any:
    """The value of a JSON text; BadJSON, `WHERE: not JSON (REASON); REMEDY`, if there is none that we can use.

    where    what the text is, as the message begins: "journal run.jsonl, line 3"
    remedy   what the user can do; "": nothing is said
    lenient  accepts what Python's own writer makes and no other reader takes: NaN, infinite numbers, lone surrogates
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig", "surrogatepass" if lenient else "strict")
        value = json.loads(text, object_pairs_hook=_object)
        _check(value, lenient)
        if not lenient and _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        reason = f"({_TOO_DEEP})"
    except json.JSONDecodeError as failure:
        raise _fault(NotJSON, f"{where}: not JSON ({failure}); a truncated text ends like this", remedy) from None
    except ValueError as failure:
        reason = f"({failure})".replace(_INT_LIMIT, "")
    else:
        return value
    raise _fault(BadJSON, f"{where}: not JSON {reason}", remedy)


def shaped(value: Any, shape: type[_Shape], where: str, remedy: str = "") -> _Shape:
    """The value, if it has the shape; else BadJSON, `WHERE: 'asked': Input should be a valid list, got 3; REMEDY`.

    shape  a type as pydantic understands it: a TypedDict, whose keys may be NotRequired, and beside which there may be
           others; or a dataclass, which is made of the value
    """
    from pydantic import ValidationError

    try:
        if is_dataclass(shape):  # one validates it as JSON does: a path is written as a text, a tuple as a list
            made = _adapter(cast(Any, shape)).validate_json(json.dumps(value), strict=True)
        else:
            made = _adapter(cast(Any, shape)).validate_python(value, strict=True)
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        reason = f"{place!r:.80}: {first['msg']}" if place else first["msg"]
        if first["type"] != "missing":
            reason += f", got {first['input']!r:.80}"
        raise _fault(BadJSON, f"{where}: {reason}", remedy) from None
    except HarnessError as failure:
        raise _fault(BadJSON, f"{where}: {failure}", remedy) from None
    return cast(_Shape, made if is_dataclass(shape) else value)


def _fault(kind: type[HarnessError], fault: str, remedy: str) -> HarnessError:
    return kind(f"{fault}; {remedy}" if remedy else fault)


@cache
def _adapter(shape: Any) -> Any:
    from pydantic import TypeAdapter  # 0.2 s to import

    return TypeAdapter(shape)


_TOO_DEEP = f"lists and objects are more than {DEEPEST} inside one another"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in entries if names.count(name) > 1)
        raise ValueError(f"the key {twice!r:.80} is there twice")
    return entries


def _check(value: Any, lenient: bool) -> None:
    """Raise ValueError for values nested too deep and for numbers that no float can hold; without recursion."""
    level = [value]
    for _ in range(DEEPEST + 2):
        kinds = set(map(type, level))
        if float in kinds and not lenient and not all(math.isfinite(node) for node in level if type(node) is float):
            raise ValueError("a number is NaN, infinite, or too large")
        if int in kinds and (largest := max(abs(node) for node in level if type(node) is int)) > _LARGEST:
            raise ValueError(f"a number of {len(str(largest))} digits is too large")
        if not kinds & {dict, list}:
            return
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    raise ValueError(_TOO_DEEP)


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


def read_lines(path: Path, what: str = "pool") -> Generator[Line, None, None]:
    """Yield the objects of a file one at a time and skip blank lines. An array is read at once.

    A folder is read as its `*.jsonl` and `*.jsonl.gz` files, in the order of their names.

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
            yield Line(_entry(parsed(text, where, lenient=True), stripped, where), number, f"line {number}", where)


def _entries(values: Any, file: str) -> Iterator[Line]:
    for number, value in enumerate(values, 1):
        where = f"{file}, entry {number}"
        yield Line(_entry(value, type(value).__name__, where), number, f"entry {number}", where)


def _entry(value: Any, text: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise HarnessError(f"{where}: expected JSON objects, one a line or all in one array, got {text[:60]!r}")
    return value
