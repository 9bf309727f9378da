r"""Compute the value of an answer: exactly where all is rational, else in floating point with a bound on its error.

Read are numbers, + - * / ^ !, `\frac`, `\sqrt`, brackets, products without a sign, pi, e, i and variables, each with
one fixed value. Only what has one reading is read: functions, `f(x)`, `1/2x` and `2\frac{1}{3}x` have no value
here, nor has what would take longer than a few milliseconds. Two exact values decide by themselves. Others differ if
their difference is greater than the bound; all else is left to math-verify, which takes a hundred times as long.
"""

from __future__ import annotations

import cmath
import math
import operator
import re
import zlib
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

MAX_DEPTH = 30
MAX_BITS = 100_000  # of an exact number, and of all steps to it together 50 times as many
SIGNIFICANT_DIGITS = 6  # of a decimal that stands for a fraction or a root
EPS = 2.0**-50  # relative error of an operation on complex numbers, rounded up


class Value(NamedTuple):
    """A value, exact if it is a Fraction; `error` bounds the absolute error of any other."""

    value: Fraction | complex
    error: float = 0.0


def same_value(gold: str, answer: str) -> bool | None:
    """Whether two normal forms have the same value; None if this module cannot tell."""
    left, right = evaluated(gold), evaluated(answer)
    if left is None or right is None:
        return None
    if isinstance(left.value, Fraction) and isinstance(right.value, Fraction):
        return left.value == right.value or is_decimal_of(left.value, gold, answer)
    try:
        a, b = complex(left.value), complex(right.value)
    except OverflowError:
        return None
    error = left.error + right.error + EPS * max(abs(a), abs(b))
    error += sum(10.0 ** -len(text.partition(".")[2]) for text in (gold, answer) if _DECIMAL.fullmatch(text))
    return None if abs(a - b) <= error else False


_DECIMAL = re.compile(r"-?([0-9]*)\.([0-9]+)")


def is_decimal_of(value: Fraction, gold: str, answer: str) -> bool:
    r"""Whether an answer is a decimal for the value of a reference, rounded or cut off.

    It needs six significant digits: for `\frac{1}{3}`, 0.333333 is right, 0.3333 and 0.333334 are not. For a reference
    that is itself a decimal, or a fraction that ends (1/2), only the value itself is right. `gold` is "" for a root.
    """
    decimal = _DECIMAL.fullmatch(answer)
    if decimal is None or "." in gold or len((decimal[1] + decimal[2]).lstrip("0")) < SIGNIFICANT_DIGITS:
        return False
    if 10 ** value.denominator.bit_length() % value.denominator == 0 and gold:
        return False
    scaled, written = value * 10 ** len(decimal[2]), Fraction(answer) * 10 ** len(decimal[2])
    return written in (math.trunc(scaled), round(scaled))


def exact_number(text: str) -> Fraction | None:
    """Return the rational number that a normal form spells; None if it spells none."""
    value = evaluated(text)
    return value.value if value is not None and isinstance(value.value, Fraction) else None


@lru_cache(maxsize=1 << 14)
def evaluated(text: str) -> Value | None:
    """Return the value of a normal form; None if this module cannot read or compute it."""
    reader = _Reader(_TOKEN.findall(text))
    try:
        result = reader.sum()
        is_finite = isinstance(result.value, Fraction) or cmath.isfinite(result.value)
    except (_Unread, ArithmeticError):
        return None
    return result if is_finite and not reader.tokens else None


class _Unread(Exception):
    """The text is no expression that this module reads."""


_TOKEN = re.compile(
    r"[0-9]*\.[0-9]*\\overline\{[0-9]+\}|\\[A-Za-z]+|[0-9]+\.?[0-9]*|\.[0-9]+|[A-Za-z](?:_\{[A-Za-z0-9]+\})?|.",
    re.DOTALL,
)
_VARIABLE = re.compile(r"[A-Za-z].*|\\(?:alpha|beta|gamma|delta|theta|lambda|mu|rho|sigma|tau|phi|omega|ell)")
_FACTOR = re.compile(rf"[0-9({{].*|\\(?:frac|sqrt|pi)|{_VARIABLE.pattern}")
_CONSTANTS = {r"\pi": Value(complex(cmath.pi), EPS), "e": Value(complex(cmath.e), EPS), "i": Value(1j)}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class _Reader:
    """Evaluates tokens by recursive descent, with bounded depth and size."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens[::-1]
        self._depth = 0
        self._bits = 0

    def _peek(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def _take(self, *expected: str) -> str:
        """Take the next token if it is one of those expected, and return it; else return ""."""
        return self.tokens.pop() if self.tokens and self.tokens[-1] in expected else ""

    def _apply(self, operation: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
        a, b = left.value, right.value
        is_power = operation is operator.pow
        if isinstance(a, Fraction) and isinstance(b, Fraction) and (not is_power or b.denominator == 1):
            if is_power and abs(b) * _bits(a) > MAX_BITS:
                raise _Unread
            return self._bounded(operation(a, b))
        x, y = complex(a), complex(b)
        result = operation(x, y)
        dx, dy = max(left.error, EPS * abs(x)), max(right.error, EPS * abs(y))  # by which the arguments may be off
        change = abs(operation(x + dx, y) - result) + abs(operation(x, y + dy) - result)
        return Value(result, 2 * change + EPS * abs(result))

    def _bounded(self, value: Fraction) -> Value:
        """Return an exact value; raises _Unread if it, or all exact values so far, have too many digits."""
        self._bits += _bits(value)
        if _bits(value) > MAX_BITS or self._bits > 50 * MAX_BITS:
            raise _Unread
        return Value(value)

    def sum(self) -> Value:
        """Read terms joined by + or -, up to the first token that is neither."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Unread
        total = Value(Fraction(0))
        sign = self._take("+", "-") or "+"
        while sign:
            total = self._apply(operator.sub if sign == "-" else operator.add, total, self._product())
            sign = self._take("+", "-")
        self._depth -= 1
        return total

    def _product(self) -> Value:
        total, divided = self._factor(), False
        while True:
            if self._take("*", r"\cdot", r"\times"):
                total, divided = self._apply(operator.mul, total, self._factor()), False
            elif self._take("/"):
                total, divided = self._apply(operator.truediv, total, self._factor()), True
            elif not _FACTOR.fullmatch(self._peek()):
                return total
            elif divided:
                raise _Unread
            else:
                total = self._apply(operator.mul, total, self._factor())

    def _factor(self) -> Value:
        base = self._atom()
        while self._take("!"):
            n = base.value
            if not (isinstance(n, Fraction) and n.denominator == 1 and 0 <= n <= 5_000):
                raise _Unread
            base = self._bounded(Fraction(math.factorial(int(n))))
        if self._take("^"):
            base = self._apply(operator.pow, base, self._group())
        if self._peek() in ("^", "_", "!", "'"):
            raise _Unread
        return base

    def _group(self, opening: str = "{") -> Value:
        if not self._take(opening):
            raise _Unread
        value = self.sum()
        if not self._take(_CLOSING[opening]):
            raise _Unread
        return value

    def _atom(self) -> Value:
        if self._peek() in ("(", "{"):
            return self._group(self._peek())
        token = self.tokens.pop() if self.tokens else ""
        if re.match(r"\.?[0-9]|\.\\", token):
            return self._number(token)
        if token == r"\frac":
            return self._apply(operator.truediv, self._group(), self._group())
        if token == r"\sqrt":
            degree = self._group("[") if self._peek() == "[" else Value(Fraction(2))
            return self._apply(operator.pow, self._group(), self._apply(operator.truediv, Value(Fraction(1)), degree))
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if not _VARIABLE.fullmatch(token) or self._peek() == "(":
            raise _Unread
        return Value(complex(0.3 + (zlib.crc32(token.encode()) % 10_007) / 7_000))  # between 0.3 and 1.73

    def _number(self, token: str) -> Value:
        start, _, period = token.partition(r"\overline")
        value = Fraction(f"0{start}0" if period else token)
        if period:  # 0.1\overline{36} is 0.1363636...
            value += Fraction(int(period[1:-1]), (10 ** (len(period) - 2) - 1) * 10 ** len(start.partition(".")[2]))
        if self._peek()[:1].isdecimal():
            raise _Unread
        if self._peek() != r"\frac":
            return self._bounded(value)
        part = self._atom().value  # a mixed number: 2\frac{1}{3}
        is_mixed = token.isdecimal() and value and isinstance(part, Fraction) and 0 < part < 1
        if not is_mixed or self._peek() not in ("", "+", "-", ")", "}"):
            raise _Unread
        return Value(value + part)


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()
