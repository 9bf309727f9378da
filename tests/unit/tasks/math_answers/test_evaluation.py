"""Values at a fixed point: what has one, what two of them decide; and (`exact_number.py`) exact numbers."""

import re
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from harness_tasks.math_answers.evaluation import evaluated, same_value
from harness_tasks.math_answers.exact_number import exact_number, same_number

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


NUMBERS = {
    "12": Fraction(12),
    "-0.25": Fraction(-1, 4),
    "3.": Fraction(3),
    r"\frac{-3}{4}": Fraction(-3, 4),
    r"-1\frac{4}{5}": Fraction(-9, 5),
    "6/8": Fraction(3, 4),
    r"6.72\times10^{-5}": Fraction(672, 10**7),
    r"2\cdot10^{3}": Fraction(2000),
    r"1\times10^{400}": Fraction(10**400),
    r"-0.1\overline{36}": -Fraction(3, 22),
    r".\overline{3}": Fraction(1, 3),
    r"\frac{1}{0}": None,
    r"2\frac{3}{2}": None,
    r"2\frac{2}{2}": None,
    r"2\frac{0}{2}": None,
    "1e5": None,
    "1_000": None,
    "٣": None,
    r"10^{-999}": None,
    r"1\times10^{401}": None,
}


def test_only_plain_numbers_are_read_as_numbers():
    assert {text: (number := exact_number(text)) and number.value for text in NUMBERS} == NUMBERS


# a reference, an answer, and whether they are the same number
NUMBER_PAIRS = [
    (r"\frac{1}{3}", "0.333333", True),
    (r"\frac{1}{3}", "0.333334", True),
    (r"\frac{1}{3}", "0.333335", False),
    (r"\frac{1}{3}", "0.33333", False),
    (r"\frac{1}{3}", "0.3333333333333330372", True),  # a double
    (r"\frac{2}{3}", "0.666666", True),
    (r"\frac{200}{3}", "66.6667", True),
    (r"\frac{200}{3}", "66.667", False),
    (r"\frac{1}{3}", r"3.33333\times10^{-1}", True),
    (r"\frac{1}{3}", r"3.3333\times10^{-1}", False),
    ("0.333333", r"\frac{1}{3}", False),
    ("0.3333333", "0.333333", False),
    ("1", "0.999999", False),
    (r"\frac{4}{2}", "2.000001", False),
    (r"\frac{1}{2}", "0.5", True),
    (r"\frac{1}{2}", r"\frac{2}{4}", True),
    (r"\frac{1}{2}", r"\frac{1}{3}", False),
]


def test_a_decimal_is_a_fraction_from_six_significant_digits_on():
    falsely = [row for row in NUMBER_PAIRS if same_number(exact_number(row[0]), exact_number(row[1])) is not row[2]]
    assert falsely == []
