"""Values of answers: what has one, and what two of them decide."""

import re
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from harness_tasks.math_answers.values import evaluated, same_value

UNREAD = [
    *("1/2x", r"2\frac{1}{3}x", "f(x)", r"\sin x", "x!", "x'", "x^{2}^{3}", "x_1", "3 4", "1+", "(1", "1)", "x^2"),
    *(r"\sqrt[3", r"\foo", "", "(" * 60 + "1" + ")" * 60, "2^{10^{6}}", "2^{10^{30}}", "9999!", "1/0", "(-1)!", "1.5!"),
]


def test_what_can_be_read_in_two_ways_or_is_too_large_has_no_value():
    assert [text for text in UNREAD if evaluated(text) is not None or same_value(text, "1") is not None] == []


SAME = [
    ("x+1", "x+2", False), ("-x^{2}", "x^{2}", False), ("x", "y", False), (r"\alpha", r"\beta", False),
    ("x_{1}", "x_{2}", False), (r"10^{20}+1-10^{20}", "2", False), (r"\frac{2\cdot(3+4)^{2}}{14}", "7", True),
    ("2^{-3}", "0.125", True), ("2(3)", "6", True), ("2^{3}4", "32", True), ("+2-5*3", "-13", True),
    (r"1/2*4\times3", "6", True), (r"6/3\cdot2(5)", "20", True), (".5+{1}", "1.5", True), ("4.5", "4.50001", False),
    (r"\sqrt{2}", "1.41421", None), (r"\sqrt{2}", "1.4141", False), ("(x+1)^{2}", "x^{2}+2x+1", None),
    ("(x+1)^{2}", "x^{2}+2x+2", False), (r"\frac{1}{2}x", "0.5x", None), (r"2\ell", r"\ell+\ell", None),
    ("i^{2}", "-1", None), (r"e^{i\pi}", "-1", None), (r"\sqrt[3]{8}", "2", None), (r"\sqrt[3]{8}", "3", False),
    (r"\frac{1}{1-1}", "1", None), (r"10^{20}\pi+1-10^{20}\pi", "2", None), (r"e^{-100}", "e^{-101}", False),
    ("2^{-30000}", "2^{-30001}", False), ("5!", "120", True),
]  # fmt: skip


def test_a_value_decides_only_what_is_exact_or_clearly_different():
    assert [(a, b, same_value(a, b)) for a, b, _ in SAME] == SAME


@given(st.lists(st.sampled_from(["1", "23", "4.5", "+", "-", "*", "/", "(", ")"]), max_size=9).map("".join))
def test_exact_values_are_those_of_python(text):
    value = evaluated(text)
    try:
        exact = re.sub(r"([0-9.]+)", r"Fraction('\1')", re.sub(r"(?<=[0-9)])(?=\()", "*", text))
        expected = eval(exact, {"Fraction": Fraction})
    except (SyntaxError, ZeroDivisionError, TypeError, ValueError):
        return
    assert value is None or value.value == expected
