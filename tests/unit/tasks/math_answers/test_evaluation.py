"""Values at a fixed point: what has one, and what two of them decide."""

from __future__ import annotations

import re
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from harness_tasks.math_answers.evaluation import evaluated, same_value

AMBIGUOUS = [
    *("1/2x", r"2\frac{1}{3}", "f(x)", r"\sin x", "x!", "x'", "x^{2}^{3}", "x_1", "3 4", "1+", "(1", "1)", "x^2"),
    *(r"\sqrt[3", r"\foo", "", "(" * 60 + "1" + ")" * 60, "2^{201}", "2^{10^{3}}", "((10^{200})^{20})", "1/0"),
]


def test_what_can_be_read_in_two_ways_or_is_too_large_has_no_value():
    assert [text for text in AMBIGUOUS if evaluated(text) is not None or same_value(text, "1") is not None] == []


def test_brackets_powers_and_digits_are_read_up_to_their_limits():
    within = ["(" * 29 + "1" + ")" * 29, "2^{200}", "(10^{100})^{3}"]
    assert [evaluated(text).value for text in within] == [1, 2**200, 10**300]


SAME = [
    ("x+1", "x+2", False),
    ("-x^{2}", "x^{2}", False),
    ("x", "y", False),
    (r"\alpha", r"\beta", False),
    ("x_{1}", "x_{2}", False),
    (r"10^{20}+1-10^{20}", "2", False),
    (r"\frac{2\cdot(3+4)^{2}}{14}", "7", True),
    ("2^{-3}", "0.125", True),
    ("2(3)", "6", True),
    ("2^{3}4", "32", True),
    ("+2-5*3", "-13", True),
    (r"1/2*4\times3", "6", True),
    (r"6/3\cdot2(5)", "20", True),
    (".5+{1}", "1.5", True),
    ("4.5", "4.50001", None),
    ("4.5", "4.5001", False),
    ("0.333333+0", r"\frac{1}{3}", None),
    (r"\sqrt{2}", "1.41421", None),
    (r"\sqrt{2}", "1.4141", False),
    ("(x+1)^{2}", "x^{2}+2x+1", None),
    (r"\frac{1}{2}x", "0.5x", None),
    (r"2\ell", r"\ell+\ell", None),
    ("i^{2}", "-1", None),
    ("e^{i\\pi}", "-1", None),
    (r"\sqrt[3]{8}", "2", None),
    (r"\sqrt[3]{8}", "3", False),
    ("4^{1/2}", "2", None),
    (r"\frac{1}{1-1}", "1", None),
    (r"10^{20}\pi+1-10^{20}\pi", "2", None),
]


def test_a_value_decides_only_what_is_exact_or_clearly_different():
    assert [row for row in SAME if same_value(row[0], row[1]) is not row[2]] == []


@given(st.lists(st.sampled_from(["1", "23", "4.5", "+", "-", "*", "/", "(", ")"]), max_size=9).map("".join))
def test_exact_values_are_those_of_python(text):
    value = evaluated(text)
    try:
        expected = eval(
            re.sub(r"([0-9.]+)", r"Fraction('\1')", re.sub(r"(?<=[0-9)])(?=\()", "*", text)), {"Fraction": Fraction}
        )
    except (SyntaxError, ZeroDivisionError, TypeError, ValueError):
        return
    assert value is None or value.value == expected
