"""Judge results by evalplus' rules (evalplus 0.3.1, `eval/__init__.py`), on canonical texts.

evalplus compares inside the process that ran the program. There a result's own `__eq__` decides, and the expected value
can be read. Here the program's process returns canonical text (`harness_tasks.sandbox`), and this module compares by
the same rules; tests compare constants, formulas and verdicts with evalplus itself:
- Two values are equal as by Python's `==`. 15 functions have a rule of their own.
- A tolerance applies if the problem has one, and also from the first expected float on, for the rest of that run
  (atol is then 1e-6): results may also have the same outermost type and length and be near by `numpy.allclose` with
  rtol 1e-7.
- If a comparison raises, the result is wrong.

It differs on purpose in these points (more in docs/grading.md):
- numpy's numbers are compared in double precision, as by evalplus with numpy 1. numpy 2 rounds the expected number to
  the precision of the result.
- Within a tolerance, floats must have the shape of the expected ones. (`allclose` broadcasts, so [[]] is near [0.5].)
- HumanEval/32 can be passed. (evalplus 0.3.1 does not count its passed tests, so no program passes; later versions do.)
  It is judged by the polynomial of the input, even if the program changed that list.

It cannot follow evalplus in these points: an array equals nothing (evalplus accepts an array of one equal element);
numpy's dates, durations and long doubles and objects of classes that a program defines equal nothing either; two
Counters are compared as dicts.
"""

from __future__ import annotations

import math
import re
from cmath import isfinite
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ..sandbox import Malformed, encode, members, number, numbers, same

VERSION = "evalplus 0.3.1 rules, 3"
RTOL = 1e-7

_FLOAT = r"(?:f[-+.0-9a-z]++|nfloat64:f[-+.0-9a-z]++;)"
# The canonical text of a float, or of a list or tuple of floats only, with at least one.
_FLOATS = re.compile(rf"{_FLOAT}|[\[(]{_FLOAT}(?:,{_FLOAT})*+[\])]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
_UNLIKE_ITSELF = re.compile(r"[XM]|[nN]a[nN]")  # a match inside a string only makes the comparison slower

Rule = Callable[[str, str, Sequence[Any], float], bool]


class Oracle:
    """Judges the results of one run (base or plus) of a problem.

    dataset      "mbpp" or "humaneval"; with the function's name it decides by which rule results are compared
    entry_point  the function's name
    inputs       the positional arguments of each test
    expected     the canonical texts of the canonical solution's results, or digests (`h...`), which results must equal
    atol         the problem's absolute tolerance, 0 for most
    """

    def __init__(
        self, dataset: str, entry_point: str, inputs: Sequence[Sequence[Any]], expected: Sequence[str], atol: float
    ):
        self._rule = RULES.get((dataset, entry_point), _equal)
        self._inputs = inputs
        self._expected = expected
        self._atol = atol

    @cached_property
    def _tolerances(self) -> list[float]:
        """The tolerance of each test: from the first expected float on, 0 becomes 1e-6."""
        tolerances, atol = [], self._atol
        for text in self._expected:
            atol = 1e-6 if atol == 0 and _FLOATS.fullmatch(text) else atol
            tolerances.append(atol)
        return tolerances

    def passes(self, test: int, result: str) -> bool:
        """Whether a test's result is right; a result that makes the comparison raise is wrong, as by evalplus.

        test     the index of the test
        result   the result's canonical text
        """
        expected, atol = self._expected[test], self._tolerances[test]
        if result.startswith("E"):
            return False
        try:
            if self._rule(expected, result, self._inputs[test], atol):
                return True
            return atol != 0 and self._rule is not _is_root and _close(expected, result, atol)
        except (Malformed, ArithmeticError, AttributeError, TypeError, ValueError, MemoryError, RecursionError):
            return False


def compares_sets(dataset: str, entry_point: str) -> bool:
    """Whether evalplus compares the function's results as sets."""
    return RULES.get((dataset, entry_point)) is _same_members


def holds_floats(text: str) -> bool:
    """Whether a value, given as canonical text, contains a float or what may equal one within a tolerance."""
    return re.search(r"(?:^|[,:(\[{<])[fcnq]", _STRING.sub('""', text)) is not None


def _close(expected: str, result: str, atol: float) -> bool:
    """Whether the outermost types and the shapes are equal and all numbers are near."""
    # The type is a text's first letter, of a numpy number its dtype.
    kinds = {text.partition(":")[0] if text[:1] == "n" else text[:1].replace("F", "T") for text in (expected, result)}
    if len(kinds) > 1:
        return False
    expected_shape, expected_values = numbers(expected, len(expected))
    shape, values = numbers(result, len(expected_values))
    inexact = [float(value) if isinstance(value, int) else value for value in expected_values]
    return shape == expected_shape and all(
        value == near or (isfinite(near) and abs(value - near) <= atol + RTOL * abs(near))  # as `numpy.isclose`
        for value, near in zip(values, inexact, strict=True)
    )


# Rules: equality, and those that replace it


def _equal(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    if result == expected and not _UNLIKE_ITSELF.search(result):
        return True
    return not expected.startswith("h") and same(expected, result)


def _same_members(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    """Whether `set()` of both is the same; stops at the first item that is not expected."""
    expected_items = set(members(expected))
    missing, longest = set(expected_items), max(map(len, expected_items), default=0)
    try:
        for item in members(result, longest):
            if item not in expected_items:
                return False
            missing.discard(item)
    except Malformed:  # an item is longer than every expected one
        return False
    return not missing


def _not_none(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    """Whether both are None or neither is; a result that is a bool must say whether the expected one is not None."""
    is_expected = "F" if expected == "N" else "T"
    return is_expected == (result if result in ("T", "F") else "F" if result == "N" else "T")


def _is_root(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    return bool(abs(polynomial(inputs[0], number(result))) <= atol)  # type: ignore[arg-type]


def pyramid_surface(base: float, height: float) -> int:
    """Return the rounded surface of a square pyramid, whose height is that of its apex over the base (Mbpp/581)."""
    return round(base**2 + 2 * base * math.sqrt((base / 2) ** 2 + height**2))


def digit_distance(first: int, second: int) -> int:
    """Return the sum of the differences of the two numbers' digits, the shorter one padded by zeros (Mbpp/558)."""
    width = max(len(str(first)), len(str(second)))
    pairs = zip(str(first).zfill(width), str(second).zfill(width), strict=True)
    return sum(abs(int(a) - int(b)) for a, b in pairs)


def polynomial(coefficients: Sequence[float], x: float) -> float:
    """Return the value at x of a polynomial, the constant coefficient first (HumanEval/32)."""
    return sum(coefficient * math.pow(x, power) for power, coefficient in enumerate(coefficients))


SETS = (
    *("similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly"),
    *("larg_nnum", "intersection_array", "find_dissimilar", "Diff"),
)
NOT_NONE = ("check_str", "text_match_three", "text_starta_endb")
# The rule of each function that has one, by data set and function.
RULES: dict[tuple[str, str], Rule] = {
    **{("mbpp", name): _same_members for name in SETS},
    **{("mbpp", name): _not_none for name in NOT_NONE},
    ("mbpp", "are_equivalent"): lambda *anything: True,
    ("mbpp", "sum_div"): lambda *given: _equal(*given) or same("i0", given[1]),
    ("mbpp", "surface_Area"): lambda expected, result, inputs, atol: (
        _equal(expected, result, inputs, atol) or abs(number(result) - pyramid_surface(*inputs)) <= atol
    ),
    ("mbpp", "digit_distance_nums"): lambda expected, result, inputs, atol: (
        _equal(expected, result, inputs, atol) or same(encode(digit_distance(*inputs)), result)
    ),
    ("humaneval", "find_zero"): _is_root,
}
