"""Puzzles with worked solutions, made by exhaustive search: what the embedded models are trained on.

A puzzle is four numbers from 1 to 13 and a target. One worked solution of `4 5 6 10`:

    5 * 4 = 20, left 6 10 20
    10 - 6 = 4, left 4 20
    20 + 4 = 24
    Answer: 5 * 4 + 10 - 6

Sums and products name the larger number first, nothing is negative, and what is left is ascending.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

from harness_tasks.game24 import PROMPT, TARGET, puzzle_id, split_of

LARGEST_VALUE = 400  # the largest number that is one token
LARGEST_DENOMINATOR = 13
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
ATOM = 3

Value = int | Fraction
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Term:
    """A value on the table: the expression that made it, and how tightly that binds."""

    value: Value
    expression: str
    precedence: int = ATOM


@dataclass(frozen=True)
class Puzzle:
    """Numbers (ascending), a target, and distinct worked solutions."""

    numbers: Numbers
    target: int
    responses: tuple[str, ...]

    @property
    def prompt(self) -> str:
        """The task's own prompt; another target than 24 is named in its place."""
        prompt = PROMPT.format(numbers=", ".join(map(str, self.numbers)))
        return prompt.replace(f"make {TARGET}", f"make {self.target}")


def all_numbers() -> list[Numbers]:
    """The 1,820 multisets of four numbers from 1 to 13, in order."""
    return list(combinations_with_replacement(range(1, 14), 4))


def solve(numbers: Numbers, targets: Iterable[int]) -> dict[int, list[str]]:
    """All distinct worked solutions per target; those with fractions only where a target has no other. About 10 ms."""
    whole: defaultdict[int, dict[str, None]] = defaultdict(dict)  # dicts as ordered sets
    fractional: defaultdict[int, dict[str, None]] = defaultdict(dict)
    wanted = frozenset(targets)
    for steps, last, has_fraction in _search([Term(n, str(n)) for n in sorted(numbers)], [], False, wanted):
        found = fractional if has_fraction else whole
        found[int(last.value)]["\n".join([*steps, f"Answer: {last.expression}"])] = None
    return {target: list(whole.get(target) or fractional[target]) for target in sorted({*whole, *fractional})}


def training_puzzles(quadruples: Iterable[Numbers], largest_target: int, keep: int, seed: int) -> list[Puzzle]:
    """Every solvable (numbers, target up to `largest_target`), but for 24 only the numbers of the split "train".

    Puzzles for 24 keep all their solutions, others at most `keep`, drawn by (seed, numbers).
    """
    puzzles = []
    for numbers in quadruples:
        rng = random.Random(f"{seed} {puzzle_id(numbers)}")
        for target, responses in solve(numbers, range(1, largest_target + 1)).items():
            if target != TARGET and len(responses) > keep:
                responses = rng.sample(responses, keep)
            if target != TARGET or split_of(puzzle_id(numbers)) == "train":
                puzzles.append(Puzzle(numbers, target, tuple(responses)))
    return puzzles


def _search(
    terms: Sequence[Term], steps: list[str], has_fraction: bool, wanted: frozenset[int]
) -> Iterator[tuple[list[str], Term, bool]]:
    """Depth first over all pairs and operations: the steps' lines, the last term, and whether a fraction occurred."""
    for i, j in combinations(range(len(terms)), 2):
        rest = [term for k, term in enumerate(terms) if k not in (i, j)]
        for operator, left, right, value in _results(terms[i], terms[j]):
            fractional = has_fraction or isinstance(value, Fraction)
            if not rest:
                if not isinstance(value, Fraction) and value in wanted:
                    term = _combined(operator, left, right, value)
                    yield [*steps, f"{left.value} {operator} {right.value} = {value}"], term, fractional
                continue
            remaining = sorted([*rest, _combined(operator, left, right, value)], key=lambda term: term.value)
            shown = " ".join(str(term.value) for term in remaining)
            step = f"{left.value} {operator} {right.value} = {value}, left {shown}"
            yield from _search(remaining, [*steps, step], fractional, wanted)


def _results(a: Term, b: Term) -> Iterator[tuple[str, Term, Term, Value]]:
    """The results of one operation on two terms that stay within the limits, as (operator, left, right, value)."""
    small, large = (a, b) if a.value <= b.value else (b, a)
    operations: list[tuple[str, Term, Term, Value]] = [
        ("+", large, small, large.value + small.value),
        ("-", large, small, large.value - small.value),
        ("*", large, small, large.value * small.value),
    ]
    if small.value:
        operations.append(("/", large, small, Fraction(large.value) / small.value))
    if large.value:
        operations.append(("/", small, large, Fraction(small.value) / large.value))
    for operator, left, right, value in operations:
        if value <= LARGEST_VALUE and value.denominator <= LARGEST_DENOMINATOR:
            yield operator, left, right, int(value) if value.denominator == 1 else value


def _combined(operator: str, left: Term, right: Term, value: Value) -> Term:
    """The term of one operation, with brackets only where they are needed."""
    binds = PRECEDENCE[operator]
    bracket_right = right.precedence < binds or (right.precedence == binds and operator in "-/")
    expression = f"{_bracketed(left, left.precedence < binds)} {operator} {_bracketed(right, bracket_right)}"
    return Term(value, expression, binds)


def _bracketed(term: Term, needed: bool) -> str:
    return f"({term.expression})" if needed else term.expression
