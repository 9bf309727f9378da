"""Damage to a JSON file, as an editor, another program or a stranger would do it: what every reader is tested with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

HUGE = 10**400
VALUES = (None, [], {"x": 1}, "\ud800\u202e\x9b", -1, HUGE)
DEPTH = 4  # levels of keys that are edited


def edits(text: str) -> Iterator[tuple[str, bytes]]:
    """Damaged versions of one JSON text, each with the name of what was done to it."""
    value = json.loads(text)
    yield from whole(text)
    for path in paths(value, DEPTH):
        name = "/".join(map(str, path))
        for other in VALUES:
            yield f"{name} = {other!r:.20}", as_bytes(put(value, path, other))
        yield f"{name} gone", as_bytes(put(value, path, None, gone=True))


def whole(text: str) -> Iterator[tuple[str, bytes]]:
    """Damage to the text as a whole."""
    content = text.encode()
    first = next(iter(json.loads(text)), "x")
    yield "cut", content[: len(content) // 2]
    yield "empty", b""
    yield "deep", b"[" * 100_000
    yield "nested 200 deep", content.rstrip()[:-1] + b', "deep": ' + b"[" * 200 + b"]" * 200 + b"}"
    yield "a key twice", content.rstrip()[:-1] + f", {json.dumps(first)}: 3}}".encode()
    yield "NaN", content.rstrip()[:-1] + b', "more": NaN}'
    yield "1e999", content.rstrip()[:-1] + b', "more": 1e999}'
    yield "5,000 digits", content.rstrip()[:-1] + b', "more": ' + b"9" * 5000 + b"}"
    yield "Latin-1", content.rstrip()[:-1] + ', "more": "é"}'.encode("latin-1")
    yield "UTF-16", text.encode("utf-16")
    yield "NULs", b"\0" * 64
    for other in ("null", "3", '"x"', "[]", "[[]]", "{}", "true"):
        yield other, other.encode()


def paths(value: Any, depth: int, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in a value: of lists the first entry alone."""
    if path:
        yield path
    if depth == 0:
        return
    children = (
        value.items() if isinstance(value, dict) else list(enumerate(value))[:1] if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from paths(child, depth - 1, (*path, key))


def put(value: Any, path: tuple[Any, ...], other: Any, gone: bool = False) -> Any:
    """A copy of the value with something else in one place, or nothing."""
    copy = deepcopy(value)
    *above, last = path
    node = copy
    for key in above:
        node = node[key]
    if gone:
        del node[last]
    else:
        node[last] = other
    return copy


def as_bytes(value: Any) -> bytes:
    """A value as JSON, as Python writes it: numbers of any size, surrogates as escapes."""
    return json.dumps(value).encode()
