"""Write a Python value as canonical text, the form in which a program's results leave the sandbox.

It is text because nothing from a program may be unpickled or evaluated outside. It is canonical so that equal results
have equal bytes. Only methods of the built-in base classes are called: `__eq__`, `__repr__`, `__hash__` and `__iter__`
of a program's own classes have no effect. `[1, (2.5, "a")]` is `[i1,(f2.5,s"a")]`:

    N None    T F bool    i1f int, hex    f1.5 float    c1.0;2.0 complex    s"json" str    b00ff; bytes
    [..] list    (..) tuple    <..> set, sorted    {k:v,..} dict, sorted    nint64:i5; a numpy number (NUMPY)
    q1/3 Fraction or Decimal, hex    M match of a regular expression    X anything else

In *loose* text, values that are equal in Python have the same text: True, 1.0, Fraction(1) and numpy's 1 are `i1`, -0.0
is `i0`, 0.5 and Decimal("0.5") are `f0.5`. NaN, X and M equal nothing, not even themselves: each gets a new word.

Both sides use this file: it runs on the trusted side, and it is sent into the sandbox. Standard library only.
"""

from __future__ import annotations

import re
import sys
from _json import encode_basestring_ascii
from collections.abc import Callable
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
    first, value = text[0], complex("nan")
    if first in "isbN":
        return text
    if first in "TF":
        return "i1" if first == "T" else "i0"
    if first == "n":
        return loose_leaf(text[text.index(":") + 1 : -1])
    if first == "f":
        value = complex(float(text[1:]))
    elif first == "c":
        real, _, imaginary = text[1:].partition(";")
        value = complex(float(real), float(imaginary))
    elif first == "q":
        numerator, _, denominator = text[1:].partition("/")
        if denominator == "1":
            return "i" + numerator
        if len(numerator) + len(denominator) > 600:
            return text
        ratio = int(numerator, 16), int(denominator, 16)
        try:
            value = complex(ratio[0] / ratio[1])
        except (OverflowError, ZeroDivisionError):
            return text
        if value.real.as_integer_ratio() != ratio:
            return text
    if value != value:
        return "X" + urandom(12).hex()
    if value.imag:
        return f"c{value.real + 0.0!r};{value.imag!r}"  # -0.0 + 0.0 is 0.0
    return f"i{int(value.real):x}" if value.real.is_integer() else f"f{value.real!r}"
