"""Read canonical text on the trusted side. The text is hostile: every step is bounded and linear in its length.

No value that a program chooses is hashed (ten thousand ints that would collide in a set remain text), and nothing is
evaluated. Nothing is built that is much larger than the value it is compared with, although short text can represent
large values: `d"1E400"` is a number of 333 digits, a list of two million `X` needs as many words, and an array that
numpy broadcasts has the product of two lengths. Nesting is followed with a list instead of the interpreter's stack, or
to at most DEPTH levels.
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
_LEAF = re.compile(rf'N|{_NUMBER.pattern}|b(?:[0-9a-f]{{2}})*+;|q-?[0-9a-f]+/[0-9a-f]+|d"[-+.0-9A-Za-z]+"|M|X[0-9a-f]*')
_PLAIN_STRING = re.compile(r's"[ !#-\[\]-~]*"')  # printable and without escapes, as most strings are
_SLACK = 40  # characters by which a leaf may be longer than an equal one: numpy's floats are rounded
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
    loose_text, end = _loose_at(text, 0, 0, bound)
    _require_end(text, end)
    return loose_text


def same(expected: str, result: str) -> bool:
    """Whether two canonical texts stand for values that are equal by Python's `==`.

    numpy numbers are compared with 64 bits (complex ones with 128), as numpy 1 does. numpy 2 rounds a Python number,
    which is the expected result, to the precision of the numpy scalar: `numpy.float16(62.83) == 62.8318`. Both texts
    are read in parallel up to the first difference. A result that is no canonical text equals nothing.
    """
    try:
        return _same(expected, result)
    except Malformed:
        return False


def _same(expected: str, result: str) -> bool:
    i = j = 0  # positions in `expected` and `result`
    while i < len(expected):
        if expected[i] in "[](),":
            if result[j : j + 1] != expected[i]:
                return False
            i, j = i + 1, j + 1
            continue
        expected_value, i_end = _loose_at(expected, i, 0, UNBOUNDED)
        value, j_end = _loose_at(result, j, 0, len(expected_value) + _SLACK)
        if value != expected_value and not _same_in_64_bits(expected[i:i_end], result[j:j_end]):
            return False
        i, j = i_end, j_end
    return j == len(result)


def members(text: str, bound: int = UNBOUNDED) -> Iterator[str]:
    """Yield the loose text of each member of `set(value)`: of items, of a dict's keys, of a string's characters.

    Raises TypeError if the value cannot be iterated over, Malformed also if an item has more than `bound` characters.
    """
    opener = text[:1]
    if opener == "s":
        yield from map(string, text_of(text))
        return
    if opener == "b":
        yield from (f"i{byte:x}" for byte in _bytes(text))
        return
    if opener not in (*_CLOSERS,):
        raise TypeError("it cannot be iterated over")
    closer, position = _CLOSERS[opener], 1
    ends = text.startswith(closer, position)
    while not ends:
        item, position = _loose_at(text, position, 1, bound)
        yield item
        if opener == "{":
            _expect(text, position, ":")
            position = _loose_at(text, position + 1, 1, _UNUSED)[1]
        ends = text.startswith(closer, position)
        if not ends:
            _expect(text, position, ",")
            position += 1
    _require_end(text, position + 1)


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
    shape, end = _numbers_at(text, 0, 0, values, limit)
    _require_end(text, end)
    if shape and any(type(value) is int and value not in _IN_ARRAYS for value in values):
        raise Malformed("an int of more than 64 bits in an array")
    return shape, values


def text_of(text: str) -> str:
    """Return the string that a canonical text spells. Raises Malformed for any other value."""
    if not text.startswith('s"'):
        raise Malformed(f"no string: {text[:40]!r}")
    value, end = _string_at(text, 0)
    _require_end(text, end)
    return value


def _bytes(text: str) -> bytes:
    _require_end(text, _leaf_at(text, 0)[1])
    return bytes.fromhex(text[1:-1])


def _require_end(text: str, end: int) -> None:
    if end != len(text):
        raise Malformed(f"text after the value: {text[end : end + 40]!r}")


def _expect(text: str, position: int, character: str) -> None:
    if not text.startswith(character, position):
        raise Malformed(f"unexpected {text[position : position + 40]!r}")


def _loose_at(text: str, position: int, depth: int, bound: int) -> tuple[str, int]:
    """Return the loose text of the value that begins at a position, and where it ends."""
    open_values: list[tuple[str, list[str]]] = []  # for each open bracket: the bracket, and the items so far
    left = bound + 1  # a leaf and the sign after it
    while True:
        opener = text[position : position + 1]
        if opener in _CLOSERS and text[position + 1 : position + 2] != _CLOSERS[opener]:
            open_values.append((opener, []))
            position += 1
            left -= 1
            if depth + len(open_values) > DEPTH:
                raise Malformed("nested too deeply")
            continue
        if opener in _CLOSERS:
            value, position = opener + _CLOSERS[opener], position + 2
        else:
            value, position = _loose_leaf_at(text, position)
        left -= len(value) + 1
        if left < 0:
            raise Malformed("longer than what it is compared with")
        while open_values:
            opener, items = open_values[-1]
            items.append(value)
            position += 1
            if text[position - 1 : position] == (":" if opener == "{" and len(items) % 2 else ","):
                break
            if text[position - 1 : position] != _CLOSERS[opener] or (opener == "{" and len(items) % 2):
                raise Malformed(f"unexpected {text[position - 1 : position + 39]!r}")
            open_values.pop()
            value = _close(opener, items)
        else:
            return value, position


def _close(opener: str, items: list[str]) -> str:
    """Return the loose text of a list, tuple, set or dict; a dict's items are its keys and values in turn."""
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


def _numbers_at(text: str, position: int, depth: int, values: list[Number], limit: int) -> tuple[tuple[int, ...], int]:
    """Append the numbers that begin at a position to the values; return their shape, and where they end."""
    closer = _CLOSERS.get(text[position : position + 1], "") if depth < DEPTH else ""
    if closer not in ("]", ")"):
        match = _NUMBER.match(text, position)
        if match is None or len(values) == limit:
            raise Malformed(f"no number at {text[position : position + 40]!r}, or too many")
        values.append(_number(match.group()))
        return (), match.end()
    if text.startswith(closer, position + 1):
        return (0,), position + 2
    shape, position = _numbers_at(text, position + 1, depth + 1, values, limit)
    length = 1
    while not text.startswith(closer, position):
        _expect(text, position, ",")
        other, position = _numbers_at(text, position + 1, depth + 1, values, limit)
        length += 1
        if other != shape or length > limit:
            raise Malformed("the lists inside are of different lengths, or too many")
    return (length, *shape), position + 1


def _same_in_64_bits(expected: str, result: str) -> bool:
    """Whether two numbers, at least one of them numpy's, are equal as floats or complex numbers of double precision."""
    if "n" not in (expected[0], result[0]) or not _NUMBER.fullmatch(expected) or not _NUMBER.fullmatch(result):
        return False
    try:
        return complex(_number(expected)) == complex(_number(result)) and not _are_ints(expected, result)
    except OverflowError:  # an int beyond the largest float
        return False


def _are_ints(*leaves: str) -> bool:
    return all(isinstance(_number(leaf), int) for leaf in leaves)


def _number(leaf: str) -> Number:
    kind, rest = leaf[0], leaf[1:]
    if kind in "TF":
        return kind == "T"
    if kind == "i":
        return int(rest, 16)
    if kind == "f":
        return _float(rest)
    if kind == "n":
        return _number(rest[rest.index(":") + 1 : -1])
    real, _, imaginary = rest.partition(";")
    return complex(_float(real), _float(imaginary))


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Malformed(f"no float: {text!r}") from None
