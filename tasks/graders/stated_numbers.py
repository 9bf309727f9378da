r"""The number that a response states last: in a `\boxed{}`, after `####` or "answer is", else its last number.

Values are exact fractions: `0.5`, `1/2` and `\frac{1}{2}` are the same, and `1,234`, `$1234` and `1234 km` too. The
rules are those of the math tasks (`math_answers`), without algebra. The last number is the whole expression in which
last digits are (`last_numbers`), also in a statement in words: "the answer is 42 legs in all", not "42 or more".
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from fractions import Fraction

from ..math_answers.exact_number import Number, same_number
from ..math_answers.extraction import final_statement, unboxed
from .last_numbers import last_number, number_in, whole_number, without_remark

_SCIENTIFIC = re.compile(r"(?<![\w.])[0-9]{1,20}(?:\.[0-9]{1,20})?[eE][-+]?[0-9]{1,2}(?![\w.]*[0-9])")
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_MINUS = re.compile(r"−[ \t]*(?=[0-9.\\$])")


def stated_number(response: str, cut_off: bool = False) -> Number | None:
    """Return the number that the response states; None if it states none, or something else.

    cut_off   the token limit ended the response, so that its last number is an intermediate result
    """
    plain = _MINUS.sub("-", _VULGAR.sub(_as_fraction, _SCIENTIFIC.sub(_in_digits, response)))
    statement = final_statement(plain, "####")
    if statement.route in ("boxed", "####"):
        return number_in(statement.answer) if statement.answer is not None else None
    if cut_off:
        return None
    text, is_stated = unboxed(plain)
    if is_stated:
        text = without_remark(text)
    return (number_in(text) if is_stated else whole_number(text)) or last_number(text)


def _as_fraction(character: re.Match[str]) -> str:
    above, below = unicodedata.normalize("NFKC", character[0]).split("⁄")
    return rf"\frac{{{above}}}{{{below}}}"


def _in_digits(number: re.Match[str]) -> str:
    """Return 3.5e2 as 350, which the rules for a last number know."""
    return f"{Decimal(number[0]):f}"


def answer(response: str, cut_off: bool = False) -> str | None:
    """Return the stated number as a fraction in lowest terms, such as `3/4` or `12`; None without one."""
    number = stated_number(response, cut_off)
    return None if number is None else str(number.value)


def is_right(reference: str, response: str, tolerance: float, cut_off: bool = False) -> bool | None:
    """Return whether the stated number is the reference, or at most `tolerance` from it; None without a number."""
    gold, given = number_in(reference), stated_number(response, cut_off)
    if given is None or gold is None:
        return None
    return same_number(gold, given) or abs(gold.value - given.value) <= Fraction(str(tolerance))
