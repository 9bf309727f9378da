r"""Decide whether an answer equals the reference: by text, numbers and structure; algebra decides the rest.

`compare` decides, or returns claims that only math-verify can check, in a separate process (`checker`). These rules
come before math-verify, because it has faults (measured with 0.9.0; its behaviour is in brackets):

* Rational numbers of any size are compared exactly (rounded to six places).
* Bases: `2516` and `2516_8` differ (equal).
* Chains: every side of `1=2=3=4=5` must equal the reference, except names such as `x` or `f(x)` (the last side counts).
  The first side may say what the problem asks for: `a^2+b^2 = 25`.
* Brackets: `[a,b]`, `(a,b]` and `(a,b)` always differ (for intervals only). If the reference has round brackets, the
  answer may have none or braces, in the same order; if it has none or braces, the order is free.
* Lists need as many elements as the reference has; elements of a set count once. `5,5` and `1 or 2 or 5` are not 5.
* Loose words make an expression unreadable (they are left out: `8 or more` is 8).
* Digits separated by a space, `1 2`, are no number, and `2(3)` is a product (both are sums: 3 and 5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from .extraction import boxed_contents
from .normal_form import LABEL, collection, has_inequality, is_balanced, normal_form, split, without_commands
from .values import exact_number, same_value

MAX_ELEMENTS = 24  # of a list or tuple: with more, only the texts are compared


class Comparison(NamedTuple):
    """Whether an answer is right, the method that decided it, such as "number", and the reason if it is wrong.

    Where `equal` is None it is undecided: the answer is right if all `claims` hold, which math-verify checks (see
    `checker`).
    """

    equal: bool | None
    method: str
    reason: str = ""
    claims: tuple[Any, ...] = ()


def _same(method: str, is_same: bool = True) -> Comparison:
    return Comparison(True, method) if is_same else _differ(method)


def _differ(method: str, reason: str = "different") -> Comparison:
    return Comparison(False, method, reason)


def _claimed(*claims: Any) -> Comparison:
    return Comparison(None, "math-verify", claims=claims)


def compare(gold: str, answer: str) -> Comparison:
    """Return how an answer, in normal form, compares with the best of its `readings` of a reference."""
    results = [_compare(reading, answer) for reading in readings(gold)]
    return max(results, key=lambda result: (result.equal is True, result.equal is None))


@lru_cache(maxsize=1 << 12)
def readings(gold: str) -> tuple[str, ...]:
    """Return the normal forms that a reference may have: `100,200` is a number or a list of two.

    A reference of several boxes (MATH has five) is the list of their contents.
    """
    boxes = boxed_contents(gold)
    if len(boxes) > 1:
        return (", ".join(map(normal_form, boxes)),)
    is_number = re.fullmatch(r"[1-9][0-9]{0,2}(,[0-9]{3})+", gold.strip())
    return (normal_form(gold), *([normal_form(gold.replace(",", ", "))] if is_number else []))


def _compare(gold: str, answer: str) -> Comparison:
    """Compare two normal forms by the first rule that applies to them."""
    if gold == answer:
        return _same("equal text")
    if not is_balanced(answer):
        return _differ("text", "unparsed")
    return next(result for rule in _RULES if (result := rule(gold, answer)) is not None)


def _by_number(gold: str, answer: str) -> Comparison | None:
    are_numbers = exact_number(gold) is not None and exact_number(answer) is not None
    return _same("number", bool(same_value(gold, answer))) if are_numbers else None


_BASED = re.compile(r"\(?(-?[0-9A-Fa-f.]+)\)?_\{([0-9]+|[a-z]+)\}")
_BASES = {"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9"}


def _by_base(gold: str, answer: str) -> Comparison | None:
    """Compare numerals with a base: equal if digits and base are the same. Base ten need not be written."""
    matches = [(text, _BASED.fullmatch(text)) for text in (gold, answer)]
    if not any(match for _, match in matches):
        return None
    left, right = (
        (match[1].lstrip("0").upper(), _BASES.get(match[2], match[2])) if match else (text.lstrip("0"), "10")
        for text, match in matches
    )
    return _same("equal text") if left == right else _differ("base")


_WORDS = re.compile(r"(?:(?:an?|the) )?([^\W\d_]{4,}(?:[ '-][^\W\d_]+)*|[^\W\d_]+(?:[ '-][^\W\d_]+)+|yes|no|odd)", re.I)
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
        return None if choice is None else _same("equal text", choice[1] == gold)
    for meaning in (_EMPTY, _MISSING):
        fits = [meaning.fullmatch(text) is not None for text in (gold, answer)]
        if any(fits):
            return _same("words", all(fits))
    left, right = _WORDS.fullmatch(gold), _WORDS.fullmatch(answer)
    return _same("equal text", left[1].casefold() == right[1].casefold()) if left and right else None


def _by_region(gold: str, answer: str) -> Comparison | None:
    r"""Compare inequalities, and intervals joined by `\cup`, as sets of numbers."""
    joined = any(has_inequality(text) or len(split(text, r"\cup")) > 1 for text in (gold, answer))
    if not joined or any(len(split(text, ",")) > 1 for text in (gold, answer)):
        return None
    is_number = exact_number(gold) is not None or exact_number(answer) is not None
    return _differ("elements") if is_number else _claimed(("region", gold, answer))


_LETTER = re.compile(r"(?<![A-Za-z])(?![ie](?![A-Za-z]))[A-Za-z]")
_MULTIPLE = re.compile(r"[-+]?(?:[0-9./]+|\\frac\{[0-9]+\}\{[0-9]+\})?\*?[A-Za-z](?:[-+/][0-9.]*)?")


def _by_equation(gold: str, answer: str) -> Comparison | None:
    r"""Compare an answer that has = with a reference that has none: all its sides but names must equal the reference.

    The first side may say what the problem asks for: `a^2+b^2`, `\sin A`, `|z|`, but not `4x`, nor `x-y` of a curve.
    A value without variables is no equation.
    """
    sides = split(answer, "=")
    letters = _LETTER.findall(without_commands(sides[0]))
    if len(sides) == 1 and "=" in gold and not collection(answer) and not letters:
        return _differ("equation")
    if len(sides) == 1 or len(split(gold, "=")) > 1 or len(split(answer, ",")) > 1:
        return None
    values = [side for side in sides if not (LABEL.fullmatch(side) and side not in ("e", "i"))]
    if len(values) == len(sides) and letters and not {"x", "y"} & {*letters} and not _MULTIPLE.fullmatch(sides[0]):
        values = sides[1:]
    if not values or not all(values):
        return _differ("equation", "unparsed")
    return _all_of(_compare(gold, normal_form(side)) for side in values)


def _all_of(comparisons: Iterable[Comparison]) -> Comparison:
    """Return the comparison that holds if all of these hold."""
    parts = list(comparisons)
    if failed := next((comparison for comparison in parts if comparison.equal is False), None):
        return failed
    if claims := [claim for comparison in parts for claim in comparison.claims]:
        return _claimed(*claims)
    return _same("number" if any(comparison.method == "number" for comparison in parts) else "equal text")


def _by_elements(gold: str, answer: str) -> Comparison | None:
    r"""Compare lists, tuples, intervals and sets element by element; `\{5\}` and two spellings of 5 are a single 5."""
    left, right = collection(gold), collection(answer)
    if left is None and right is None:
        return None
    if left is None or right is None:
        if right and len(right.elements) == 1:
            return _compare(gold, normal_form(right.elements[0]))
        if left and len(left.elements) == 1:
            return _compare(normal_form(left.elements[0]), answer)
        spellings = [*map(normal_form, right.elements)] if right and not right.brackets else []
        if spellings and len({*spellings}) == len(spellings):  # 1/2, 0.5; but not 5, 5
            agreed = _all_of(_compare(gold, each) for each in spellings)
            if agreed.equal is not False:
                return agreed
        if r"\begin" in gold + answer:  # a vector may be a tuple
            return None
        return _differ("elements", "several answers" if left is None else "different")
    as_good = {"()": ("", r"\{\}"), "": ("()", r"\{\}"), r"\{\}": ("",)}.get(left.brackets, ())
    is_interval = left.brackets == "()" and any("infty" in element for element in left.elements)
    if left.brackets != right.brackets and (right.brackets not in as_good or is_interval):
        return _differ("brackets")
    if r"\{\}" in (left.brackets, right.brackets):
        left, right = (each._replace(elements=tuple(dict.fromkeys(each.elements))) for each in (left, right))
    if len(left.elements) != len(right.elements):
        return _differ("elements", "several answers" if len(right.elements) > len(left.elements) else "different")
    if len(left.elements) > MAX_ELEMENTS:
        return _differ("equal text")
    golds, answers = list(left.elements), list(right.elements)
    is_ordered = left.brackets not in ("", r"\{\}")
    labelled, labels_given = (any("=" in element for element in elements) for elements in (golds, answers))
    if labelled and not labels_given:  # without labels the order counts
        golds, is_ordered = [*map(normal_form, golds)], True
    elif not labelled and all(re.match("[a-z]=", element) for element in answers):  # (2,3), y=3,x=2
        answers.sort()
    if is_ordered or not labelled:
        answers = [*map(normal_form, answers)]
    return _all_of(map(_compare, golds, answers)) if is_ordered else _in_any_order(golds, answers)


def _in_any_order(unpaired: list[str], others: list[str]) -> Comparison:
    """Pair the elements that text and numbers show to be equal, then each other one with the first that may be."""
    undecided = []
    for wanted in (True, None):
        for element in list(unpaired):
            compared = ((other, _compare(element, other)) for other in others)
            partner = next((pair for pair in compared if pair[1].equal is wanted), None)
            if partner is not None:
                unpaired.remove(element)
                others.remove(partner[0])
                undecided += [partner[1]] if wanted is None else []
    if unpaired:
        return _differ("elements")
    return _all_of(undecided) if undecided else _same("number")


_MATRIX = re.compile(r"\\begin\{pmatrix\}(.*)\\end\{pmatrix\}", re.DOTALL)


def _by_entries(gold: str, answer: str) -> Comparison | None:
    """Compare matrices: their shapes, then entry by entry."""
    left, right = _MATRIX.fullmatch(gold), _MATRIX.fullmatch(answer)
    if not (left and right):
        one_is_scalar = (r"\begin" in gold) != (r"\begin" in answer) and not collection(gold) and not collection(answer)
        return _differ("entries") if one_is_scalar else None
    tables = [[row.split("&") for row in inside[1].removesuffix(r"\\").split(r"\\")] for inside in (left, right)]
    if [*map(len, tables[0])] != [*map(len, tables[1])]:
        return _differ("entries")
    entries = (map(normal_form, chain.from_iterable(rows)) for rows in tables)
    return _all_of(map(_compare, *entries))


_FUNCTION = r"(?:(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|log|sqrt|(?:ln|lg|exp|max|min|gcd|lcm|mod|det|pi)(?![A-Za-z]))"
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[a-z]*\}")
_IGNORED = ("'", r"\approx", r"\sim", r"\equiv")  # math-verify reads past them, and takes a ratio for a quotient
_WORD = re.compile(rf"(?<![A-Za-z])(?!{_FUNCTION})[A-Za-z]{{3,}}")
_LOOSE = re.compile(rf"[0-9] [0-9]|(?<=[0-9}})]) (?!{_FUNCTION})[A-Za-z]{{2}}|[A-Za-z]{{2}} [A-Za-z]{{2}}|[0-9}})]_")


def _by_algebra(gold: str, answer: str) -> Comparison:
    """Compare by value; if that cannot decide, claim equality for math-verify to check."""
    ignored = any(mark in answer and mark not in gold for mark in _IGNORED) or (":" in answer) != (":" in gold)
    has_word = [_WORD.search(without_commands(_ENVIRONMENT.sub(" ", text))) is not None for text in (gold, answer)]
    ignored |= has_word == [False, True]  # read as a product, `not0` would be 0
    if ignored or not answer or _LOOSE.search(answer) or not answer.isascii():
        return _differ("text", "unparsed")
    same = same_value(gold, answer)
    if same is not None:
        return _same("value", same)
    return _claimed(
        ("equal", *(re.sub(r"(?<=[0-9])\(", r"\\cdot(", text) for text in (gold, answer)))
    )  # 2(3) is no sum


_RULES: tuple[Callable[[str, str], Comparison | None], ...] = (
    *(_by_number, _by_base, _by_words, _by_region, _by_equation, _by_elements, _by_entries, _by_algebra),
)
