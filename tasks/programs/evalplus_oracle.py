"""evalplus' rules for when a program's result is right, on canonical texts: evalplus 0.3.1, `eval/__init__.py`.

evalplus compares inside the process that ran the program, where a result's own `__eq__` decides, and where the
expected value can be read. Here the program's process gives canonical text (`harness_tasks.sandbox`) and this file
compares, by the same rules: equality as of Python's `==`; a rule of its own for 15 functions; where the task has a
tolerance, or from the first float expected on (atol becomes 1e-6 then, for the rest of that run), equal outermost types
and lengths and what `numpy.allclose` says with rtol 1e-7; whatever raises is wrong. Constants and formulas are
evalplus' own.

Where it differs, on purpose (docs/grading.md says more): a number of numpy's is compared in double precision, as by
evalplus beside numpy 1, while numpy 2 rounds the expected number to the precision of the result; where floats may
differ by a tolerance they must have the expected ones' shape (`allclose` makes [[]] near [0.5] by broadcasting);
HumanEval/32 can be passed (0.3.1 forgets to count its passed tests, so that nothing ever is; later versions do count)
and is judged by the polynomial that was asked for, even where the program has changed the list. Where it cannot follow:
an array is equal to nothing (evalplus accepts one of one element that is equal), nor are numpy's dates, durations and
long doubles, an object of a program's own class never is, and two Counters are compared as dicts.
"""

from __future__ import annotations

import re
from cmath import isfinite
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ..sandbox import Malformed, encode, members, number, numbers, same

VERSION = "evalplus 0.3.1 rules, 2"
RTOL = 1e-7

_FLOAT = r"(?:f[-+.0-9a-z]++|nfloat64:f[-+.0-9a-z]++;)"
_FLOATS = re.compile(rf"{_FLOAT}|[\[(]{_FLOAT}(?:,{_FLOAT})*+[\])]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
_UNLIKE_ITSELF = re.compile(r"[XM]|[nN]a[nN]")  # may be in a string: then the comparison only takes longer

Rule = Callable[[str, str, Sequence[Any], float], bool]


class Oracle:
    """Says of each test of one run (base or plus) of a problem whether a result is right.

    expected   the canonical texts of the canonical solution's results; `h...` where only a digest is known: then a
               result is right if its digest is equal
    inputs     the positional arguments of each test
    """

    def __init__(
        self, dataset: str, entry_point: str, inputs: Sequence[Sequence[Any]], expected: Sequence[str], atol: float
    ):
        self._rule = _rules().get((dataset, entry_point), _equal)
        self._inputs = inputs
        self._expected = expected
        self._atol = atol

    @cached_property
    def _tolerances(self) -> list[float]:
        """The tolerance of each test: once an expected value is a float, 0 is 1e-6 from there on."""
        tolerances, atol = [], self._atol
        for text in self._expected:
            atol = 1e-6 if atol == 0 and is_floats(text) else atol
            tolerances.append(atol)
        return tolerances

    def passes(self, test: int, result: str) -> bool:
        """Whether a test's result is right; whatever makes the comparison raise is wrong, as it is to evalplus."""
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
    return _rules().get((dataset, entry_point)) is _same_members


def is_floats(text: str) -> bool:
    """Whether a value is a float, or a list or tuple of floats only."""
    return _FLOATS.fullmatch(text) is not None


def holds_floats(text: str) -> bool:
    """Whether a float, or what may be equal to one within a tolerance, is anywhere in a value."""
    return re.search(r"(?:^|[,:(\[{<])[fcnqd]", _STRING.sub('""', text)) is not None


def _close(expected: str, result: str, atol: float) -> bool:
    """Equal types outermost, equal shapes, and all numbers near."""
    if _kind(result) != _kind(expected):
        return False
    shape, right = numbers(expected, len(expected))
    same_shape, values = numbers(result, len(right))
    near = (_is_near(*pair, atol) for pair in zip(values, map(_inexact, right), strict=True))
    return same_shape == shape and all(near)


def _kind(text: str) -> str:
    """The type of a value: of a number of numpy's its dtype."""
    first = text[:1]
    return text.partition(":")[0] if first == "n" else "T" if first == "F" else first


def _inexact(value: complex) -> complex:
    return float(value) if isinstance(value, int) else value


def _is_near(value: complex, right: complex, atol: float) -> bool:
    """numpy.isclose"""
    return value == right or (isfinite(right) and abs(value - right) <= atol + RTOL * abs(right))


# The rules in place of equality


def _equal(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    if result == expected and not _UNLIKE_ITSELF.search(result):
        return True
    return not expected.startswith("h") and same(expected, result)


def _same_members(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    """Whether `set()` makes the same of both; the first item that should not be there decides."""
    wanted = set(members(expected))
    missing, longest = set(wanted), max(map(len, wanted), default=0)
    try:
        for item in members(result, longest):
            if item not in wanted:
                return False
            missing.discard(item)
    except Malformed:  # an item that is longer than any of the expected
        return False
    return not missing


def _not_none(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    """Whether both are None or neither is; a bool must be the answer to that question."""
    wanted = "F" if expected == "N" else "T"
    return wanted == (result if result in ("T", "F") else "F" if result == "N" else "T")


def _anything(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    return True


def _equal_or_zero(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    return _equal(expected, result, inputs, atol) or same("i0", result)


def _is_surface(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    from evalplus.eval._special_oracle import _surface_Area

    return _equal(expected, result, inputs, atol) or bool(abs(number(result) - _surface_Area(*inputs)) <= atol)


def _is_distance(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    from evalplus.eval._special_oracle import _digit_distance_nums

    return _equal(expected, result, inputs, atol) or same(encode(_digit_distance_nums(*inputs)), result)


def _is_root(expected: str, result: str, inputs: Sequence[Any], atol: float) -> bool:
    from evalplus.eval._special_oracle import _poly

    return bool(abs(_poly(*inputs, number(result))) <= atol)


def _rules() -> dict[tuple[str, str], Rule]:
    """The rule of each function that has one, by data set and function."""
    from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS, MBPP_OUTPUT_SET_EQ_TASKS

    return {
        **{("mbpp", name): _same_members for name in MBPP_OUTPUT_SET_EQ_TASKS},
        **{("mbpp", name): _not_none for name in MBPP_OUTPUT_NOT_NONE_TASKS},
        ("mbpp", "are_equivalent"): _anything,
        ("mbpp", "sum_div"): _equal_or_zero,
        ("mbpp", "surface_Area"): _is_surface,
        ("mbpp", "digit_distance_nums"): _is_distance,
        ("humaneval", "find_zero"): _is_root,
    }
