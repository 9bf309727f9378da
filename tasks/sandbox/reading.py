"""Reading canonical text, on the trusted side. The text is hostile: every step is bounded and linear in its length.

Nothing is hashed that a program can choose (ten thousand ints that collide in a set are just text here), nothing
evaluated, and nothing built that is much larger than what it is compared with: `d"1E400"` is a number of 333 digits, a
list of two million `X` as many words, and an array that numpy broadcasts has the product of two lengths. Nesting is
followed with a list, not with the interpreter's stack, or to DEPTH levels.
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
_PLAIN_STRING = re.compile(r's"[ !#-\[\]-~]*"')  # printable and without escapes: most
_SLACK = 40  # characters by which a leaf may be longer than the one that it equals: numpy's floats are rounded
_UNUSED = 1 << 16  # characters of a dict's value where its keys alone count
_IN_ARRAYS = range(-(2**63), 2**64)  # beyond it numpy's arrays hold objects

Number = bool | int | float | complex


class Malformed(ValueError):
    """The text is not canonical text, or longer than what it could be equal to: the program has written it itself."""


def loose(text: str, bound: int = UNBOUNDED) -> str:
    """Canonical text rewritten so that values equal in Python have equal text; NaN, X and M equal nothing.

    Raises Malformed; also where it has more than `bound` characters, closing brackets aside. Takes about 1 µs a value.
    """
    made, end = _loose_at(text, 0, 0, bound)
    _all(text, end)
    return made


def same(expected: str, result: str) -> bool:
    """Whether two values are equal as of Python's `==`; a number of numpy's as if it had 64 bits (or 128, complex).

    So does numpy 1; numpy 2 rounds a Python number to the precision of the scalar beside it, and with it the expected
    result: `numpy.float16(62.83) == 62.8318`. Both texts are read side by side as far as the first difference. A result
    that is no canonical text equals nothing.
    """
    try:
        return _same(expected, result)
    except Malformed:
        return False


def _same(expected: str, result: str) -> bool:
    here = there = 0
    while here < len(expected):
        if expected[here] in "[](),":
            if result[there : there + 1] != expected[here]:
                return False
            here, there = here + 1, there + 1
            continue
        wanted, after = _loose_at(expected, here, 0, UNBOUNDED)
        made, end = _loose_at(result, there, 0, len(wanted) + _SLACK)
        if made != wanted and not _same_in_64_bits(expected[here:after], result[there:end]):
            return False
        here, there = after, end
    return there == len(result)


def members(text: str, bound: int = UNBOUNDED) -> Iterator[str]:
    """The loose texts of what `set(value)` holds, as they come: items, a dict's keys, a string's characters.

    Raises TypeError for what cannot be iterated over, Malformed for an item of more than `bound` characters too.
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
    _all(text, position + 1)


def number(text: str) -> Number:
    """The number that a text holds. Raises Malformed for any other value."""
    if _NUMBER.fullmatch(text) is None:
        raise Malformed(f"no number: {text[:40]!r}")
    return _number(text)


def numbers(text: str, most: int) -> tuple[tuple[int, ...], list[Number]]:
    """A number, or lists and tuples of numbers, as the shape that numpy gives them, and the numbers in their order.

    Raises Malformed for anything else, what numpy would make an array of objects of, and more than `most` items.
    """
    values: list[Number] = []
    shape, end = _numbers_at(text, 0, 0, values, most)
    _all(text, end)
    if shape and any(type(value) is int and value not in _IN_ARRAYS for value in values):
        raise Malformed("an int of more than 64 bits in an array")
    return shape, values


def text_of(text: str) -> str:
    """The string that a text holds. Raises Malformed for any other value."""
    if not text.startswith('s"'):
        raise Malformed(f"no string: {text[:40]!r}")
    value, end = _string_at(text, 0)
    _all(text, end)
    return value


def _bytes(text: str) -> bytes:
    _all(text, _leaf_at(text, 0)[1])
    return bytes.fromhex(text[1:-1])


def _all(text: str, end: int) -> None:
    if end != len(text):
        raise Malformed(f"text after the value: {text[end : end + 40]!r}")


def _expect(text: str, position: int, character: str) -> None:
    if not text.startswith(character, position):
        raise Malformed(f"unexpected {text[position : position + 40]!r}")


def _loose_at(text: str, position: int, depth: int, bound: int) -> tuple[str, int]:
    """The loose text of the value that begins at a position, and where it ends."""
    open_ones: list[tuple[str, list[str]]] = []
    left = bound + 1  # a leaf and what follows it
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
        left -= len(made) + 1
        if left < 0:
            raise Malformed("longer than what it is compared with")
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


def _numbers_at(text: str, position: int, depth: int, values: list[Number], most: int) -> tuple[tuple[int, ...], int]:
    """The shape of the numbers that begin at a position, which are added to the values, and where they end."""
    closer = _CLOSERS.get(text[position : position + 1], "") if depth < DEPTH else ""
    if closer not in ("]", ")"):
        match = _NUMBER.match(text, position)
        if match is None or len(values) == most:
            raise Malformed(f"no number at {text[position : position + 40]!r}, or too many")
        values.append(_number(match.group()))
        return (), match.end()
    if text.startswith(closer, position + 1):
        return (0,), position + 2
    shape, position = _numbers_at(text, position + 1, depth + 1, values, most)
    length = 1
    while not text.startswith(closer, position):
        _expect(text, position, ",")
        other, position = _numbers_at(text, position + 1, depth + 1, values, most)
        length += 1
        if other != shape or length > most:
            raise Malformed("the lists inside are of different lengths, or too many")
    return (length, *shape), position + 1


def _same_in_64_bits(expected: str, result: str) -> bool:
    """Whether two numbers, one at least of them numpy's, are equal as floats or complex numbers of double precision."""
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
