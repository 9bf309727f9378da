r"""The number that a response states: in its last `\boxed{}` or `####`, after "answer is", else its last number.

Values are exact fractions: `0.5`, `1/2` and `\frac{1}{2}` are the same, and `1,234`, `$1234` and `1234 km` too. The
rules are those of the math tasks (`math_answers`), without algebra. A response may also be the number as a whole, in
digits or in words.
"""

from __future__ import annotations

from fractions import Fraction

from ..math_answers.extraction import MAX_ANSWER, final_statement
from ..math_answers.normal_form import normal_form
from ..math_answers.values import exact_number, is_decimal_of


def number_in(text: str) -> Fraction | None:
    """Return the number that a text spells; None if it spells none."""
    return exact_number(normal_form(text))


def answer(response: str, cut_off: bool = False) -> str | None:
    """Return the stated number as a fraction in lowest terms, such as `3/4` or `12`; None without one."""
    number = stated_number(response, cut_off)
    return None if number is None else str(exact_number(number))


def stated_number(response: str, cut_off: bool = False) -> str | None:
    """Return the normal form of the stated number; None without one.

    cut_off   the token limit ended the response, so that its last number is an intermediate result
    """
    statement = final_statement(response, "####")
    if statement.route in ("boxed", "####"):
        stated = statement.answer or ""
    elif cut_off:
        return None
    else:
        is_number = len(response) <= MAX_ANSWER and number_in(response) is not None
        stated = response if is_number else statement.answer or ""
    return normal_form(stated) if number_in(stated) is not None else None


def is_right(reference: str, given: str, tolerance: float) -> bool:
    """Whether a stated number is the reference, a decimal for it, or at most `tolerance` from it."""
    gold, value = number_in(reference), number_in(given)
    if gold is None or value is None:
        return False
    return is_decimal_of(gold, normal_form(reference), given) or abs(gold - value) <= Fraction(str(tolerance))
