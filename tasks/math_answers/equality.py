r"""Decide whether an answer equals the reference: by text, numbers and structure; algebra decides the rest.

`compare` decides, or returns claims ("these expressions are equal") that only math-verify can check, in a separate
process. These rules come before math-verify, because it has faults (measured with 0.9.0; its behaviour is in brackets):

* Bases: `2516` and `2516_8` differ (equal).
* Chains: every side of `1=2=3=4=5` must equal the reference, except names such as `x` or `f(x)` (the last side counts).
  The first side may say what the problem asks for: `a^2+b^2 = 25`.
* Brackets: `[a,b]`, `(a,b]` and `(a,b)` always differ (for intervals only). If the reference has round brackets, the
  answer may have none or braces, in the same order; if it has none or braces, the order is free.
* Lists: the answer must have as many elements as the reference. No element of `1 or 2 or 5` is the answer, as in
  math-verify.
* Plain numbers are compared exactly, see `exact_number`.
* Inequalities and unions of intervals are compared interval by interval (`x<2` or `x>3` is no union).
* Loose words in an expression make it unreadable (they are left out: `8 or more` is 8).
* Digits separated by a space, `1 2`, are no number, and `2(3)` is a product (both are sums: 3 and 5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from .evaluation import same_value
from .exact_number import exact_number, same_number
from .extraction import boxed_contents
from .intervals import AND, OR, as_union, has_inequality
from .normal_form import LABEL, normal_form
from .structure import Collection, collection, is_balanced, is_interval, split, without_commands

MAX_ELEMENTS = 24  # of a list or tuple: with more, only the texts are compared


class Pair(NamedTuple):
    """The claim that two expressions are equal."""

    gold: str
    answer: str


class Matching(NamedTuple):
    """The claim that the elements of two lists are equal in some order.

    rows   a square table: row i, column j holds the claims under which element i of the reference equals element j of
           the answer; None if they differ
    """

    rows: tuple[tuple[Claims | None, ...], ...]


Claims = tuple[Pair | Matching, ...]


class Comparison(NamedTuple):
    """The result of a comparison.

    equal    True or False; None if it is undecided: then they are equal if all `claims` hold
    method   what decided it, such as "equal text" or "number"
    reason   why they are not equal
    claims   what math-verify must check
    """

    equal: bool | None
    method: str
    reason: str = ""
    claims: Claims = ()


def _same(method: str) -> Comparison:
    return Comparison(True, method)


def _differ(method: str, reason: str = "different") -> Comparison:
    return Comparison(False, method, reason)


def compare(gold: str, answer: str) -> Comparison:
    """Return how an answer, in normal form, compares with a reference, as the data give it.

    If the reference has several `readings`, the one that is best for the answer counts.
    """
    results = [_compare(reading, answer) for reading in readings(gold)]
    return max(results, key=lambda result: (result.equal is True, result.equal is None))


@lru_cache(maxsize=1 << 12)
def readings(gold: str) -> tuple[str, ...]:
    """Return the normal forms that a reference may have: `100,200` is a number or a list of two.

    A reference of several boxes (see `reference_in`) is the list of their contents.
    """
    boxes = boxed_contents(gold)
    if len(boxes) > 1:
        return (", ".join(map(normal_form, boxes)),)
    forms = [normal_form(gold)]
    if re.fullmatch(r"[1-9][0-9]{0,2}(,[0-9]{3})+", gold.strip()):
        forms.append(normal_form(gold.replace(",", ", ")))
    return tuple(forms)


def reference_in(solution: str, last: str) -> str:
    r"""Return the reference of a solution: `last`, the content of its last box, or several boxes if it ends in several.

    These are the boxes that are joined to one answer in a response (see `extraction`), `\boxed{1}, \boxed{2}`. Boxes
    that may be spellings of one value are one: of `\boxed{1\frac{1}{2}} or \boxed{\frac{3}{2}}` the reference is
    `\frac{3}{2}`.
    """
    answers: list[str] = []
    for box in reversed(boxed_contents(solution)):
        if all(compare(other, normal_form(box)).equal is False for other in answers):
            answers.append(box)
    return ", ".join(rf"\boxed{{{answer}}}" for answer in reversed(answers)) if len(answers) > 1 else last


def _compare(gold: str, answer: str) -> Comparison:
    """Compare two normal forms by the first method that applies to them."""
    if gold == answer:
        return _same("equal text")
    return (
        _by_number(gold, answer)
        or _by_base(gold, answer)
        or _by_words(gold, answer)
        or _by_brackets(answer)
        or _by_inequality(gold, answer)
        or _by_equation(gold, answer)
        or _by_elements(gold, answer)
        or _by_entries(gold, answer)
        or _by_union(gold, answer)
        or _by_algebra(gold, answer)
    )


def _by_number(gold: str, answer: str) -> Comparison | None:
    left, right = exact_number(gold), exact_number(answer)
    if left is None or right is None:
        return None
    return _same("number") if same_number(left, right) else _differ("number")


_BASED = re.compile(r"\(?(-?[0-9A-Fa-f.]+)\)?_\{([0-9]+|[a-z]+)\}")
_BASES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def _by_base(gold: str, answer: str) -> Comparison | None:
    """Compare numerals with a base: equal if digits and base are the same. Base ten need not be written."""
    if not (_BASED.fullmatch(gold) or _BASED.fullmatch(answer)):
        return None
    return _same("equal text") if _numeral(gold) == _numeral(answer) else _differ("base")


def _numeral(text: str) -> tuple[str, str]:
    """Return the digits of a numeral and its base."""
    match = _BASED.fullmatch(text)
    if match is None:
        return text.lstrip("0"), "10"
    base = str(_BASES.index(match[2])) if match[2] in _BASES else match[2]
    return match[1].lstrip("0").upper(), base


_WORDS = re.compile(
    r"(?:(?:an?|the) )?([a-z]{4,}(?:[ '-][a-z]+)*|[a-z]+(?:[ '-][a-z]+)+|yes|no|odd)", re.IGNORECASE | re.ASCII
)
_EMPTY = re.compile(
    r"\\emptyset|(?:(?:there (?:is|are)|(?:it )?has) )?no (?:(?:real|integer|such) )?(?:solutions?|roots?|values?)"
    r"(?: exists?)?|(?:the )?(?:empty|null) set|none",
    re.IGNORECASE,
)
_MISSING = re.compile(r"does not exist|d\.?n\.?e", re.IGNORECASE)
_CHOICE = re.compile(r"\(?([A-Z])(?:\)|[.:])(?:[A-Za-z0-9\\$-][^,]*)?")


def _by_words(gold: str, answer: str) -> Comparison | None:
    """Compare words, without case and article. If the reference is one letter, only the letter of `(C) 5` counts."""
    if re.fullmatch("[A-Z]", gold):
        choice = _CHOICE.fullmatch(answer)
        return None if choice is None else _same("equal text") if choice[1] == gold else _differ("equal text")
    for meaning in (_EMPTY, _MISSING):
        if meaning.fullmatch(gold) or meaning.fullmatch(answer):
            return _same("words") if meaning.fullmatch(gold) and meaning.fullmatch(answer) else _differ("words")
    left, right = _WORDS.fullmatch(gold), _WORDS.fullmatch(answer)
    if not (left and right):
        return None
    return _same("equal text") if left[1].casefold() == right[1].casefold() else _differ("equal text")


def _by_brackets(answer: str) -> Comparison | None:
    """Refuse brackets without a partner or nested too deeply, which no later method can read."""
    return None if is_balanced(answer) else _differ("text", "unparsed")


def _by_inequality(gold: str, answer: str) -> Comparison | None:
    """Compare inequalities of one variable with inequalities or intervals: interval by interval, in any order."""
    if not (has_inequality(gold) or has_inequality(answer)):
        return None
    left, right = as_union(gold), as_union(answer)
    if left and right and (left.variable == right.variable or not (left.variable and right.variable)):
        if max(len(left.intervals), len(right.intervals)) > MAX_ELEMENTS or len(left.intervals) != len(right.intervals):
            return _differ("intervals")
        return _in_any_order(left.intervals, right.intervals)
    if any(sign in text for sign in (OR, AND) for text in (gold, answer)):
        return _compare(_as_list(gold), _as_list(answer))
    return None


def _as_list(text: str) -> str:
    return normal_form(text.replace(OR, ", ").replace(AND, ", "))


def _by_equation(gold: str, answer: str) -> Comparison | None:
    """Compare an answer that has = with a reference that has none: all its sides but names must equal the reference."""
    sides = split(answer, "=")
    if len(sides) == 1 or len(split(gold, "=")) > 1 or len(split(answer, ",")) > 1:
        return None
    values = [side for side in sides if not _is_name(side)]
    if len(values) == len(sides) and _is_quantity(sides[0]):
        values = sides[1:]
    if not values or not all(values):
        return _differ("equation", "unparsed")
    return _all_of(_compare(gold, normal_form(side)) for side in values)


def _is_name(side: str) -> bool:
    return LABEL.fullmatch(side) is not None and side not in ("e", "i")


_LETTER = re.compile(r"(?<![A-Za-z])(?![ie](?![A-Za-z]))[A-Za-z]")
_MULTIPLE = re.compile(r"[-+]?(?:[0-9./]+|\\frac\{[0-9]+\}\{[0-9]+\})?\*?[A-Za-z](?:[-+/][0-9.]*)?")


def _is_quantity(side: str) -> bool:
    r"""Whether a side says what the problem asks for (`a^2+b^2`, `\sin A`, `|z|`); a multiple such as `4x` does not."""
    return _LETTER.search(without_commands(side)) is not None and not _MULTIPLE.fullmatch(side)


def _all_of(comparisons: Iterable[Comparison]) -> Comparison:
    """Return the comparison that holds if all of these hold."""
    parts = list(comparisons)
    for comparison in parts:
        if comparison.equal is False:
            return comparison
    claims = tuple(claim for comparison in parts for claim in comparison.claims)
    if claims:
        return Comparison(None, "math-verify", claims=claims)
    return _same("number" if any(comparison.method == "number" for comparison in parts) else "equal text")


# Lists, tuples, intervals, sets


def _by_elements(gold: str, answer: str) -> Comparison | None:
    """Compare lists, tuples, intervals and sets element by element."""
    left, right = collection(gold), collection(answer)
    if left is None and right is None:
        return None
    if left is None or right is None:
        return _single(gold, answer, left, right)
    if not _brackets_agree(left, right):
        return _differ("brackets")
    if len(left.elements) != len(right.elements):
        return _differ("elements", "several answers" if len(right.elements) > len(left.elements) else "different")
    if len(left.elements) > MAX_ELEMENTS:
        return _differ("equal text")
    if _has_labels(left) and not _has_labels(right):
        left = left._replace(opening="(", elements=tuple(map(normal_form, left.elements)))
    if left.opening in ("", r"\{"):
        return _in_any_order(left.elements, right.elements)
    return _all_of(_compare(a, normal_form(b)) for a, b in zip(left.elements, right.elements, strict=True))


def _has_labels(group: Collection) -> bool:
    """Whether the elements of a list have labels (`x=1,y=2`); without labels their order counts then."""
    return any("=" in element for element in group.elements)


def _single(gold: str, answer: str, left: Collection | None, right: Collection | None) -> Comparison | None:
    r"""Compare a list with a single value: `\{5\}` is 5, a longer list equals no number; algebra decides the rest."""
    if right is not None and (right.opening == "" or len(right.elements) == 1):
        agreed = _all_of(_compare(gold, normal_form(element)) for element in right.elements)
        several = agreed.equal is False and len(right.elements) > 1
        return _differ(agreed.method, "several answers") if several else agreed
    if left is not None and len(left.elements) == 1:
        return _compare(normal_form(left.elements[0]), answer)
    if left is not None and exact_number(answer):
        return _differ("elements")
    if right is not None and exact_number(gold):
        return _differ("elements", "several answers")
    return None


def _brackets_agree(gold: Collection, answer: Collection) -> bool:
    """Whether an answer's brackets fit the reference's; those of a reference with infinity are an interval's."""
    expected, given = gold.opening + gold.closing, answer.opening + answer.closing
    if given == expected:
        return True
    if expected == "()":
        return given in ("", r"\{\}") and not any("infty" in element for element in gold.elements)
    return (expected == "" and given in ("()", r"\{\}")) or (expected == r"\{\}" and given == "")


def _in_any_order(gold: Sequence[str], answer: Sequence[str]) -> Comparison:
    """Pair the elements that text and numbers show to be equal; claim that the rest match in some order.

    They differ if an element of the rest equals none of the other side.
    """
    labelled = any("=" in element for element in gold)
    unpaired, others = list(gold), [element if labelled else normal_form(element) for element in answer]
    for element in gold:
        partner = next((other for other in others if _compare(element, other).equal), None)
        if partner is not None:
            unpaired.remove(element)
            others.remove(partner)
    if not unpaired:
        return _same("number")
    rows = tuple(tuple(_needed(_compare(element, other)) for other in others) for element in unpaired)
    if any(all(cell is None for cell in row) for row in rows):
        return _differ("elements")
    return Comparison(None, "math-verify", claims=(Matching(rows),))


def _needed(comparison: Comparison) -> Claims | None:
    """Return the claims under which the two are equal; None if they are not."""
    return None if comparison.equal is False else comparison.claims


_MATRIX = re.compile(r"\\begin\{pmatrix\}(.*)\\end\{pmatrix\}", re.DOTALL)


def _by_entries(gold: str, answer: str) -> Comparison | None:
    """Compare matrices: their shapes, then entry by entry."""
    left, right = _MATRIX.fullmatch(gold), _MATRIX.fullmatch(answer)
    if not (left and right):
        return _differ("entries") if (left or right) and _either_is_number(gold, answer) else None
    left_rows, right_rows = _rows(left[1]), _rows(right[1])
    if [len(row) for row in left_rows] != [len(row) for row in right_rows]:
        return _differ("entries")
    entries = zip(_flat(left_rows), _flat(right_rows), strict=True)
    return _all_of(_compare(normal_form(a), normal_form(b)) for a, b in entries)


def _rows(inside: str) -> list[list[str]]:
    return [row.split("&") for row in inside.removesuffix("\\\\").split("\\\\")]


def _flat(rows: list[list[str]]) -> list[str]:
    return [entry for row in rows for entry in row]


def _either_is_number(gold: str, answer: str) -> bool:
    return exact_number(gold) is not None or exact_number(answer) is not None


def _by_union(gold: str, answer: str) -> Comparison | None:
    """Compare unions of as many intervals: interval by interval, in any order.

    Nothing else can be equal: a reference's intervals have gaps between them, so each equals one of the answer's.
    """
    left, right = split(gold, r"\cup"), split(answer, r"\cup")
    if len(left) == len(right) == 1:
        return None
    if _either_is_number(gold, answer):
        return _differ("elements")
    if len(left) != len(right) or len(left) > MAX_ELEMENTS or not all(map(is_interval, left + right)):
        return None
    return _in_any_order(left, right)


# The rest


_TIMES_BRACKET = re.compile(r"(?<=[0-9])\(")
_FUNCTION = r"(?:(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|log|sqrt|(?:ln|lg|exp|max|min|gcd|lcm|mod|det|pi)(?![A-Za-z]))"
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[a-z]*\}")
_IGNORED = ("'", r"\approx", r"\sim", r"\equiv")  # math-verify reads past them
_WORD = re.compile(rf"(?<![A-Za-z])(?!{_FUNCTION})[A-Za-z]{{3,}}")
_LOOSE = re.compile(rf"[0-9] [0-9]|(?<=[0-9}})]) (?!{_FUNCTION})[A-Za-z]{{2}}|[A-Za-z]{{2}} [A-Za-z]{{2}}|[0-9}})]_")


def _by_algebra(gold: str, answer: str) -> Comparison:
    """Compare by value at a fixed point; if that cannot decide, claim equality for math-verify to check."""
    ignored = any(mark in answer and mark not in gold for mark in _IGNORED) or (
        _has_word(answer) and not _has_word(gold)
    )
    if ignored or not answer or _LOOSE.search(answer) or not answer.isascii():
        return _differ("text", "unparsed")
    same = same_value(gold, answer)
    if same is not None:
        return _same("value") if same else _differ("value")
    return Comparison(None, "math-verify", claims=(Pair(_spelled_out(gold), _spelled_out(answer)),))


def _has_word(text: str) -> bool:
    """Whether a text has letters that may be a word; read as a product, `not0` would be 0."""
    return _WORD.search(without_commands(_ENVIRONMENT.sub(" ", text))) is not None


def _spelled_out(text: str) -> str:
    """Return the text with a sign in the product `2(3)`, which math-verify reads as the mixed number 2 + 3."""
    return _TIMES_BRACKET.sub(r"\\cdot(", text)
