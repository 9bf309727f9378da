"""Canonical text: how a Python value, a program's result, leaves the sandbox, and how it is read outside.

It is text because nothing from a program may be unpickled or evaluated outside. It is canonical so that equal results
have equal bytes. Only methods of the built-in base classes are called: `__eq__`, `__repr__`, `__hash__` and `__iter__`
of a program's own classes have no effect. `[1, (2.5, "a")]` is `[i1,(f2.5,s"a")]`:

    N None    T F bool    i1f int, hex    f1.5 float    c1.0;2.0 complex    s"json" str    b00ff; bytes
    [..] list    (..) tuple    <..> set, sorted    {k:v,..} dict, sorted    nint64:i5; a numpy number (NUMPY)
    q1/3 Fraction or Decimal, hex    M match of a regular expression    X anything else

In *loose* text, values that are equal in Python have the same text: True, 1.0, Fraction(1) and numpy's 1 are `i1`, -0.0
is `i0`, 0.5 and Decimal("0.5") are `f0.5`. NaN, X and M equal nothing, not even themselves: each gets a new word.

On the trusted side it is hostile text: every step of reading is bounded and linear in its length. No value that a
program chooses is hashed (ten thousand ints that would collide in a set remain text), and nothing is evaluated. Nothing
is built that is much larger than the value it is compared with, although short text can represent large values: a list
of two million `X` needs as many words, and an array that numpy broadcasts has the product of two lengths.

Both sides use this file: it runs on the trusted side, and it is sent into the sandbox. Standard library only.
"""

from __future__ import annotations

import re
import sys
from _json import encode_basestring_ascii
from collections.abc import Callable, Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from os import urandom
from typing import Any

try:  # hashlib would load OpenSSL: 4 MB more, whose page tables every fork copies
    from _sha2 import sha256  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256

DEPTH = 100  # levels of nesting; a value that is deeper, or contains itself, is X
LARGEST_EXPONENT = 400  # of a Decimal; beyond it, it is X
UNBOUNDED = sys.maxsize
NUMPY = {"bool", "float16", "float32", "float64", "complex64", "complex128"}  # no dates, no long doubles
NUMPY |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_AT_ONCE = 1000  # items of a long result that are digested together

# dict.keys() equals a set of the same items
_CONTAINERS: tuple[Any, ...] = (list, tuple, dict, set, frozenset, type({}.keys()))
_MATCH = type(re.match("", ""))
_REAL: Any = complex.real
_IMAGINARY: Any = complex.imag

Number = bool | int | float | complex

_numpy_names: dict[int, str] = {}  # by the id of the scalar type, since a program's metaclass may define any hash


class TooLong(Exception):
    """The text would be longer than the bound."""


class _TooDeep(Exception):
    pass


def encode(value: object, bound: int = UNBOUNDED) -> str:
    """Return the canonical text of a value: ASCII, one line.

    Raises TooLong, before the text is made, if it is certain to have more than `bound` characters.
    """
    learn_numpy()
    return _Writer(bound, str).whole(value)


def digest(value: object) -> str:
    """Return `h` and the SHA-256 of the loose text, in hex. The text of a long list or tuple is never held at once.

    It is for results such as those of Mbpp/255: lists of up to 10^6 tuples, 781 MB for all its tests.
    """
    learn_numpy()
    writer = _Writer(UNBOUNDED, loose_leaf)
    if type(value) is not list and type(value) is not tuple:
        return f"h{sha256(writer.whole(value).encode()).hexdigest()}"
    opener, closer = (b"[", b"]") if type(value) is list else (b"(", b")")
    state: Any = sha256(opener)
    for start in range(0, len(value), _AT_ONCE):
        items = [writer.whole(item, 1) for item in value[start : start + _AT_ONCE]]
        state.update((b"," if start else b"") + ",".join(items).encode())
    state.update(closer)
    return f"h{state.hexdigest()}"


class _Writer:
    """Writes values, with at most `left` characters in all; `finish` converts the canonical text of each leaf."""

    def __init__(self, left: int, finish: Callable[[str], str]):
        self.left = left
        self.finish = finish

    def whole(self, value: object, depth: int = 0) -> str:
        """Return a value's text, or that of X if the value is nested too deeply."""
        try:
            return self.text(value, depth)
        except (_TooDeep, RecursionError):
            return self.finish("X")

    def text(self, value: Any, depth: int) -> str:
        kind = type(value)
        if kind is list or kind is tuple:
            return self.container(value, kind, depth)
        if kind is str:
            if len(value) > self.left:
                raise TooLong
            text = string(value)
        elif kind is int:
            text = f"i{value:x}"
        elif kind is float or value is None or kind is bool or not issubclass(kind, _CONTAINERS):
            text = self.finish(_leaf(value, kind))
        else:
            return self.container(value, next(base for base in _CONTAINERS if issubclass(kind, base)), depth)
        self.charge(len(text) + 1)
        return text

    def container(self, value: Any, base: Any, depth: int) -> str:
        if depth >= DEPTH:
            raise _TooDeep
        self.charge(2)
        if base is dict:
            pairs = [(self.text(key, depth + 1), self.text(item, depth + 1)) for key, item in dict.items(value)]
            return "{" + ",".join(sorted(f"{key}:{item}" for key, item in pairs)) + "}"
        items = self.strings(value) or [self.text(item, depth + 1) for item in base.__iter__(value)]
        if base is list:
            return "[" + ",".join(items) + "]"
        if base is tuple:
            return "(" + ",".join(items) + ")"
        return "<" + ",".join(sorted(items)) + ">"

    def strings(self, value: Any) -> list[str] | None:
        """Return the text of the items of a list or tuple of 8 plain strings or more, made in one step; else None.

        A plain string needs no escapes. One test of Mbpp/255 returns 1.7 million tuples of 77 strings.
        """
        is_sequence = type(value) is list or type(value) is tuple
        if not is_sequence or len(value) < 8 or type(value[0]) is not str:
            return None
        try:
            joined = '",s"'.join(value)
        except TypeError:
            return None
        plain = joined.isascii() and joined.isprintable() and "\\" not in joined
        if not plain or joined.count('"') != 2 * (len(value) - 1):
            return None
        self.charge(len(joined) + 3)
        return [f's"{joined}"']

    def charge(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise TooLong


# Leaves


def _leaf(value: Any, kind: type) -> str:
    """Return the canonical text of a value that is no container. numpy comes first: its float64 subclasses float."""
    if value is None:
        return "N"
    if kind is bool:
        return "T" if value else "F"
    if id(kind) in _numpy_names:
        return _numpy_scalar(value, kind)
    for base, text in _LEAVES:
        if issubclass(kind, base):
            return text(value)
    return _rare(value, kind)


def string(value: str) -> str:
    """Return the text of a str; X if two lone surrogates in it would be read as one character."""
    text: str = encode_basestring_ascii(value)
    if "\\ud" in text and not str.__eq__(scanstring(text, 1)[0], value):
        return "X"
    return "s" + text


_LEAVES: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (int, lambda value: "i" + int.__format__(value, "x")),
    (float, lambda value: "f" + float.__repr__(value)),
    (str, string),
    (complex, lambda value: f"c{_REAL.__get__(value)!r};{_IMAGINARY.__get__(value)!r}"),
    (bytes, lambda value: f"b{bytes.hex(value)};"),
    (bytearray, lambda value: f"b{bytearray.hex(value)};"),
)


def _rare(value: Any, kind: type) -> str:
    """Return the text of a Match, Fraction or Decimal, else X. Modules are looked up in `sys.modules`, not imported."""
    if kind is _MATCH:
        return "M"
    fractions, decimal = sys.modules.get("fractions"), sys.modules.get("decimal")
    ratio: tuple[Any, Any] = None, None
    if fractions is not None and issubclass(kind, fractions.Fraction):
        ratio = fractions.Fraction._numerator.__get__(value), fractions.Fraction._denominator.__get__(value)
    elif decimal is not None and issubclass(kind, decimal.Decimal):
        base = decimal.Decimal
        if base.is_infinite(value):
            return "f-inf" if base.is_signed(value) else "finf"
        if not base.is_nan(value) and abs(base.adjusted(value)) <= LARGEST_EXPONENT:
            ratio = base.as_integer_ratio(value)
    if type(ratio[0]) is type(ratio[1]) is int:
        return f"q{ratio[0]:x}/{ratio[1]:x}"
    return "X"


def learn_numpy() -> None:
    """Store numpy's scalar types, if numpy is loaded."""
    numpy = sys.modules.get("numpy")
    if not _numpy_names and numpy is not None and hasattr(numpy, "generic"):
        _numpy_names.update({id(kind): numpy.dtype(kind).name for kind in set(numpy.sctypeDict.values())})


def _numpy_scalar(value: Any, kind: type) -> str:
    if issubclass(kind, str):
        return string(value)
    if issubclass(kind, bytes):
        return f"b{bytes.hex(value)};"
    if _numpy_names[id(kind)] not in NUMPY:
        return "X"
    plain = value.item()
    return f"n{_numpy_names[id(kind)]}:{_leaf(plain, type(plain))};"


def loose_leaf(text: str) -> str:
    """Return a leaf's canonical text in loose form.

    Only short fractions are divided: the longest float has 540 digits.
    """
    first = text[0]
    if first in "isbN":
        return text
    value: Number = float("nan")
    if first in "TFnfc":
        value = _number(text)
    elif first == "q":
        numerator, _, denominator = text[1:].partition("/")
        if denominator == "1":
            return "i" + numerator
        if len(numerator) + len(denominator) > 600:
            return text
        ratio = int(numerator, 16), int(denominator, 16)
        try:
            value = ratio[0] / ratio[1]
        except (OverflowError, ZeroDivisionError):
            return text
        if value.as_integer_ratio() != ratio:
            return text
    if isinstance(value, int):
        return f"i{value:x}"
    if value != value:
        return "X" + urandom(12).hex()
    if value.imag:
        return f"c{value.real + 0.0!r};{value.imag!r}"  # -0.0 + 0.0 is 0.0
    return f"i{int(value.real):x}" if value.real.is_integer() else f"f{value.real!r}"


# Reading: the text is hostile

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

    A numpy number is compared with 64 bits (complex ones with 128), as numpy 1 does. numpy 2 rounds a Python number,
    which is the expected result, to the precision of the numpy scalar: `numpy.float16(62.83) == 62.8318`. Inside
    containers numbers are compared exactly.
    """
    try:
        if "n" in (expected[:1], result[:1]) and _NUMBER.fullmatch(expected) and _NUMBER.fullmatch(result):
            left, right = _number(expected), _number(result)
            both_int = isinstance(left, int) and isinstance(right, int)
            return left == right if both_int else complex(left) == complex(right)
        value = loose(expected)
        return value == loose(result, len(value))
    except (Malformed, OverflowError):  # an int beyond the largest float
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
        raise Malformed
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
        raise Malformed
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

    def takes(self, character: str) -> bool:
        """Go past this character if it comes next; return whether it did."""
        if not self.text.startswith(character, self.at):
            return False
        self.at += 1
        return True

    def take(self, character: str) -> None:
        if not self.takes(character):
            raise Malformed

    def end(self) -> None:
        if self.at != len(self.text):
            raise Malformed

    def matched(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise Malformed
        self.at = match.end()
        return match.group()

    def charge(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise Malformed

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
            raise Malformed
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
            value = loose_leaf(self.matched(_LEAF))
        self.charge(len(value) + 1)
        return value

    def string(self) -> str:
        """Return the string that begins here."""
        self.take("s")
        self.take('"')
        try:
            value, self.at = scanstring(self.text, self.at)
        except ValueError:
            raise Malformed from None
        return str(value)

    def numbers(self, values: list[Number], limit: int, depth: int = 0) -> tuple[int, ...]:
        """Append the numbers that begin here to the values; return their shape."""
        if self.text[self.at : self.at + 1] not in ("[", "(") or depth >= DEPTH:
            if len(values) == limit:
                raise Malformed
            values.append(_number(self.matched(_NUMBER)))
            return ()
        length, shape = 0, tuple[int, ...]()
        for _ in self.places():
            before, shape = shape, self.numbers(values, limit, depth + 1)
            if length and (shape != before or length >= limit):
                raise Malformed
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
        raise Malformed from None
