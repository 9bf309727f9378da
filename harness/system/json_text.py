"""Read JSON that comes from outside: a file, a server, a verifier, a journal that was edited. The only way to read it.

Whatever such a text holds, the outcome is a value or a HarnessError of one line. `json.loads` alone raises ValueError,
RecursionError or UnicodeDecodeError, and lets through what breaks later: numbers that no float can hold, values nested
a thousand levels deep, and an object that has a key twice, of which the last one would count.

`read_lines` yields the objects of a file with their places, one a line or all in one array. At the end: the hash of a
JSON value, and what makes texts fit for files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from harness.errors import HarnessError

from .files import opened, read_regular

DEEPEST = 100  # levels of nested lists and objects; deeper values break recursive code
DIGITS = 308  # of the largest float
_Shape = TypeVar("_Shape")


class BadJSON(HarnessError, ValueError):
    """A text that is no JSON that we can use, or a value without the shape that it must have: one line."""


class NotJSON(BadJSON):
    """A text that is no JSON at all, perhaps because it is truncated."""


def read(path: Path, what: str, remedy: str = "", *, lenient: bool = False) -> Any:
    """The value in a file, as `parsed`; HarnessError, `WHAT FILE: ...`, if there is no file."""
    try:
        content = read_regular(path)
    except OSError as failure:
        fault = f"{what} {path}: cannot be read ({failure.strerror or failure})"
        raise HarnessError(_with(fault, remedy)) from None
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
        value = json.loads(text, object_pairs_hook=_object, parse_int=_integer)
        if _depth(value) > DEEPEST:
            raise RecursionError
        if not lenient:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        return value
    except RecursionError:
        reason = f"lists and objects are more than {DEEPEST} inside one another"
    except json.JSONDecodeError as failure:
        fault = f"{where}: not JSON ({failure}); a truncated text ends like this"
        raise NotJSON(_with(fault, remedy)) from None
    except ValueError as failure:
        reason = str(failure)
    raise BadJSON(_with(f"{where}: not JSON ({reason})", remedy))


def shaped(value: Any, shape: type[_Shape], where: str, remedy: str = "") -> _Shape:
    """The value, if it has the shape; else BadJSON, `WHERE: 'asked': Input should be a valid list, got 3; REMEDY`.

    shape  a type as pydantic understands it: a TypedDict, whose keys may be NotRequired, and beside which there may be
           others; or a dataclass, which is made of the value
    """
    from pydantic import ValidationError

    try:
        if is_dataclass(shape):  # one validates it as JSON does: a path is written as a text, a tuple as a list
            return cast(_Shape, _adapter(cast(Any, shape)).validate_json(json.dumps(value), strict=True))
        _adapter(cast(Any, shape)).validate_python(value, strict=True)
        return cast(_Shape, value)
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        reason = f"{place!r:.80}: {first['msg']}" if place else first["msg"]
        if first["type"] != "missing":
            reason += f", got {first['input']!r:.80}"
    except HarnessError as failure:
        reason = str(failure)
    raise BadJSON(_with(f"{where}: {reason}", remedy))


def _with(fault: str, remedy: str) -> str:
    return f"{fault}; {remedy}" if remedy else fault


@cache
def _adapter(shape: Any) -> Any:
    from pydantic import TypeAdapter  # 0.2 s to import

    return TypeAdapter(shape)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in entries if names.count(name) > 1)
        raise ValueError(f"the key {twice!r:.80} is there twice")
    return entries


def _integer(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"a number of {len(text)} digits is too large")
    return int(text)


def _depth(value: Any) -> int:
    """How many lists and objects stand inside one another; RecursionError if very many."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


@dataclass(frozen=True)
class Line:
    """One JSON object of a file, the `number` of its line or of its entry in an array, from 1.

    place   "line 3" or "entry 3"
    where   file and place, for messages
    """

    value: dict[str, Any]
    number: int
    place: str
    where: str


def read_lines(path: Path, what: str = "pool") -> Generator[Line, None, None]:
    """Yield the objects of a file one at a time and skip blank lines. An array is read at once.

    A folder is read as its `*.jsonl` and `*.jsonl.gz` files, in the order of their names. `what`: what the file is, as
    messages begin.
    """
    files = [path]
    if path.is_dir():
        files = sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")])
    if not files:
        raise HarnessError(f"{what} {path}: a folder without *.jsonl files: name the file")
    for file in files:
        name = f"{what} {file}"
        with opened(file, what) as lines:
            for value, number, place in _values(lines, name):
                where = f"{name}, {place}"
                if not isinstance(value, dict):
                    text = str(value)[:60]
                    raise HarnessError(f"{where}: expected JSON objects, one a line or all in one array, got {text!r}")
                yield Line(value, number, place, where)


def _values(file: IO[str], name: str) -> Iterator[tuple[Any, int, str]]:
    """The values of a file with their numbers and places; of an array its entries."""
    begun = False
    for number, text in enumerate(file, 1):
        if not (stripped := text.strip()):
            continue
        is_array = not begun and stripped[0] == "["
        if is_array or (not begun and stripped == "{"):  # one object over many lines: an error can then name its keys
            text += file.read()
        begun = True
        value = parsed(text, f"{name}, line {number}", lenient=True)
        if is_array:
            yield from ((entry, place, f"entry {place}") for place, entry in enumerate(value, 1))
        else:
            yield value, number, f"line {number}"


# Hashes of JSON values, and texts in a form that files can hold.


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: equal values, equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any, length: int = 20) -> str:
    """The first `length` hex digits of the SHA-256 of the value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:length]


def readable(text: str) -> str:
    """The text as part of a file's name: letters, digits, hyphens and underscores, at most 60."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", text)[:60]


def storable(text: str) -> str:
    """The text with lone surrogates (which no UTF-8 can hold) replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
