"""Read canonical text on the trusted side. The text is hostile: every step is bounded and linear in its length.

No value that a program chooses is hashed (ten thousand ints that would collide in a set remain text), and nothing is
evaluated. Nothing is built that is much larger than the value it is compared with, although short text can represent
large values: a list of two million `X` needs as many words, and an array that numpy broadcasts has the product of two
lengths. Nesting is followed to at most DEPTH levels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]

from .canonical import DEPTH, UNBOUNDED, loose_leaf, string

_CLOSERS = {"[": "]", "(": ")", "<": ">", "{": "}"}
_FLOAT = r"(?:-?(?:inf|nan|[0-9][0-9.e+-]{0,24}))"
_COMPLEX = rf"c{_FLOAT};{_FLOAT}"
_NUMPY = (
    r"n(?:bool:[TF]|u?int(?:8|16|32|64):i-?[0-9a-f]{1,16}"
    rf"|float(?:16|32|64):f{_FLOAT}|complex(?:64|128):{_COMPLEX});"
)
_NUMBER = re.compile(rf"T|F|i-?[0-9a-f]+|f{_FLOAT}|{_COMPLEX}|{_NUMPY}")
_LEAF = re.compile(rf"N|{_NUMBER.pattern}|b(?:[0-9a-f]{{2}})*+;|q-?[0-9a-f]+/[0-9a-f]+|M|X[0-9a-f]*")
_PLAIN_STRING = re.compile(r's"[ !#-\[\]-~]*"')  # printable and without escapes, as most strings are
_UNUSED = 1 << 16  # most characters of a dict's value if only its keys count
_IN_ARRAYS = range(-(2**63), 2**64)  # with other ints numpy makes an array of objects

Number = bool | int | float | complex


class Malformed(ValueError):
    """The text is not canonical, so that the program has written it itself, or longer than anything it could equal."""


def loose(text: str, bound: int = UNBOUNDED) -> str:
    """Return canonical text in loose form: values equal in Python have equal text; NaN, X and M equal nothing.

    Raises Malformed if the text is not canonical, or if the result has more than `bound` characters, closing brackets
    not counted. Takes about 1 µs for each value.
    """
    reader = _Reader(text, bound + 1)  # a leaf and the sign after it
    value = reader.value()
    reader.end()
    return value


def same(expected: str, result: str) -> bool:
    """Whether two canonical texts stand for values that are equal by Python's `==`; a malformed one equals nothing.

    numpy's numbers count with all their bits. numpy 2 would round a Python number to the precision of the numpy scalar:
    `numpy.float16(62.83) == 62.8318`.
    """
    try:
        value = loose(expected)
        return value == loose(result, len(value))
    except Malformed:
        return False


def members(text: str, bound: int = UNBOUNDED) -> Iterator[str]:
    """Yield the loose text of each member of `set(value)`: of items, of a dict's keys, of a string's characters.

    Raises TypeError if the value cannot be iterated over, Malformed also if an item has more than `bound` characters.
    """
    opener, reader = text[:1], _Reader(text)
    if opener == "s":
        yield from map(string, text_of(text))
        return
    if opener == "b":
        reader.matched(_LEAF)
        reader.end()
        yield from (f"i{byte:x}" for byte in bytes.fromhex(text[1:-1]))
        return
    if opener not in (*_CLOSERS,):
        raise TypeError("it cannot be iterated over")
    for _ in reader.places():
        reader.left = bound + 1
        yield reader.value(1)
        if opener == "{":
            reader.take(":")
            reader.left = _UNUSED
            reader.value(1)
    reader.end()


def number(text: str) -> Number:
    """Return the number that a canonical text spells. Raises Malformed for any other value."""
    if _NUMBER.fullmatch(text) is None:
        raise Malformed(f"no number: {text[:40]!r}")
    return _number(text)


def numbers(text: str, limit: int) -> tuple[tuple[int, ...], list[Number]]:
    """Return the shape that numpy gives a number, or lists and tuples of numbers, and the numbers in order.

    Raises Malformed for any other value, for one of which numpy makes an array of objects, and for more than `limit`
    numbers.
    """
    values: list[Number] = []
    reader = _Reader(text)
    shape = reader.numbers(values, limit)
    reader.end()
    if shape and any(type(value) is int and value not in _IN_ARRAYS for value in values):
        raise Malformed("an int of more than 64 bits in an array")
    return shape, values


def text_of(text: str) -> str:
    """Return the string that a canonical text spells. Raises Malformed for any other value."""
    reader = _Reader(text)
    value = reader.string()
    reader.end()
    return value


class _Reader:
    """Reads a text from left to right: `at` is the place of the next character, `left` how many may be returned."""

    def __init__(self, text: str, left: int = UNBOUNDED):
        self.text, self.left, self.at = text, left, 0

    def malformed(self, problem: str) -> Malformed:
        return Malformed(f"{problem} at {self.text[self.at : self.at + 40]!r}")

    def takes(self, character: str) -> bool:
        """Go past this character if it comes next; return whether it did."""
        if not self.text.startswith(character, self.at):
            return False
        self.at += 1
        return True

    def take(self, character: str) -> None:
        if not self.takes(character):
            raise self.malformed(f"no {character!r}")

    def end(self) -> None:
        if self.at != len(self.text):
            raise self.malformed("text after the value")

    def matched(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise self.malformed("no value")
        self.at = match.end()
        return match.group()

    def charge(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise self.malformed("longer than what it is compared with")

    def places(self) -> Iterator[None]:
        """Yield before each item of the container that begins here, and go past the signs around the items."""
        closer = _CLOSERS[self.text[self.at]]
        self.at += 1
        if self.takes(closer):
            return
        while True:
            yield
            if self.takes(closer):
                return
            self.take(",")

    def value(self, depth: int = 0) -> str:
        """Return the loose text of the value that begins here."""
        opener = self.text[self.at : self.at + 1]
        if opener not in _CLOSERS:
            return self.leaf()
        if depth >= DEPTH:
            raise self.malformed("nested too deeply")
        self.charge(1)
        items: list[str] = []
        for _ in self.places():
            item = self.value(depth + 1)
            if opener == "{":
                self.take(":")
                item = f"{item}:{self.value(depth + 1)}"
            items.append(item)
        if opener in "{<":
            items.sort()
        self.charge(0 if items else 2)
        return opener + ",".join(items) + _CLOSERS[opener]

    def leaf(self) -> str:
        match = _PLAIN_STRING.match(self.text, self.at)
        if match:
            value, self.at = match.group(), match.end()
        elif self.text.startswith('s"', self.at):
            value = string(self.string())
        else:
            leaf = self.matched(_LEAF)
            try:
                value = loose_leaf(leaf)
            except ValueError as problem:
                raise Malformed(str(problem)) from None
        self.charge(len(value) + 1)
        return value

    def string(self) -> str:
        """Return the string that begins here."""
        self.take("s")
        self.take('"')
        try:
            value, self.at = scanstring(self.text, self.at)
        except ValueError as problem:
            raise Malformed(str(problem)) from None
        return str(value)

    def numbers(self, values: list[Number], limit: int, depth: int = 0) -> tuple[int, ...]:
        """Append the numbers that begin here to the values; return their shape."""
        if self.text[self.at : self.at + 1] not in ("[", "(") or depth >= DEPTH:
            leaf = self.matched(_NUMBER)
            if len(values) == limit:
                raise self.malformed("too many numbers")
            values.append(_number(leaf))
            return ()
        length, shape = 0, tuple[int, ...]()
        for _ in self.places():
            before, shape = shape, self.numbers(values, limit, depth + 1)
            if length and (shape != before or length >= limit):
                raise self.malformed("lists of different lengths, or too many,")
            length += 1
        return (length, *shape)


def _number(leaf: str) -> Number:
    kind, rest = leaf[0], leaf[1:]
    if kind in "TF":
        return kind == "T"
    if kind == "i":
        return int(rest, 16)
    if kind == "n":
        return _number(rest[rest.index(":") + 1 : -1])
    real, _, imaginary = rest.partition(";")
    try:
        return complex(float(real), float(imaginary)) if kind == "c" else float(rest)
    except ValueError:
        raise Malformed(f"no number: {leaf!r}") from None
