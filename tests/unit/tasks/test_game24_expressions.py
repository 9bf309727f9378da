"""The checker of game24 against exact evaluation of random expressions, plain and in LaTeX, and tampered with."""

import re
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Problem, correct
from harness_tasks.game24 import Game24, puzzle_id

TASK, FOURS_EIGHTS = Game24(), Problem("4-4-8-8", "4 4 8 8")
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
PLAIN = dict(zip("+-*/()", "+-*/()", strict=True))
LATEX = PLAIN | {"*": r"\times", "/": r"\div", "(": r"\left(", ")": r"\right)"}


def rendered(tree, signs=PLAIN, fractions=False, weakest=0):
    """The text of a tree, a number or (sign, left, right), in brackets where it binds less than `weakest`."""
    if isinstance(tree, int):
        return str(tree)
    sign, left, right = tree
    if sign == "/" and fractions:
        return rf"\frac{{{rendered(left, signs, True)}}}{{{rendered(right, signs, True)}}}"
    strength = PRECEDENCE[sign]
    sides = rendered(left, signs, fractions, strength), rendered(right, signs, fractions, strength + 1)
    text = f" {signs[sign]} ".join(sides)
    return text if strength >= weakest else signs["("] + text + signs[")"]


def value_of(tree):
    """The exact value of a tree; None where it divides by zero."""
    if isinstance(tree, int):
        return Fraction(tree)
    sign, left, right = tree[0], value_of(tree[1]), value_of(tree[2])
    if left is None or right is None or (sign == "/" and right == 0):
        return None
    return left / right if sign == "/" else {"+": left + right, "-": left - right, "*": left * right}[sign]


def leaves_of(tree):
    return [tree] if isinstance(tree, int) else leaves_of(tree[1]) + leaves_of(tree[2])


def puzzle_of(tree):
    numbers = sorted(leaves_of(tree))
    return Problem(puzzle_id(numbers), " ".join(map(str, numbers)))


def joined(left, right):
    return st.tuples(st.sampled_from("+-*/"), left, right)


NUMBER = st.integers(1, 13)
TWO = joined(NUMBER, NUMBER)
THREE = joined(TWO, NUMBER) | joined(NUMBER, TWO)
RANDOM_TREES = joined(THREE, NUMBER) | joined(NUMBER, THREE) | joined(TWO, TWO)
SOLVED = [
    ("/", 8, ("-", 3, ("/", 8, 3))),
    ("*", 7, ("+", 3, ("/", 3, 7))),
    ("/", 6, ("-", 1, ("/", 3, 4))),
    ("+", ("*", ("-", 10, 6), 5), 4),
    ("+", ("+", 1, 1), ("+", 11, 11)),
    ("/", 12, ("-", 3, ("/", 5, 2))),
]


@settings(max_examples=200)
@given(tree=RANDOM_TREES | st.sampled_from(SOLVED), signs=st.sampled_from([PLAIN, LATEX]), fractions=st.booleans())
def test_any_expression_gets_the_verdict_of_exact_evaluation(tree, signs, fractions):
    problem, expected = puzzle_of(tree), {Fraction(24): "", None: "division by zero"}.get(value_of(tree), "value")
    for wrapping in ("{}", "Answer: {} = 24", r"\boxed{{{}}}"):
        response = wrapping.format(rendered(tree, signs, fractions))
        assert TASK.verify(problem, response).reason == expected
        assert TASK.verify(problem, response).status == ("wrong" if expected else "correct")
        assert TASK.answer(problem, response) == rendered(tree)


@settings(max_examples=80)
@given(
    tree=st.sampled_from(SOLVED),
    place=st.integers(0, 40),
    cut=st.integers(0, 2),
    put=st.text("0123456789+-*/()=.! \n", max_size=2),
)
def test_a_tampered_answer_is_correct_only_where_it_still_makes_24(tree, place, cut, put):
    text = rendered(tree)
    text = text[:place] + put + text[place + cut :]
    if TASK.verify(puzzle_of(tree), text) == correct():
        line = [line for line in text.split("\n") if re.search("[0-9]", line)][-1]
        expression = re.sub(r"^ *\*\*|\*\*[ .]*$", "", line).partition("=")[0].rstrip(" .")
        assert re.fullmatch(r"[0-9+\-*/() ]+", expression)
        assert sorted(map(int, re.findall("[0-9]+", expression))) == sorted(leaves_of(tree))
        assert eval(re.sub("([0-9]+)", r"Fraction(\1)", expression)) == 24


PIECES = [*"0468+-*/()[]{}=.x \n$", r"\boxed{", r"\frac{", "}{", "Answer:", "4+4+8+8", "= 24", "ſ", "é", "\ud800"]


@settings(max_examples=80)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_text_gets_a_verdict_and_its_answer_reads_as_itself(text):
    assert TASK.verify(FOURS_EIGHTS, text).status in {"correct", "wrong"}
    answer = TASK.answer(FOURS_EIGHTS, text)
    if answer is not None and not answer.endswith(" = "):
        assert TASK.answer(FOURS_EIGHTS, answer) == answer
        assert TASK.verify(FOURS_EIGHTS, answer) == TASK.verify(FOURS_EIGHTS, text)
