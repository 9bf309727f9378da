"""The checker of game24 against exact evaluation of random expressions, in any style, tampered with, and in chains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import islice, permutations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Problem, correct
from harness_tasks.data.hands import puzzle_id
from harness_tasks.game24 import Game24

TASK = Game24()


def puzzle(*numbers: int) -> Problem:
    return Problem(puzzle_id(numbers), " ".join(map(str, sorted(numbers))))


FOURS_EIGHTS = puzzle(4, 4, 8, 8)
Tree = int | tuple[str, Any, Any]
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}


@dataclass(frozen=True)
class Style:
    signs: dict[str, str] = field(default_factory=lambda: dict(zip("+-*/", "+-*/", strict=True)))
    brackets: str = "()"
    space: str = " "
    every_bracket: bool = False
    fractions: bool = False


def rendered(tree: Tree, style: Style) -> str:
    if isinstance(tree, int):
        return str(tree)
    sign, left, right = tree
    if sign == "/" and style.fractions:
        return rf"\frac{{{rendered(left, style)}}}{{{rendered(right, style)}}}"
    sides = [inside(left, style, PRECEDENCE[sign]), inside(right, style, PRECEDENCE[sign] + 1)]
    return f"{style.space}{style.signs[sign]}{style.space}".join(sides)


def inside(tree: Tree, style: Style, weakest: int) -> str:
    text = rendered(tree, style)
    if isinstance(tree, int) or (PRECEDENCE[tree[0]] >= weakest and not style.every_bracket):
        return text
    middle = len(style.brackets) // 2
    return style.brackets[:middle] + text + style.brackets[middle:]


def value_of(tree: Tree) -> Fraction | None:
    if isinstance(tree, int):
        return Fraction(tree)
    left, right = value_of(tree[1]), value_of(tree[2])
    if left is None or right is None or (tree[0] == "/" and right == 0):
        return None
    values = {"+": left + right, "-": left - right, "*": left * right}
    return values[tree[0]] if tree[0] in values else left / right


def trees(leaves: tuple[int, ...], signs: tuple[str, ...]) -> Iterator[Tree]:
    """Every shape over the leaves in their order; `signs` are used from the left."""
    if len(leaves) == 1:
        yield leaves[0]
    for cut in range(1, len(leaves)):
        for left in trees(leaves[:cut], signs[: cut - 1]):
            for right in trees(leaves[cut:], signs[cut:]):
                yield signs[cut - 1], left, right


@cache
def solutions(hand: tuple[int, ...]) -> tuple[Tree, ...]:
    every = (
        tree
        for leaves in sorted(set(permutations(hand)))
        for signs in product("/-*+", repeat=3)
        for tree in trees(leaves, signs)
    )
    return tuple(islice((tree for tree in every if value_of(tree) == 24), 8))


SOLVED = [
    (3, 3, 8, 8),
    (3, 3, 7, 7),
    (1, 3, 4, 6),
    (4, 5, 6, 10),
    (1, 1, 11, 11),
    (2, 3, 5, 12),
    (5, 5, 5, 1),
    (4, 4, 8, 8),
]
STYLES = st.builds(
    Style,
    signs=st.fixed_dictionaries(
        {
            "+": st.just("+"),
            "-": st.sampled_from("-−–"),
            "*": st.sampled_from(["*", "×", "·", "x", r"\times ", r"\cdot "]),
            "/": st.sampled_from(["/", "÷", r"\div "]),
        }
    ),
    brackets=st.sampled_from(["()", "[]", "{}", r"\left(\right)", r"\left[\right]"]),
    space=st.sampled_from(["", " ", "  "]),
    every_bracket=st.booleans(),
    fractions=st.booleans(),
)
WRAPPINGS = [
    "{}",
    "Answer: {}",
    "Answer: {} = 24",
    "**Answer:** {} = 24.",
    "Answer: 24 = {}",
    "some steps\nAnswer:\n{}\n\nDone.",
    r"\boxed{{{}}}",
    r"Answer: $\boxed{{{} = 24}}$",
    r"So \[ \boxed{{{}}} \].",
]
RANDOM_TREES = st.builds(
    lambda leaves, signs, shape: list(trees(tuple(leaves), tuple(signs)))[shape],
    st.lists(st.integers(1, 13), min_size=4, max_size=4),
    st.lists(st.sampled_from("+-*/"), min_size=3, max_size=3),
    st.integers(0, 4),
)
SOLVED_TREES = st.sampled_from(SOLVED).flatmap(lambda hand: st.sampled_from(solutions(tuple(sorted(hand)))))


def leaves_of(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else leaves_of(tree[1]) + leaves_of(tree[2])


@settings(max_examples=200)
@given(tree=RANDOM_TREES | SOLVED_TREES, style=STYLES, wrapping=st.sampled_from(WRAPPINGS))
def test_any_expression_in_any_style_gets_the_verdict_of_exact_evaluation(
    tree: Tree, style: Style, wrapping: str
) -> None:
    problem = puzzle(*leaves_of(tree))
    response = wrapping.format(rendered(tree, style))
    expected = {Fraction(24): "", None: "division by zero"}.get(value_of(tree), "value")
    assert TASK.verify(problem, response).reason == expected
    assert TASK.verify(problem, response).status == ("wrong" if expected else "correct")
    assert TASK.answer(problem, response) == rendered(tree, Style())


@settings(max_examples=120)
@given(
    tree=SOLVED_TREES,
    place=st.integers(0, 40),
    cut=st.integers(0, 2),
    put=st.text("0123456789+-*/()=.! \n", max_size=2),
)
def test_a_tampered_answer_is_correct_only_where_it_still_makes_24(tree: Tree, place: int, cut: int, put: str) -> None:
    text = rendered(tree, Style())
    text = text[:place] + put + text[place + cut :]
    if TASK.verify(puzzle(*leaves_of(tree)), text) == correct():
        line = [line for line in text.split("\n") if re.search("[0-9]", line)][-1]
        expression = re.sub(r"^ *\*\*|\*\*[ .]*$", "", line).partition("=")[0].rstrip(" .")
        assert re.fullmatch(r"[0-9+\-*/() ]+", expression)
        assert sorted(map(int, re.findall("[0-9]+", expression))) == sorted(leaves_of(tree))
        assert eval(re.sub("([0-9]+)", r"Fraction(\1)", expression)) == 24


PIECES = st.sampled_from(
    [*"0468+-*/()[]{}=.x \n$", r"\boxed{", r"\frac{", "}{", "Answer:", "4+4+8+8", "= 24", "ſ", "é", "\ud800"]
)


@settings(max_examples=120)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_gets_a_verdict_and_its_answer_reads_as_itself(text: str) -> None:
    assert TASK.verify(FOURS_EIGHTS, text).status in {"correct", "wrong"}
    answer = TASK.answer(FOURS_EIGHTS, text)
    if answer is not None and not answer.endswith(" = "):
        assert TASK.answer(FOURS_EIGHTS, answer) == answer
        assert TASK.verify(FOURS_EIGHTS, answer) == TASK.verify(FOURS_EIGHTS, text)


def steps(tree: Tree) -> Iterator[Tree]:
    """A tree, then again and again with its first operation on two whole numbers done, while the result is whole."""
    yield tree
    if not isinstance(tree, int):
        shorter = one_step(tree)
        if shorter is not None:
            yield from steps(shorter)


def one_step(tree: Tree) -> Tree | None:
    if isinstance(tree, int):
        return None
    sign, left, right = tree
    if isinstance(left, int) and isinstance(right, int):
        value = value_of(tree)
        return int(value) if value is not None and value.denominator == 1 and value >= 0 else None
    done = one_step(left)
    if done is not None:
        return sign, done, right
    done = one_step(right)
    return None if done is None else (sign, left, done)


@settings(max_examples=120)
@given(tree=SOLVED_TREES, style=STYLES, wrapping=st.sampled_from(WRAPPINGS), data=st.data())
def test_a_chain_of_true_steps_is_correct_and_one_false_step_makes_it_wrong(
    tree: Tree, style: Style, wrapping: str, data: st.DataObject
) -> None:
    problem = puzzle(*leaves_of(tree))
    sides = [rendered(step, style) for step in steps(tree)]
    equals = data.draw(st.sampled_from([" = ", "=", " => ", " → ", r" \Rightarrow ", "\n= "]))
    assert TASK.verify(problem, wrapping.format(equals.join(sides))) == correct()
    place = data.draw(st.integers(1, len(sides)))
    false = data.draw(st.sampled_from(["25", "20 + 3", "24 / 0", "(24", "4 4"]))
    tampered = [*sides[:place], false, *sides[place:]]
    assert TASK.verify(problem, wrapping.format(equals.join(tampered))).status == "wrong"
