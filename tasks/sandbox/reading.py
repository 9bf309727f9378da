"""Reading canonical text, on the trusted side. The text is hostile: every step is bounded and linear in its length.

Nothing is hashed (ten thousand ints that collide in a set are just text here), nothing evaluated, and nesting is
followed with a list, not with the interpreter's stack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from .canonical import DEPTH, loose_leaf, string

_CLOSERS = {"[": "]", "(": ")", "<": ">", "{": "}"}
_FLOAT = r"(?:-?(?:inf|nan|[0-9][0-9.e+-]{0,24}))"
_NUMBER = rf"(?:T|F|i-?[0-9a-f]+|f{_FLOAT}|c{_FLOAT};{_FLOAT})"
_LEAF = re.compile(
    rf'N|{_NUMBER}|n[a-z0-9_]{{1,20}}:{_NUMBER};|b(?:[0-9a-f]{{2}})*;|q-?[0-9a-f]+/[0-9a-f]+|d"[-+.0-9A-Za-z]+"'
    r"|M|X[0-9a-f]*"
)
_PLAIN_STRING = re.compile(r's"[ !#-\[\]-~]*"')  # printable and without escapes: most


class Malformed(ValueError):
    """The text is not canonical text: the program has written it itself."""


@dataclass(frozen=True)
class NumpyScalar:
    """A numpy scalar: its dtype's name, and its value as bool, int, float or complex."""

    dtype: str
    value: bool | int | float | complex


@dataclass(frozen=True)
class Opaque:
    """A set, a dict, or another value that is only ever compared: its loose text."""

    text: str


def loose(text: str) -> str:
    """Canonical text rewritten so that values equal in Python have equal text; NaN, X and M equal nothing.

    Raises Malformed. Takes about 1 µs a value.
    """
    made, end = _loose_at(text, 0, 0)
    _all(text, end)
    return made


def decode(text: str) -> Any:
    """The value: None, bool, int, float, complex, str, bytes, list, tuple, NumpyScalar; everything else Opaque.

    Raises Malformed.
    """
    value, end = _value_at(text, 0, 0)
    _all(text, end)
    return value


def elements(text: str) -> list[str] | None:
    """The loose texts of the items of a list, tuple or set, or of a dict's keys; None for what is none of these.

    Raises Malformed.
    """
    whole = loose(text)
    if whole[0] not in _CLOSERS:
        return None
    found, position = [], 1
    while position < len(whole) - 1:
        item, position = _loose_at(whole, position, 1)
        found.append(item)
        if whole[0] == "{":
            position = _loose_at(whole, position + 1, 1)[1]
        position += 1
    return found


def _all(text: str, end: int) -> None:
    if end != len(text):
        raise Malformed(f"text after the value: {text[end : end + 40]!r}")


def _loose_at(text: str, position: int, depth: int) -> tuple[str, int]:
    """The loose text of the value that begins at a position, and where it ends."""
    open_ones: list[tuple[str, list[str]]] = []
    while True:
        opener = text[position : position + 1]
        if opener in _CLOSERS and text[position + 1 : position + 2] != _CLOSERS[opener]:
            open_ones.append((opener, []))
            position += 1
            if depth + len(open_ones) > DEPTH:
                raise Malformed("nested too deeply")
            continue
        if opener in _CLOSERS:
            made, position = opener + _CLOSERS[opener], position + 2
        else:
            made, position = _loose_leaf_at(text, position)
        while open_ones:
            opener, items = open_ones[-1]
            items.append(made)
            position += 1
            if text[position - 1 : position] == (":" if opener == "{" and len(items) % 2 else ","):
                break
            if text[position - 1 : position] != _CLOSERS[opener] or (opener == "{" and len(items) % 2):
                raise Malformed(f"unexpected {text[position - 1 : position + 39]!r}")
            open_ones.pop()
            made = _close(opener, items)
        else:
            return made, position


def _close(opener: str, items: list[str]) -> str:
    if opener == "{":
        items = [f"{key}:{value}" for key, value in zip(items[::2], items[1::2], strict=True)]
    if opener in "{<":
        items.sort()
    return opener + ",".join(items) + _CLOSERS[opener]


def _loose_leaf_at(text: str, position: int) -> tuple[str, int]:
    match = _PLAIN_STRING.match(text, position)
    if match:
        return match.group(), match.end()
    if text.startswith('s"', position):
        value, end = _string_at(text, position)
        return string(value), end
    leaf, end = _leaf_at(text, position)
    try:
        return loose_leaf(leaf), end
    except ValueError as problem:
        raise Malformed(str(problem)) from None


def _leaf_at(text: str, position: int) -> tuple[str, int]:
    match = _LEAF.match(text, position)
    if match is None:
        raise Malformed(f"no value at {text[position : position + 40]!r}")
    return match.group(), match.end()


def _string_at(text: str, position: int) -> tuple[str, int]:
    try:
        value, end = scanstring(text, position + 2)
    except ValueError as problem:
        raise Malformed(str(problem)) from None
    return value, end


def _value_at(text: str, position: int, depth: int) -> tuple[Any, int]:
    """The value that begins at a position, and where it ends; at most DEPTH calls deep."""
    first = text[position : position + 1]
    if first and first in "[(":
        items, end = _items_at(text, position + 1, _CLOSERS[first], depth + 1)
        return (items if first == "[" else tuple(items)), end
    if text.startswith('s"', position):
        return _string_at(text, position)
    if first and first in "<{qdMX":
        made, end = _loose_at(text, position, depth)
        return Opaque(made), end
    leaf, end = _leaf_at(text, position)
    try:
        return _plain(leaf), end
    except ValueError as problem:
        raise Malformed(str(problem)) from None


def _items_at(text: str, position: int, closer: str, depth: int) -> tuple[list[Any], int]:
    if depth > DEPTH:
        raise Malformed("nested too deeply")
    items: list[Any] = []
    if text.startswith(closer, position):
        return items, position + 1
    while True:
        value, position = _value_at(text, position, depth)
        items.append(value)
        if text.startswith(closer, position):
            return items, position + 1
        if not text.startswith(",", position):
            raise Malformed(f"unexpected {text[position : position + 40]!r}")
        position += 1


def _plain(leaf: str) -> Any:
    kind, rest = leaf[0], leaf[1:]
    if kind == "N":
        return None
    if kind in "TF":
        return kind == "T"
    if kind == "i":
        return int(rest, 16)
    if kind == "f":
        return float(rest)
    if kind == "b":
        return bytes.fromhex(rest[:-1])
    if kind == "n":
        dtype, _, number = rest[:-1].partition(":")
        return NumpyScalar(dtype, _plain(number))
    real, _, imaginary = rest.partition(";")
    return complex(float(real), float(imaginary))
