r"""The number that a response states last: in a `\boxed{}`, after `####` or "answer is", else its last number.

Values are exact fractions: `0.5`, `1/2` and `\frac{1}{2}` are the same, and `1,234`, `$1234` and `1234 km` too. The
rules are those of the math tasks (`math_answers`), without algebra. A statement in words counts by its only number:
"the answer is 42 legs in all", but not "42 or more".
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from ..math_answers.exact_number import Number, exact_number, same_number
from ..math_answers.extraction import final_statement
from ..math_answers.normal_form import normal_form

_SCIENTIFIC = re.compile(r"(?<![\w.])[0-9]{1,20}(?:\.[0-9]{1,20})?[eE][-+]?[0-9]{1,2}(?![\w.]*[0-9])")

_NUMBER = re.compile(r"(?<![\w.,^{])-?\$?[0-9][0-9,]*(?:\.[0-9]+)?(?:/[0-9]+)?(?![\w^])")
_HEDGED = re.compile(
    r"\b(?:not|or|less|more|fewer|greater|than|least|most|between|over|under)\b|[=<>+*]", re.IGNORECASE
)


def number_in(text: str) -> Number | None:
    """Return the number that a text spells; None if it spells none."""
    return exact_number(normal_form(text))


def stated_number(response: str, cut_off: bool = False) -> Number | None:
    """Return the number that the response states; None if it states none, or something else.

    cut_off   the token limit ended the response, so that its last number is an intermediate result
    """
    statement = final_statement(_SCIENTIFIC.sub(_in_digits, response), "####")
    if statement.answer is None or (cut_off and statement.route == "fallback"):
        return None
    number = number_in(statement.answer)
    if number is None and statement.route == "fallback" and not _HEDGED.search(statement.answer):
        only = _NUMBER.findall(statement.answer)
        return number_in(only[0]) if len(only) == 1 else None
    return number


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
