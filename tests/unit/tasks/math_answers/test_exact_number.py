"""Exact numbers: what is read as one, and which of them are the same."""

from __future__ import annotations

from fractions import Fraction

from harness_tasks.math_answers.exact_number import exact_number, same_number

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
SAME = [
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
    falsely = [row for row in SAME if same_number(exact_number(row[0]), exact_number(row[1])) is not row[2]]
    assert falsely == []
