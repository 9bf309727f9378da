r"""Read inequalities as intervals: `x<2\lor x\ge3` is `(-\infty,2)\cup[3,\infty)`, and `2<x\le5` is `(2,5]`."""

from __future__ import annotations

import re
from typing import NamedTuple

from .structure import is_interval, split, without_commands

_SIGN = re.compile(r"<|>|\\le(?![A-Za-z])|\\ge(?![A-Za-z])")
_INEQUALITY = re.compile(r"<|>|\\le(?![A-Za-z])|\\ge(?![A-Za-z])|\\ne(?![A-Za-z])")
_NAME = re.compile(r"[A-Za-z](?:_\{[A-Za-z0-9]\})?|\\(?:alpha|beta|gamma|theta|lambda|mu|phi)")
_LETTER = re.compile(r"(?<![A-Za-z\\])(?![ie](?![A-Za-z]))[A-Za-z](?![A-Za-z])")
_CLOSED = (r"\le", r"\ge")
OR, AND = r"\lor", r"\land"


class Interval(NamedTuple):
    """An interval: its ends as they are written, and its brackets, which tell whether the ends belong to it."""

    opening: str
    left: str
    right: str
    closing: str

    @property
    def text(self) -> str:
        return f"{self.opening}{self.left},{self.right}{self.closing}"


class Union(NamedTuple):
    """Intervals that together are the values of a variable; `variable` is "" if none is named."""

    variable: str
    intervals: tuple[str, ...]


def has_inequality(text: str) -> bool:
    """Whether a normal form has a sign of inequality."""
    return _INEQUALITY.search(text) is not None


def as_union(text: str) -> Union | None:
    r"""Return the intervals that a normal form spells as inequalities, or as intervals joined by `\cup`; else None."""
    variable, intervals = "", []
    for alternative in (part for side in split(text, OR) for part in split(side, r"\cup")):
        union = _conditions(alternative) if has_inequality(alternative) else _written(alternative)
        if union is None or (variable and union.variable and union.variable != variable):
            return None
        variable = variable or union.variable
        intervals += union.intervals
    return Union(variable, tuple(intervals))


def _written(text: str) -> Union | None:
    return Union("", (text,)) if is_interval(text) else None


def _conditions(text: str) -> Union | None:
    r"""Read one condition, or two joined by `\land` that bound the variable from both sides."""
    parts = [_condition(part) for part in split(text, AND)]
    if len(parts) == 1:
        return parts[0]
    if len(parts) > 2 or parts[0] is None or parts[1] is None or parts[0].variable != parts[1].variable:
        return None
    if len(parts[0].intervals) != 1 or len(parts[1].intervals) != 1:
        return None
    below, above = sorted((_ends(part.intervals[0]) for part in parts if part), key=lambda ray: ray.right == r"\infty")
    if below.left != r"-\infty" or above.right != r"\infty" or r"\infty" in (below.right, above.left):
        return None
    return Union(parts[0].variable, (Interval(above.opening, above.left, below.right, below.closing).text,))


def _ends(interval: str) -> Interval:
    left, right = split(interval[1:-1], ",")
    return Interval(interval[0], left, right, interval[-1])


def _condition(text: str) -> Union | None:
    r"""Read `x<2`, `2\ge x`, `2<x\le5` or `x\ne3`: a variable alone on one side, and bounds without variables."""
    unequal = split(text, r"\ne")
    if len(unequal) == 2:
        variable, bound = unequal if _NAME.fullmatch(unequal[0]) else unequal[::-1]
        if not _is_variable(variable, [bound]):
            return None
        return Union(variable, (rf"(-\infty,{bound})", rf"({bound},\infty)"))
    sides, signs = _SIGN.split(text), _SIGN.findall(text)
    if any(sign in (">", r"\ge") for sign in signs):
        if any(sign in ("<", r"\le") for sign in signs):
            return None
        sides, signs = sides[::-1], signs[::-1]
    sides = [side.strip() for side in sides]
    closed = [sign in _CLOSED for sign in signs]
    if len(sides) == 2:
        lower = _NAME.fullmatch(sides[0]) is None  # 2<x
        ends = [sides[0], sides[1], r"\infty"] if lower else [r"-\infty", sides[0], sides[1]]
        closed = [closed[0], False] if lower else [False, closed[0]]
        sides = ends
    if len(sides) != 3 or not _is_variable(sides[1], [sides[0], sides[2]]):
        return None
    # The end at infinity is open, also in x\le\infty
    opening = "[" if closed[0] and "infty" not in sides[0] else "("
    closing = "]" if closed[1] and "infty" not in sides[2] else ")"
    return Union(sides[1], (Interval(opening, sides[0], sides[2], closing).text,))


def _is_variable(name: str, bounds: list[str]) -> bool:
    """Whether `name` is the name of a variable, and no bound is empty or has a variable or an inequality."""
    if _NAME.fullmatch(name) is None or not all(bounds):
        return False
    return not any(_LETTER.search(without_commands(bound)) or has_inequality(bound) for bound in bounds)
