r"""Read numbers exactly, without algebra: integers, decimals (also repeating), fractions, mixed numbers, a·10^n.

Values are of type `Fraction`. A decimal stands for a fraction only if it is the fraction's value, rounded or cut off
after six significant digits or more: for 1/3, 0.333333 is right and 0.3333 is wrong. (math-verify rounds both to six
places after the point, so that it accepts 0.000067 for 0.0000672.) Of a double, the digits after the twelfth do not
count.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

SIGNIFICANT_DIGITS = 6
DOUBLE = Fraction(1, 10**12)  # relative: a double is printed with 17 digits, of which the last may be wrong
MAX_EXPONENT = 400

_SIGNED = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_NUMBER = re.compile(
    rf"""
    (?P<start>[-+]?[0-9]*\.[0-9]*)\\overline\{{(?P<period>[0-9]+)\}}
  | (?P<decimal>{_SIGNED})(?:(?:\\times|\\cdot)10\^\{{(?P<exponent>[-+]?[0-9]{{1,3}})\}})?
  | (?P<sign>[-+]?)(?P<whole>[1-9][0-9]*)?\\frac\{{(?P<above>{_SIGNED})\}}\{{(?P<below>{_SIGNED})\}}
  | (?P<left>{_SIGNED})/(?P<right>{_SIGNED})
    """,
    re.VERBOSE,
)


class Number(NamedTuple):
    """A value, and its number of decimals; `decimals` is None if it was not written as a decimal."""

    value: Fraction
    decimals: int | None

    @property
    def is_integer(self) -> bool:
        return self.value.denominator == 1


@lru_cache(maxsize=1 << 14)
def exact_number(text: str) -> Number | None:
    """Return the number that a normal form spells; None if it spells none, or divides by zero."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    if match["decimal"]:
        return _decimal(match["decimal"], int(match["exponent"] or 0))
    if match["period"]:
        return Number(_repeating(match["start"], match["period"]), None)
    above, below = (match["above"], match["below"]) if match["above"] else (match["left"], match["right"])
    divisor = Fraction(below)
    if not divisor:
        return None
    value = Fraction(above) / divisor
    if match["whole"]:
        if not 0 < value < 1:  # 2\frac{3}{2} may be a product
            return None
        value += int(match["whole"])
    return Number(-value if match["sign"] == "-" else value, None)


def _decimal(text: str, exponent: int) -> Number | None:
    if abs(exponent) > MAX_EXPONENT:
        return None
    decimals = len(text.partition(".")[2]) if "." in text else None
    value = Fraction(text) * Fraction(10) ** exponent
    return Number(value, None if decimals is None else decimals - exponent)


def _repeating(start: str, period: str) -> Fraction:
    """Return the value of a decimal whose last digits repeat: for 0.1 and 36 that of 0.1363636..."""
    unit = Fraction(1, 10 ** len(start.partition(".")[2]))
    rest = unit * Fraction(int(period), 10 ** len(period) - 1)
    return Fraction(f"{start}0") + (-rest if start.startswith("-") else rest)


def same_number(gold: Number, answer: Number) -> bool:
    """Whether an answer's number equals the reference's or, if that is a fraction, is a decimal for it.

    The decimal must be the fraction's value, rounded or cut off after six significant digits or more.
    """
    if gold.value == answer.value:
        return True
    if answer.decimals is None or gold.decimals is not None or gold.is_integer:
        return False
    unit = Fraction(10) ** -answer.decimals
    digits_enough = abs(answer.value) >= unit * 10 ** (SIGNIFICANT_DIGITS - 1)
    return digits_enough and abs(gold.value - answer.value) <= max(unit, abs(gold.value) * DOUBLE)
