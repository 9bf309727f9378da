r"""What a response states, as text or as a number, and how it is searched by a pattern.

Text, for `exact` and `regex`: the last `\boxed{x}`, else the last `#### x` or "answer is x" or "Answer: x"; without one
the whole response is the answer, as to "Answer with one word". Its one spelling: NFKC, small letters, single blanks,
without quotes, asterisks and final punctuation around it. `**Paris.**` and "The answer is Paris." are both `paris`.

Numbers, for `number`: in the last `\boxed{}` or `####`, after "answer is", else the last number; or the response as a
whole, in digits or in words. Values are exact fractions: `0.5`, `1/2` and `\frac{1}{2}` are the same, and `1,234`,
`$1234` and `1234 km` too. The rules are those of the math tasks (`math_answers`), without algebra.

`cut_off`, of all of them: the token limit ended the response. Neither the whole of it, nor an unfinished statement, nor
its last number is then an answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from fractions import Fraction

from harness.system.children import limited

from ..math_answers.extraction import MAX_ANSWER, boxed_contents, final_statement
from ..math_answers.normal_form import normal_form
from ..math_answers.values import exact_number, is_decimal_of

LOOK_AT = 20_000  # characters, the last ones
LIMIT_S = 5.0  # of a search by a pattern

_COMMAND = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf)\s*\{([^{}]*)\}")
_STATEMENT = re.compile(r"(?:####|\banswer\b[*_ ]{0,4}(?:is\b|:)(?:[*_ ]{0,4}:)?)[*_\s]*(?=\S)", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[a-z0-9)\]*]{2})[.!?](?=\s)")  # not after "Dr"
_AROUND = " \t\r\n*_`\"'“”‘’«»$.,;:!?"


def text_answer(response: str, cut_off: bool = False) -> str | None:
    """Return the stated text in one spelling; None if there is none."""
    boxes, text = boxed_contents(response), response[-LOOK_AT:]
    if boxes:
        return normalised(", ".join(boxes)) or None
    ends = [match.end() for match in _STATEMENT.finditer(text)]
    if not ends:
        return None if cut_off or len(response) > LOOK_AT else normalised(text) or None
    line, newline, _ = text[ends[-1] :].partition("\n")
    sentence, *more = _SENTENCE_END.split(line, maxsplit=1)
    return None if cut_off and not (newline or more) else normalised(sentence) or None


def normalised(text: str) -> str:
    """Return the text in one spelling; "" if nothing is left."""
    plain = unicodedata.normalize("NFKC", _COMMAND.sub(r"\1", text))
    return " ".join(plain.casefold().split()).strip(_AROUND)


def number_in(text: str) -> Fraction | None:
    """Return the number that a text spells; None if it spells none."""
    return exact_number(normal_form(text))


def number_answer(response: str, cut_off: bool = False) -> str | None:
    """Return the stated number as a fraction in lowest terms, such as `3/4` or `12`; None without one."""
    number = stated_number(response, cut_off)
    return None if number is None else str(exact_number(number))


def stated_number(response: str, cut_off: bool = False) -> str | None:
    """Return the normal form of the stated number; None without one."""
    statement = final_statement(response, "####")
    stated = statement.answer or ""
    if statement.route not in ("boxed", "####"):
        if cut_off:
            return None
        if len(response) <= MAX_ANSWER and number_in(response) is not None:
            stated = response
    return normal_form(stated) if number_in(stated) is not None else None


def is_right(reference: str, given: str, tolerance: float) -> bool:
    """Whether a stated number is the reference, a decimal for it, or at most `tolerance` from it."""
    gold, value = number_in(reference), number_in(given)
    if gold is None or value is None:
        return False
    return is_decimal_of(gold, normal_form(reference), given) or abs(gold - value) <= Fraction(str(tolerance))


def last_match(pattern: str, response: str) -> str | None:
    """Return the first group of the pattern's last match, or the match if it has no group; None without a match.

    Some patterns need exponential time, and Python's `re` cannot be interrupted: the search is in a process of its own.
    Raises TimeoutError if it takes longer than 5 seconds, EOFError if its process was killed.
    """
    return limited(_searched, (pattern, response[-LOOK_AT:]), LIMIT_S)


def _searched(search: tuple[str, str]) -> str | None:
    last = deque(re.finditer(*search), maxlen=1)
    return (last[0][min(1, last[0].re.groups)] or "") if last else None
