r"""Compute the value of an expression at one fixed point, which separates most different expressions without algebra.

Every variable has a fixed value. Two expressions whose values differ by more than 1e-5 relatively are different. Two
expressions of plain numbers, + - * / and whole powers are equal if their exact values are. Everything else is left to
math-verify. This takes 20 to 60 µs, math-verify 5 to 50 ms, and most answers that neither text nor numbers decide are
wrong.

Only what has one reading is read: + - * / powers, `\frac`, `\sqrt`, brackets, products without a sign, pi, e, i and
variables. Anything else has no value in this module: functions, `f(x)`, `1/2x`, `2\frac{1}{3}`.
"""

from __future__ import annotations

import cmath
import re
import zlib
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

APART = 1e-5  # relative: math-verify accepts a decimal for a root at six digits
NOISE = 1e-10  # of the largest intermediate result: a smaller difference may be a rounding error
MAX_DEPTH = 30
MAX_EXPONENT = 200
MAX_BITS = 4_000  # of an exact number

_TOKEN = re.compile(r"\\[A-Za-z]+|[0-9]+\.?[0-9]*|\.[0-9]+|[A-Za-z](?:_\{[A-Za-z0-9]+\})?|.", re.DOTALL)
_GREEK = re.compile(r"\\(?:alpha|beta|gamma|delta|theta|lambda|mu|rho|sigma|tau|phi|omega|ell)")
_CONSTANTS = {r"\pi": complex(cmath.pi), "e": complex(cmath.e), "i": 1j}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_TIMES = ("*", r"\cdot", r"\times")


class Value(NamedTuple):
    """The result of an expression, exact if it is a Fraction.

    `largest`: the largest absolute value that occurred on the way, by which rounding errors are judged.
    """

    value: Fraction | complex
    largest: float


def same_value(gold: str, answer: str) -> bool | None:
    """Return True if two normal forms have the same exact value, False if their values clearly differ, else None."""
    left, right = evaluated(gold), evaluated(answer)
    if left is None or right is None:
        return None
    are_exact = isinstance(left.value, Fraction) and isinstance(right.value, Fraction)
    if are_exact and left.value == right.value:
        return True
    difference = abs(complex(left.value - right.value))
    scale = max(abs(complex(left.value)), abs(complex(right.value)))
    noise = 0.0 if are_exact else NOISE * max(left.largest, right.largest)
    return False if difference > max(APART * scale, noise) else None


@lru_cache(maxsize=1 << 12)
def evaluated(text: str) -> Value | None:
    """Return the value of a normal form at the fixed point; None if this module cannot read or compute it."""
    reader = _Reader(_TOKEN.findall(text))
    try:
        value = reader.sum()
        is_finite = cmath.isfinite(complex(value))
    except (_Unread, ArithmeticError):
        return None
    return Value(value, reader.largest) if is_finite and not reader.tokens else None


class _Unread(Exception):
    """The text is no expression that this module reads."""


class _Reader:
    """Evaluates tokens by recursive descent: exactly while all values are rational, with bounded depth and size."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens[::-1]
        self.largest = 0.0
        self._depth = 0

    def _peek(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def _take(self, *expected: str) -> str:
        """Take the next token if it is one of those expected, and return it; else return ""."""
        return self.tokens.pop() if self.tokens and self.tokens[-1] in expected else ""

    def _noted(self, value: Fraction | complex) -> Fraction | complex:
        """Return an intermediate result, after updating `largest`; raises _Unread if it has too many digits."""
        if isinstance(value, Fraction) and _bits(value) > MAX_BITS:
            raise _Unread
        self.largest = max(self.largest, abs(complex(value)))
        return value

    def sum(self) -> Fraction | complex:
        """Read terms joined by + or -, up to the first token that is neither."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Unread
        sign = self._take("+", "-")
        total = -self._product() if sign == "-" else self._product()
        while sign := self._take("+", "-"):
            term = self._product()
            total = self._noted(total - term if sign == "-" else total + term)
        self._depth -= 1
        return total

    def _product(self) -> Fraction | complex:
        total = self._power()
        divided = False
        while True:
            if self._take(*_TIMES):
                total, divided = self._noted(total * self._power()), False
            elif self._take("/"):
                total, divided = self._noted(total / self._power()), True
            elif self._begins_factor():
                if divided:
                    raise _Unread
                total = self._noted(total * self._power())
            else:
                return total

    def _begins_factor(self) -> bool:
        token = self._peek()
        return token[:1].isalnum() or token in ("(", "{", r"\frac", r"\sqrt", r"\pi") or _is_greek(token)

    def _power(self) -> Fraction | complex:
        base = self._atom()
        if self._take("^"):
            base = self._noted(_raised(base, self._group("{")))
        if self._peek() in ("^", "_", "!", "'"):
            raise _Unread
        return base

    def _group(self, opening: str) -> Fraction | complex:
        if not self._take(opening):
            raise _Unread
        value = self.sum()
        if not self._take(_CLOSING[opening]):
            raise _Unread
        return value

    def _atom(self) -> Fraction | complex:
        if self._peek() in ("(", "{"):
            return self._group(self._peek())
        if not self.tokens:
            raise _Unread
        token = self.tokens.pop()
        if token[0].isdecimal() or (token[0] == "." and len(token) > 1):
            return self._number(token)
        if token == r"\frac":
            return self._noted(self._group("{") / self._group("{"))
        if token == r"\sqrt":
            degree = self._group("[") if self._peek() == "[" else Fraction(2)
            return self._noted(complex(self._group("{")) ** (1 / complex(degree)))
        return self._name(token)

    def _number(self, token: str) -> Fraction | complex:
        if self._peek() == r"\frac" or self._peek()[:1].isdecimal():
            raise _Unread
        return self._noted(Fraction(token))

    def _name(self, token: str) -> complex:
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if not (token[0].isalpha() or _is_greek(token)) or self._peek() == "(":
            raise _Unread
        return complex(0.3 + (zlib.crc32(token.encode()) % 10_007) / 7_000)  # between 0.3 and 1.73


def _raised(base: Fraction | complex, exponent: Fraction | complex) -> Fraction | complex:
    if abs(complex(exponent)) > MAX_EXPONENT:
        raise _Unread
    if isinstance(base, complex) or isinstance(exponent, complex) or exponent.denominator > 1:
        return complex(base) ** complex(exponent)
    return Fraction(base**exponent.numerator)


def _is_greek(token: str) -> bool:
    return _GREEK.fullmatch(token) is not None


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()
