r"""Compare answers by math-verify, apart from the process that grades: a hostile expression cannot hang or harm that.

Run as a program by `sandbox.forked.Checker`, which loads sympy and math-verify once, in two seconds. A check is a list
of claims, each one of these:

["equal", gold, answer]   two expressions are equal. Numbers are compared to 100 digits, a decimal answer also as it is
                          rounded; expressions with variables at points where both are real; sets, equations and
                          matrices by math-verify's own rules
["region", gold, answer]  inequalities or intervals, joined by \lor, \cup or \land, allow the same values
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ..sandbox.forked import serve
from .values import is_decimal_of

POINTS = ("5/7", "-3/5", "17/11", "-23/13", "37/29", "41/7")  # values of the first variable; others' are shifted
ENOUGH = 4  # of these points at which two expressions agree
DIGITS = 120


class Algebra:
    """Decides claims with sympy, on what math-verify parses."""

    def __init__(self) -> None:
        import math_verify
        import sympy.core.random
        from latex2sympy2_extended.latex2sympy2 import NormalizationConfig

        # The normal form has no units; math-verify's own list of units has `ab`, `c`, `t`, by which `2ab` would be 2.
        spelling = NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="last")
        config = math_verify.LatexExtractionConfig(boxed_match_priority=0, normalization_config=spelling)

        def parsed(text: str) -> Any:
            """Return the whole text as one expression; None: no number is picked out of a text that does not parse."""
            boxed = "\\boxed{" + text + "}"
            found = math_verify.parse(boxed, [config], "no_fallback", "first_match", parsing_timeout=None)
            return found[0] if found else None

        self.sympy, self.verify = sympy, math_verify.verify
        self.parsed = lru_cache(maxsize=1024)(parsed)

    def outcome(self, claims: list[Any]) -> str:
        """Return "equal" if all claims hold, else why the first one does not."""
        try:
            return next((outcome for outcome in map(self.holds, claims) if outcome != "equal"), "equal")
        except MemoryError:
            raise
        except Exception:  # sympy fails on many inputs
            return "unparsed"

    def holds(self, claim: list[str]) -> str:
        """Return "equal" if a claim holds, else "different", "unparsed" or "gold"."""
        self.sympy.core.random.seed(0)
        kind, gold, answer = claim
        same = self._same_region(gold, answer) if kind == "region" else None
        if same is None:
            left = self.parsed(gold)
            right = None if left is None else self.parsed(answer)
            if left is None or right is None:
                return "gold" if left is None else "unparsed"
            if isinstance(left, self.sympy.Expr) and isinstance(right, self.sympy.Expr):
                same = self._same_values(left, right, gold, answer)
            if same is None:
                same = self.verify(left, right, float_rounding=12, allow_set_relation_comp=True, timeout_seconds=None)
                same = same and not self._only_both_unsolvable(left, right)
        return "equal" if same else "different"

    def _same_values(self, left: Any, right: Any, gold: str, answer: str) -> bool | None:
        """Whether two expressions are equal as numbers, or wherever both are real at some points; None if unknown."""
        left, right = self._exact(left), self._exact(right)
        symbols = sorted(left.free_symbols | right.free_symbols, key=str)
        agreeing = 0
        for point in POINTS if symbols else POINTS[:1]:
            at = {symbol: self.sympy.Rational(point) + self.sympy.Rational(i, 3) for i, symbol in enumerate(symbols)}
            values = [self._value(expression.subs(at)) for expression in (left, right)]
            if not all(value.is_number and value.is_finite for value in values):
                continue
            scale = max(map(abs, values))
            close = bool(
                values[0] == values[1] or abs(values[0] - values[1]) < scale * self.sympy.Float(10) ** (12 - DIGITS)
            )
            if not symbols:
                decimals = zip(values, (left, right), (answer, gold), strict=True)  # for a root, as that of a fraction
                return close or any(
                    not exact.is_Rational and value.is_real and is_decimal_of(Fraction(str(value)), "", text)
                    for value, exact, text in decimals
                )
            if not close and all(value.is_real for value in values):
                return False
            agreeing += close
            if agreeing == ENOUGH:
                return True
        return None

    def _exact(self, expression: Any) -> Any:
        """Return an expression with each decimal as the fraction that it spells, and with i as the imaginary unit."""
        exact = {each: self.sympy.Rational(str(each)) for each in expression.atoms(self.sympy.Float)}
        return expression.xreplace(exact | {each: self.sympy.I for each in expression.free_symbols if str(each) == "i"})

    def _value(self, expression: Any) -> Any:
        """Return an expression's value to DIGITS digits; 0 if no digit of it is certain, since its terms cancel."""
        value = expression.evalf(DIGITS)
        return 0 * value if getattr(value, "_prec", DIGITS) == 1 else value

    def _same_region(self, gold: str, answer: str) -> bool | None:
        """Whether two regions hold the same numbers, and name no different variables; None if unread."""
        try:
            (left, names), (right, others) = self._region(gold), self._region(answer)
        except (ValueError, NotImplementedError, TypeError, AttributeError):
            return None
        return len(names | others) < 2 and bool((left - right).is_empty and (right - left).is_empty)

    def _region(self, text: str) -> tuple[Any, set[str]]:
        """Return a set of real numbers, and the names of the variables in its text. Raises ValueError if unread."""
        region, names = self.sympy.EmptySet, set[str]()
        for alternative in re.split(r"\\lor(?![A-Za-z])|\\cup(?![A-Za-z])", text):
            allowed = self.sympy.Reals
            for condition in re.split(r"\\land(?![A-Za-z])", alternative):
                read = self.parsed(condition)
                for part in getattr(read, "_unsorted_args", None) or [read]:
                    if isinstance(part, self.sympy.core.relational.Relational):
                        names |= {str(symbol) for symbol in part.free_symbols}
                        part = part.doit().as_set()
                    if not isinstance(part, self.sympy.Set):
                        raise ValueError(condition)
                    allowed = allowed & part.doit()
            region = region | allowed
        if len(names) > 1:
            raise ValueError(text)
        return region, names

    def _only_both_unsolvable(self, gold: Any, answer: Any) -> bool:
        """Whether two equations have no solution and are no multiples of each other: equal for math-verify."""
        equations = isinstance(gold, self.sympy.Eq) and isinstance(answer, self.sympy.Eq)
        if not equations or self.sympy.solve(gold, dict=True):
            return False
        ratio = self.sympy.simplify((gold.lhs - gold.rhs) / (answer.lhs - answer.rhs))
        return not (ratio.is_number and ratio.is_finite and ratio.is_nonzero)


_REHEARSED = [
    ["equal", "6-5i", r"\frac{2\cdot(6-5i)}{2}"],
    ["equal", r"-\frac{\sqrt{3}}{3}", r"\frac{2\cdot(-\frac{1}{\sqrt{3}})}{2}"],
    ["equal", "x^{5}+3x^{2}-1", r"\frac{2\cdot(x^{5}+3x^{2}-1)}{2}"],
    ["equal", r"1-\frac{\pi}{6}", r"\frac{2\cdot(1-\frac{\pi}{6})}{2}"],
    ["equal", "y=2x+3", "-2x+y-3=0"],
    ["equal", r"\cot x", r"\frac{1}{\tan x}"],
    ["equal", r"3\sqrt{13}", r"\log_{2}8\sqrt{13}"],
    ["region", "[-2,7]", r"-2\le x\le7"],
]


def main() -> None:
    """Check what is asked for on standard input."""

    def load() -> Callable[[Any], str]:
        algebra = Algebra()
        algebra.outcome(_REHEARSED)  # parsers and rules are built at their first use, which takes 60 to 200 ms
        return algebra.outcome

    logging.disable(logging.CRITICAL)
    serve(load)
