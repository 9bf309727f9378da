r"""Whether an answer equals the reference: what text, numbers and structure can tell, and what is left to algebra.

`compare` decides, or hands over claims ("these expressions are equal") that only math-verify can judge, in a process
of its own. Our rules come before math-verify because it errs on the right (0.9.0, measured):

* bases: `2516` and `2516_8` differ (equal there);
* chains: of `1=2=3=4=5` every side must equal the reference, but for names such as `x` or `f(x)` (there the last
  side counts); `a^2+b^2 = 25` may begin with what is asked for;
* brackets: `[a,b]`, `(a,b]` and `(a,b)` differ, always (there for intervals only). A reference in round brackets may be
  answered bare or in braces, in its order; a bare list or a set in any order;
* lists: as many elements as the reference has; of `1 or 2 or 5` none is the answer (so there);
* plain numbers are compared exactly, see `exact_number`;
* inequalities and unions of intervals are compared interval by interval (`x<2` or `x>3` is no union there);
* words that stand loosely in an expression make it unreadable (left out there: `8 or more` is 8);
* digits parted by a space, `1 2`, are no number, and `2(3)` is a product (there sums: 3 and 5).
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
from .structure import Collection, collection, is_balanced, split

MAX_ELEMENTS = 24  # of a list or tuple: more are compared as text only


class Pair(NamedTuple):
    """Two expressions that are equal."""

    gold: str
    answer: str


class Matching(NamedTuple):
    """Elements that are equal in some order: row i, column j holds the claims that make the reference's element i equal
    to the answer's j; None where nothing does. As many rows as columns.
    """

    rows: tuple[tuple[Claims | None, ...], ...]


Claims = tuple[Pair | Matching, ...]


class Comparison(NamedTuple):
    """What is known: `equal` True or False, or None where all `claims` must hold; by which way; why not."""

    equal: bool | None
    way: str
    reason: str = ""
    claims: Claims = ()


def _same(way: str) -> Comparison:
    return Comparison(True, way)


def _differ(way: str, reason: str = "different") -> Comparison:
    return Comparison(False, way, reason)


def compare(gold: str, answer: str) -> Comparison:
    """Compare a reference as the data has it with an answer's normal form."""
    results = [_compare(reading, answer) for reading in readings(gold)]
    return max(results, key=lambda result: (result.equal is True, result.equal is None))


@lru_cache(maxsize=1 << 12)
def readings(gold: str) -> tuple[str, ...]:
    """The normal forms a reference may have: `100,200` is a number and, spaced, a list.

    A reference that is several boxes is their list (see `reference_in`).
    """
    boxes = boxed_contents(gold)
    if len(boxes) > 1:
        return (", ".join(map(normal_form, boxes)),)
    forms = [normal_form(gold)]
    if re.fullmatch(r"[1-9][0-9]{0,2}(,[0-9]{3})+", gold.strip()):
        forms.append(normal_form(gold.replace(",", ", ")))
    return tuple(forms)


def reference_in(solution: str, last: str) -> str:
    r"""The reference of a solution whose last box holds `last`: that, or `\boxed{1}, \boxed{2}` if it ends in several.

    Boxes that a grader joins in a response (see `extraction`) are several answers in a solution too, unless they may
    be spellings of one: `\boxed{1\frac{1}{2}} or \boxed{\frac{3}{2}}` has the reference `\frac{3}{2}`.
    """
    answers: list[str] = []
    for box in reversed(boxed_contents(solution)):
        if all(compare(other, normal_form(box)).equal is False for other in answers):
            answers.append(box)
    return ", ".join(rf"\boxed{{{answer}}}" for answer in reversed(answers)) if len(answers) > 1 else last


def _compare(gold: str, answer: str) -> Comparison:
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
    """Numerals with a base: the same digits in the same base, nothing else; base ten need not be named."""
    if not (_BASED.fullmatch(gold) or _BASED.fullmatch(answer)):
        return None
    return _same("equal text") if _numeral(gold) == _numeral(answer) else _differ("base")


def _numeral(text: str) -> tuple[str, str]:
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
    """Words alone, whatever their case and article; of `(C) 5` the letter counts where the reference is one."""
    if re.fullmatch("[A-Z]", gold):
        choice = _CHOICE.fullmatch(answer)
        return None if choice is None else _same("equal text") if choice[1] == gold else _differ("equal text")
    for meaning in (_EMPTY, _MISSING):
        if meaning.fullmatch(gold) or meaning.fullmatch(answer):
            return _same("words") if meaning.fullmatch(gold) and meaning.fullmatch(answer) else _differ("words")
    ours, theirs = _WORDS.fullmatch(gold), _WORDS.fullmatch(answer)
    if not (ours and theirs):
        return None
    return _same("equal text") if ours[1].casefold() == theirs[1].casefold() else _differ("equal text")


def _by_brackets(answer: str) -> Comparison | None:
    """Nothing that follows can read brackets without a partner, or too many within each other."""
    return None if is_balanced(answer) else _differ("text", "unparsed")


def _by_inequality(gold: str, answer: str) -> Comparison | None:
    """Inequalities of one variable against others or against intervals, interval by interval in any order."""
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
    """An answer with = for a reference without: all its sides but names must be equal to the reference."""
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


_COMMAND = re.compile(r"\\[A-Za-z]+")
_LETTER = re.compile(r"(?<![A-Za-z])(?![ie](?![A-Za-z]))[A-Za-z]")
_MULTIPLE = re.compile(r"[-+]?(?:[0-9./]+|\\frac\{[0-9]+\}\{[0-9]+\})?\*?[A-Za-z](?:[-+/][0-9.]*)?")


def _is_quantity(side: str) -> bool:
    r"""Whether a side says what was asked for (`a^2+b^2`, `\sin A`, `|z|`) and no value; `4x = 5` does not say 5."""
    return _LETTER.search(_COMMAND.sub(" ", side)) is not None and not _MULTIPLE.fullmatch(side)


def _all_of(comparisons: Iterable[Comparison]) -> Comparison:
    """All must hold."""
    done = list(comparisons)
    for comparison in done:
        if comparison.equal is False:
            return comparison
    claims = tuple(claim for comparison in done for claim in comparison.claims)
    if claims:
        return Comparison(None, "math-verify", claims=claims)
    return _same("number" if any(comparison.way == "number" for comparison in done) else "equal text")


# Lists, tuples, intervals, sets


def _by_elements(gold: str, answer: str) -> Comparison | None:
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
    """Whether a list says which value is whose (`x=1,y=2`): then order is free only among labels."""
    return any("=" in element for element in group.elements)


def _single(gold: str, answer: str, left: Collection | None, right: Collection | None) -> Comparison | None:
    r"""One value on a side: `\{5\}` is 5; a longer list is no value; algebra has the rest (`x<2`, a union)."""
    if right is not None and (right.opening == "" or len(right.elements) == 1):
        agreed = _all_of(_compare(gold, normal_form(element)) for element in right.elements)
        several = agreed.equal is False and len(right.elements) > 1
        return _differ(agreed.way, "several answers") if several else agreed
    if left is not None and len(left.elements) == 1:
        return _compare(normal_form(left.elements[0]), answer)
    if left is not None and exact_number(answer):
        return _differ("elements")
    if right is not None and exact_number(gold):
        return _differ("elements", "several answers")
    return None


def _brackets_agree(gold: Collection, answer: Collection) -> bool:
    theirs, ours = answer.opening + answer.closing, gold.opening + gold.closing
    if theirs == ours:
        return True
    if ours == "()":
        return theirs in ("", r"\{\}") and not any("infty" in element for element in gold.elements)
    return (ours == "" and theirs in ("()", r"\{\}")) or (ours == r"\{\}" and theirs == "")


def _in_any_order(gold: Sequence[str], answer: Sequence[str]) -> Comparison:
    """Match what text and numbers can match; claim the rest unless some element has no partner left."""
    labelled = any("=" in element for element in gold)
    ours, theirs = list(gold), [element if labelled else normal_form(element) for element in answer]
    for element in gold:
        partner = next((other for other in theirs if _compare(element, other).equal), None)
        if partner is not None:
            ours.remove(element)
            theirs.remove(partner)
    if not ours:
        return _same("number")
    rows = tuple(tuple(_needed(_compare(element, other)) for other in theirs) for element in ours)
    if any(all(cell is None for cell in row) for row in rows):
        return _differ("elements")
    return Comparison(None, "math-verify", claims=(Matching(rows),))


def _needed(comparison: Comparison) -> Claims | None:
    """What must hold for the two to be equal; None where they are not."""
    return None if comparison.equal is False else comparison.claims


_MATRIX = re.compile(r"\\begin\{pmatrix\}(.*)\\end\{pmatrix\}", re.DOTALL)


def _by_entries(gold: str, answer: str) -> Comparison | None:
    """Matrices: the same shape, and entry by entry."""
    ours, theirs = _MATRIX.fullmatch(gold), _MATRIX.fullmatch(answer)
    if not (ours and theirs):
        return _differ("entries") if (ours or theirs) and _either_is_number(gold, answer) else None
    left, right = _rows(ours[1]), _rows(theirs[1])
    if [len(row) for row in left] != [len(row) for row in right]:
        return _differ("entries")
    entries = zip(_flat(left), _flat(right), strict=True)
    return _all_of(_compare(normal_form(a), normal_form(b)) for a, b in entries)


def _rows(inside: str) -> list[list[str]]:
    return [row.split("&") for row in inside.removesuffix("\\\\").split("\\\\")]


def _flat(rows: list[list[str]]) -> list[str]:
    return [entry for row in rows for entry in row]


def _either_is_number(gold: str, answer: str) -> bool:
    return exact_number(gold) is not None or exact_number(answer) is not None


def _by_union(gold: str, answer: str) -> Comparison | None:
    """Unions of intervals, one by one in any order; with as many on both sides nothing else can be equal.

    (A reference's intervals have gaps between them, so each needs one of the answer's to itself.)
    """
    ours, theirs = split(gold, r"\cup"), split(answer, r"\cup")
    if len(ours) == len(theirs) == 1:
        return None
    if _either_is_number(gold, answer):
        return _differ("elements")
    if len(ours) != len(theirs) or len(ours) > MAX_ELEMENTS or not all(map(_is_interval, ours + theirs)):
        return None
    return _in_any_order(ours, theirs)


def _is_interval(text: str) -> bool:
    found = collection(text)
    return found is not None and found.opening in ("(", "[") and len(found.elements) == 2


# What is left


_TIMES_BRACKET = re.compile(r"(?<=[0-9])\(")
_FUNCTION = r"(?:(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|log|sqrt|(?:ln|lg|exp|max|min|gcd|lcm|mod|det|pi)(?![A-Za-z]))"
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[a-z]*\}")
_IGNORED = ("'", r"\approx", r"\sim", r"\equiv")  # math-verify reads past them
_WORD = re.compile(rf"(?<![A-Za-z])(?!{_FUNCTION})[A-Za-z]{{3,}}")
_LOOSE = re.compile(rf"[0-9] [0-9]|(?<=[0-9}})]) (?!{_FUNCTION})[A-Za-z]{{2}}|[A-Za-z]{{2}} [A-Za-z]{{2}}|[0-9}})]_")


def _by_algebra(gold: str, answer: str) -> Comparison:
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
    """Whether letters stand together that may be a word: as a product, `not0` would be 0."""
    return _WORD.search(_COMMAND.sub(" ", _ENVIRONMENT.sub(" ", text))) is not None


def _spelled_out(text: str) -> str:
    """With a sign for the product `2(3)`, which math-verify reads as the mixed number 2 + 3."""
    return _TIMES_BRACKET.sub(r"\\cdot(", text)
