"""Grading of math answers: extraction, normal form, equality, strict rules, and the processes behind math-verify."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_lines import read_json_lines
from support.paths import ROOT, SHARED
from support.processes import alive, printed_by, run_to_end, wait_until_ended

from harness import HarnessError, Problem, Verdict, correct
from harness_tasks.math_answers import MathTask, checker, workers
from harness_tasks.math_answers.checker_process import CheckerFailure, CheckerProcess, Gone
from harness_tasks.math_answers.equality import Matching, Pair, compare
from harness_tasks.math_answers.evaluation import evaluated, same_value
from harness_tasks.math_answers.exact_number import exact_number
from harness_tasks.math_answers.extraction import LOOK_AT, Extraction, final_statement
from harness_tasks.math_answers.normal_form import normal_form
from harness_tasks.math_answers.strict_rules import strict_verdict
from harness_tasks.math_answers.structure import is_balanced
from harness_tasks.math_answers.workers import shared_workers


@dataclass(frozen=True)
class Hashes(MathTask):
    """A task in GSM8K's style."""

    statements = "####"
    strict = "####"


TASK, HASHES = MathTask(), Hashes()
ALGEBRA = (r"\frac{\sqrt{3}}{3}", r"\boxed{\frac{1}{\sqrt{3}}}")  # equal, and neither text nor value can say so


def problem(gold: str) -> Problem:
    return Problem("p", "What is it?", gold)


def verdict(gold: str, answer: str) -> Verdict:
    return TASK.verify(problem(gold), rf"So it is $\boxed{{{answer}}}$.")


def accepts(gold: str, answer: str) -> bool:
    found = verdict(gold, answer)
    assert found.status != "error", found
    return found.status == "correct"


# Real data


@cache
def rows(name: str) -> list[dict[str, str]]:
    if not SHARED.is_dir():
        pytest.skip("needs shared/data beside the project")
    return read_json_lines(SHARED / "tasks" / name)


def math500() -> list[dict[str, str]]:
    return rows("math500.jsonl")


def golds() -> list[str]:
    return [row["answer"] for row in math500()]


def test_every_solution_of_math500_is_correct_for_its_own_answer() -> None:
    verdicts = [TASK.verify(problem(row["answer"]), row["solution"]) for row in math500()]
    assert [found for found in verdicts if found.status != "correct"] == []
    assert len(verdicts) == 500
    assert {found.route.partition(",")[0] for found in verdicts} == {"boxed"}


# Pairs of unequal strings that hold the same answer, looked at one by one.
EQUAL_PAIRS = {("5", "x=5"), ("x=5", "5"), ("5,-3", "-3,5")}


@pytest.mark.parametrize("offset", [1, 7, 61, 250])
def test_another_problems_solution_is_wrong(offset: int) -> None:
    own, others = math500(), math500()[offset:] + math500()[:offset]
    accepted = {
        (row["answer"], other["answer"])
        for row, other in zip(own, others, strict=True)
        if TASK.verify(problem(row["answer"]), other["solution"]).status == "correct"
    }
    assert {pair for pair in accepted if pair[0] != pair[1]} <= EQUAL_PAIRS


def test_every_solution_of_gsm8k_is_correct_by_its_hashes() -> None:
    found = []
    for row in rows("gsm8k_test.jsonl"):
        gold = row["answer"].partition("#### ")[2]
        found.append(HASHES.verify(problem(gold), row["answer"]))
        assert HASHES.audit(problem(gold), row["answer"]) == correct(route="gsm8k strict")
    assert len(found) == 1319
    assert set(found) == {correct(route="####, equal text")}


@pytest.mark.parametrize("name", ["aime24_qwq.jsonl", "aime25_qwq.jsonl"])
def test_aime_answers_are_numbers_with_or_without_leading_zeros(name: str) -> None:
    for row in rows(name):
        gold = str(row["answer"])
        for spelt in (f"{int(gold)}", f"{int(gold):03d}", f"{int(gold)}."):
            assert accepts(gold, spelt)
        assert not accepts(gold, str(int(gold) + 1))


def test_most_references_are_plain_integers_and_their_form_is_their_own() -> None:
    whole = [gold for gold in golds() if re.fullmatch("-?[0-9]+", gold)]
    assert len(whole) == 311
    assert all(normal_form(gold) == gold for gold in whole)


def test_every_reference_is_equal_to_itself_and_its_form_is_stable() -> None:
    for gold in golds():
        form = normal_form(gold)
        assert form
        assert normal_form(form) == form
        assert compare(gold, form).equal is True


# Formats: how many of MATH-500's answers each is made from, and whether it is still the answer


def value(gold: str) -> Fraction | None:
    number = exact_number(normal_form(gold))
    return number.value if number and not re.search(r"text|mbox|circ|\$|,|=|\\frac.*\\frac", gold) else None


def integers() -> list[str]:
    return [gold for gold in golds() if re.fullmatch("-?[0-9]+", gold)]


def fractions() -> list[str]:
    return [gold for gold in golds() if "frac" in gold and value(gold) is not None]


def pairs() -> list[str]:
    return [gold for gold in golds() if re.fullmatch(r"(\\left)?\(.*\)", gold) and "," in gold and "cup" not in gold]


def finite_pairs() -> list[str]:
    return [gold for gold in pairs() if "infty" not in gold]


def rebracketed(gold: str, opening: str, closing: str) -> str:
    inner = gold.removeprefix(r"\left").strip("()").removesuffix(r"\right")
    return f"{opening}{inner}{closing}"


FORMATS: dict[str, tuple[Callable[[], list[str]], Callable[[str], str], int]] = {
    "decimal zero": (integers, lambda gold: f"{gold}.0", 311),
    "text": (integers, lambda gold: rf"\text{{{gold}}}", 311),
    "units": (integers, lambda gold: rf"{gold}\text{{ cm}}", 311),
    "square units": (integers, lambda gold: rf"{gold}\text{{ cm}}^2", 311),
    "words": (integers, lambda gold: f"{gold} square units", 311),
    "degrees": (integers, lambda gold: rf"{gold}^\circ", 311),
    "dollars": (integers, lambda gold: rf"\${gold}", 311),
    "per cent": (integers, lambda gold: rf"{gold}\%", 311),
    "approximately": (integers, lambda gold: rf"\approx {gold}", 311),
    "thousands": (lambda: [gold for gold in integers() if abs(int(gold)) > 999], lambda gold: f"{int(gold):,}", 20),
    "as decimal": (fractions, lambda gold: repr(float(value(gold) or 0)), 58),
    "displaystyle": (
        lambda: [gold for gold in golds() if "frac" in gold],
        lambda gold: rf"\displaystyle {gold}",
        70,
    ),
    "dfrac": (lambda: [gold for gold in golds() if r"\frac" in gold], lambda gold: gold.replace("frac", "dfrac"), 68),
    "label": (lambda: [gold for gold in golds() if "=" not in gold], lambda gold: f"x = {gold}", 496),
    "set": (finite_pairs, lambda gold: rebracketed(gold, r"\{", r"\}"), 10),
    "no brackets": (finite_pairs, lambda gold: rebracketed(gold, "", ""), 10),
    "swapped list": (lambda: ["1,-2", "3, 5, 7", "-2,1"], lambda gold: ", ".join(reversed(gold.split(","))), 3),
}


@pytest.mark.parametrize("name", FORMATS)
def test_an_answer_in_another_format_is_correct(name: str) -> None:
    choose, spell, count = FORMATS[name]
    chosen = choose() if name != "swapped list" else [gold for gold in golds() if gold in choose()]
    assert len(chosen) == count
    assert [(gold, spell(gold)) for gold in chosen if not accepts(gold, spell(gold))] == []


def numbers() -> list[str]:
    return [gold for gold in golds() if value(gold)]


WRONG_FORMATS: dict[str, tuple[Callable[[], list[str]], Callable[[str], str], int]] = {
    "a hundred times": (numbers, lambda gold: str(float(100 * (value(gold) or 0))), 369),
    "a hundredth": (numbers, lambda gold: repr(float(value(gold) or 0) / 100), 369),
    "5e-5 off": (fractions, lambda gold: repr(float(value(gold) or 0) * (1 + 5e-5)), 58),
    "negated": (numbers, lambda gold: gold[1:] if gold.startswith("-") else f"-{gold}", 369),
    "square brackets": (pairs, lambda gold: rebracketed(gold, "[", "]"), 12),
    "half-open": (pairs, lambda gold: rebracketed(gold, "(", "]"), 12),
    "one more": (integers, lambda gold: f"{gold}, {int(gold) + 1}", 311),
}


@pytest.mark.parametrize("name", WRONG_FORMATS)
def test_what_is_not_the_answer_is_wrong_however_near(name: str) -> None:
    choose, spell, count = WRONG_FORMATS[name]
    assert len(choose()) == count
    assert [(gold, spell(gold)) for gold in choose() if accepts(gold, spell(gold))] == []


@pytest.mark.parametrize(
    "ending",
    ["The final answer is ${}$. I hope it is correct.", "Therefore, the final answer is {}.", "x = 7.\n\nAnswer: {}"],
)
def test_every_reference_is_found_without_a_box(ending: str) -> None:
    verdicts = [TASK.verify(problem(gold), "It is $x$.\n" + ending.replace("{}", gold)) for gold in golds()]
    assert [found for found in verdicts if found.status != "correct"] == []
    assert {found.route.partition(",")[0] for found in verdicts} == {"fallback"}


# Single cases: reference, answer


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("5", r"x \in \{5\}"),
        ("11.5", r"11\frac12"),
        ("25", "025."),
        ("70", "070"),
        ("900,000,000", "900000000"),
        ("10{,}000", "10,000"),
        ("3,250", "3250"),
        (r"11,\! 111,\! 100", "11111100"),
        ("1234", r"1\,234"),
        ("1234", "1 234"),
        ("100,200", "100, 200"),
        ("2516_8", "2516_{8}"),
        ("2516_8", r"(2516)_{\text{eight}}"),
        ("2516_8", r"2516\text{ (base 8)}"),
        ("31", "31_{10}"),
        ("50", r"50\%"),
        (r"50\%", "50"),
        (r"\frac13", r"0.\overline{3}"),
        (r"\frac13", "0.333333"),
        ("0.0000672", r"6.72 \times 10^{-5}"),
        ("12", r"\boxed{12}"),
        ("12", "m + n = 12"),
        ("12", r"\frac{AB}{CD} = 12"),
        ("5000000", r"5\text{ million}"),
        ("12", r"\frac{24}{2} = 12"),
        ("12", r"x = \frac{24}{2} = 12"),
        ("12", "12 = x"),
        ("12", r"\angle ABC = 12^\circ"),
        (r"\frac12", r"\sin 30^\circ = \frac{1}{2}"),
        (r"\sqrt{51}", r"\sqrt{51} \approx 7.14"),
        ("2x+1", "f(x) = 2x + 1"),
        ("y = 2x + 3", "2x + 3"),
        ("y = 2x + 3", "-2x + y = 3"),
        ("5x - 7y + 4 = 0", "-5x + 7y - 4 = 0"),
        ("(2,3)", "x = 2, y = 3"),
        ("(2,3)", "(x,y) = (2,3)"),
        ("1,-2", r"x = 1 \text{ or } x = -2"),
        ("1,-2", "-2 and 1"),
        ("1,2,3", r"\{3, 2, 1\}"),
        (r"1 \pm \sqrt{19}", r"1 - \sqrt{19}, 1 + \sqrt{19}"),
        (r"\{1\pm\sqrt{5},-2\}", r"-2, 1+\sqrt5, 1-\sqrt5"),
        ("(0,0), (1,1)", "(1,1), (0,0)"),
        (r"(-\infty,3) \cup (3,\infty)", r"(3,\infty) \cup (-\infty,3)"),
        (r"(-\infty,3) \cup (3,\infty)", r"x \ne 3"),
        (r"x \in [-2,7]", r"-2 \le x \le 7"),
        (r"x \in [-2,7]", "-2 <= x <= 7"),
        ("x<3", r"(-\infty, 3)"),
        (r"\begin{pmatrix} -1/3 \\ 2 \end{pmatrix}", r"\begin{bmatrix} -\frac13 \\ 2 \end{bmatrix}"),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix}1&\sqrt4\\3&4\\\end{pmatrix}"),
        (r"\text{(C)}", "C"),
        (r"\text{(C)}", r"\textbf{(C)}\ 17"),
        (r"\text{Evelyn}", "evelyn"),
        (r"\text{ellipse}", "An ellipse."),
        ("ab", "ba"),
        ("x = 1, y = 2", "y = 2, x = 1"),
        ("x = 1, y = 2", "1, 2"),
        ("(x+1,0), (1,1)", r"(1,1), (\frac{2x+2}{2},0)"),
        ("6-5i", "-5i + 6"),
        ("6", "2(3)"),
        ("x^2-1", "(x-1)(x+1)"),
        (r"\frac{3\pi}{4}", r"\frac34\pi"),
        (r"\pi", "π"),
        ("-3", "−3"),
        ("7", "7, 7"),
    ],
)
def test_the_same_answer_otherwise_is_correct(gold: str, answer: str) -> None:
    assert accepts(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("5", "1=2=3=4=5"),
        ("5", "5=6"),
        ("5", "4x = 5"),
        ("5", "x^2"),
        ("3", "4x = 12 = 3"),
        ("2516_8", "2516"),
        ("2516", "2516_8"),
        ("2516_8", "2516_6"),
        ("(x+1)^{100}", "(x+1)^{101}"),
        ("(1,2)", "(2,1)"),
        ("(1,2)", r"\{2,1\}"),
        (r"\{1,2\}", "(1,2)"),
        (r"\{1,2\}", "[1,2]"),
        (r"(-\infty,2)", r"(-\infty,2]"),
        (r"(2,\infty)", r"\{2,\infty\}"),
        (r"(-\infty,2) \cup (3,\infty)", r"(-\infty,2] \cup (3,\infty)"),
        ("1,-2", "1,2"),
        ("1,-2", "1"),
        ("1,-2", "1,-2,3"),
        ("5", "5 or 6"),
        ("5", r"\pm 5"),
        (r"\pm 5", "5"),
        ("12", "1,2"),
        ("12", "1 2"),
        ("56", "5$6"),
        ("5", r"5\text{ million}"),
        ("5", "5 factorial"),
        ("5", r"5\text{ dozen}"),
        ("3", "1 2"),
        ("5", "2(3)"),
        ("7,200", "200"),
        (r"\frac12", r"50\%"),
        (r"50\%", "0.5"),
        (r"\frac13", "0.33333"),
        ("1", "0.999999"),
        ("0", "0.0000001"),
        (".0000672", "0.000067"),
        (r"\sqrt2", "1.4142"),
        (r"\pi", "3.14"),
        ("2", "2k"),
        ("2", "2ab"),
        ("3", r"\log_{2}{8}c"),
        ("y=2x+3", "x=2y+3"),
        ("y=2x+3", "2x+4"),
        ("x^2=-1", "x^2=-2"),
        ("x<3", r"x \le 3"),
        ("3", "x > 3"),
        ("3", "3 < 4"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 2 \\ 1 \end{pmatrix}"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 \end{pmatrix}"),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 & 3 \\ 4 \end{pmatrix}"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", "12"),
        ("A", "A,B"),
        (r"\text{(C)}", "(C) or (D)"),
        (r"\text{Evelyn}", "Navin"),
        (r"\text{east}", "seat"),
        ("x = 1, y = 2", "x = 2, y = 1"),
        ("x = 1, y = 2", "2, 1"),
        ("(x,0), (y,1)", "[x,0], (y,1)"),
        ("(x,0), (y,1)", r"[\frac{2x}{2},0], (\frac{2y}{2},1)"),
        ("5", "five hundred"),
        ("5", r"\text{no solution}"),
        ("0", "NaN"),
        ("6-5i", "6+5i"),
    ],
)
def test_another_answer_is_wrong(gold: str, answer: str) -> None:
    assert not accepts(gold, answer)


def test_math_verify_has_the_last_word_on_algebra_only() -> None:
    assert verdict("5", "5").route == "boxed, equal text"
    assert verdict("5", "5.0").route == "boxed, equal text"
    assert verdict(r"\frac12", "0.5") == Verdict("correct", "", "boxed, number")
    assert verdict("5", "6") == Verdict("wrong", "different", "boxed, number")
    assert verdict("x+1", "x+2") == Verdict("wrong", "different", "boxed, value")
    assert verdict(r"\cot x", r"\frac{1}{\tan x}") == Verdict("correct", "", "boxed, math-verify")
    assert verdict(r"\cot x", r"\tan x") == Verdict("wrong", "different", "boxed, math-verify")
    assert verdict("5", "1, 5") == Verdict("wrong", "several answers", "boxed, number")
    assert verdict("5", r"\frac{5") == Verdict("wrong", "cut off", "boxed")
    assert verdict("5", r"(5") == Verdict("wrong", "unparsed", "boxed, text")
    assert verdict(r"\cot x", r"\frac") == Verdict("wrong", "unparsed", "boxed, math-verify")


def test_a_reference_that_does_not_parse_is_compared_as_text() -> None:
    assert verdict(r"\foo\frac", r"\foo \frac").route == "boxed, equal text"
    assert verdict(r"\foo\frac", r"\bar{x}") == Verdict(
        "wrong", "different", "boxed, text only, the reference does not parse"
    )


# Extraction


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\fbox{3}", "3"),
        (r"\boxed 5", "5"),
        (r"$\boxed -7$ it is", "-7"),
        (r"$\boxed \frac12$", r"\frac12"),
        (r"\boxed{\frac{1}{\sqrt{2}}}.", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{x \mid x > 1\right.}", r"\left\{x \mid x > 1\right."),
        (r"\boxed{\boxed{8}}", r"\boxed{8}"),
        (r"\boxed{x=\fbox{8}}", r"x=\fbox{8}"),
        (r"an open { and \boxed{9}", "9"),
        (r"a closed } and \boxed{9}", "9"),
        (r"\boxed{1}, \boxed{2}", "1, 2"),
        (r"$\boxed{1}$ and $\boxed{2}$", "1, 2"),
        (r"\boxed{1} \text{ or } \boxed{2}", "1, 2"),
        (r"\boxed{5} or \boxed{5}", "5"),
        (r"\boxed{1}. Then \boxed{2}", "2"),
        (r"\boxed{1} or rather, thinking about it again, \boxed{2}", "2"),
    ],
)
def test_the_last_box_is_the_answer(response: str, answer: str) -> None:
    assert final_statement(response) == Extraction(answer, "boxed")


def test_a_guess_list_in_boxes_is_wrong_and_a_list_in_boxes_right() -> None:
    guesses = " or ".join(rf"\boxed{{{guess}}}" for guess in range(1, 6))
    assert TASK.verify(problem("5"), guesses) == Verdict("wrong", "several answers", "boxed, number")
    assert TASK.verify(problem("1,2"), r"\boxed{2} and \boxed{1}").status == "correct"


def test_a_response_cut_off_inside_its_last_box_has_no_answer() -> None:
    assert final_statement(r"\boxed{3} so in all \boxed{4 + \frac{1}") == Extraction(None, "boxed", "cut off")
    assert TASK.verify(problem("3"), r"\boxed{3} so \boxed{4") == Verdict("wrong", "cut off", "boxed")


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("so we have\n#### 18", "18"),
        ("The answer is 5.", "5"),
        ("The final answer is $\\frac{1}{2}$. I hope it is correct.", r"\frac{1}{2}"),
        ("**Answer:** 5 apples", "5 apples"),
        ("Answer:\n\n12", "12"),
        (r"The answer is \(x+1\).", "x+1"),
        ("the answer is therefore 18 dollars", "18"),
        ("the answer is Evelyn.", "Evelyn"),
        ("The answer is\n$$\n12\n$$", "12"),
        ("The answer is 5.\n#### Step 2: check", "5"),
        ("The answer is 5.\n#### 2. Check it", "5"),
        ("The answer is 5, since $x = 3$.", "5"),
        ("The answer is 5 because 2 + 3 is", "5"),
        ("The answer is 3.5 metres. The answer is 4", "4"),
        ("The answer is $18.", "$18"),
        ("There are 12 or 1,234", "1,234"),
        ("so -7", "-7"),
        ("It is 3/4 of it", "3/4"),
    ],
)
def test_without_a_box_one_fallback_is_marked(response: str, answer: str) -> None:
    assert final_statement(response) == Extraction(answer, "fallback")


@pytest.mark.parametrize(
    ("response", "answer", "route"),
    [
        ("#### 18", "18", "####"),
        ("####18", "18", "####"),
        ("#### **18**", "18", "####"),
        ("#### $1,800.00", "$1,800.00", "####"),
        ("#### 18 eggs per day.", "18 eggs per day", "####"),
        (r"#### \boxed{18}", "18", "boxed"),
        (r"\boxed{17} no: #### 18", "18", "####"),
        (r"#### 17 no: \boxed{18}", "18", "boxed"),
        ("#### Now add\nthe answer is 18", "18", "fallback"),
        ("the answer is 18\n#### Step 2: check", "18", "fallback"),
    ],
)
def test_a_task_in_gsm8ks_style_takes_the_later_of_hashes_and_box(response: str, answer: str, route: str) -> None:
    assert final_statement(response, "####") == Extraction(answer, route)
    assert HASHES.verify(problem(answer), response).status == "correct"


def test_a_problem_that_a_base_model_invents_is_cut_off() -> None:
    invented = "The answer is 5.\n\nQuestion: How many?\nAnswer: 7\n\nProblem: What?\n\\boxed{9}"
    assert TASK.answer(problem("5"), invented) == "5"
    assert TASK.answer(problem("5"), "Problem restated.\nProblem: What is 2+3?\n\\boxed{5}") == "5"
    assert (
        TASK.answer(problem("5"), r"The answer is near $\boxed{1}$:" + "\nP: (1,2)\nQ: (3,4), so it is \\boxed{7}")
        == "7"
    )
    long = "#### 5\nQuestion 2: " + "How many? #### 7\n" * 5_000
    assert HASHES.answer(problem("5"), long) == "5"


def test_only_the_end_of_a_long_response_is_read() -> None:
    assert TASK.answer(problem("5"), r"\boxed{5}" + " so" * LOOK_AT) is None
    assert TASK.answer(problem("5"), "so " * LOOK_AT + r"\boxed{5}") == "5"


def test_an_answer_of_over_500_characters_is_too_long() -> None:
    assert TASK.verify(problem("5"), rf"\boxed{{{'1' * 501}}}") == Verdict("wrong", "too long", "boxed")
    assert TASK.answer(problem("5"), rf"\boxed{{{'1' * 500}}}") == "1" * 500


@pytest.mark.parametrize("response", ["", " ", "no idea", r"\boxed{}", r"\boxed{ }", r"\boxed{.}", "\x00", "\ud800"])
def test_a_response_without_an_answer_is_wrong(response: str) -> None:
    assert TASK.answer(problem("5"), response) is None
    assert TASK.verdict_key(problem("5"), response, None) is None
    found = TASK.verify(problem("5"), response)
    assert (found.status, found.reason) == ("wrong", "no answer")


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\ud800"])
def test_an_answer_that_no_file_could_hold_is_none(character: str) -> None:
    assert TASK.answer(problem("5"), rf"\boxed{{5{character}}}") is None
    assert TASK.answer(problem("5"), rf"{character}\boxed{{5}}") == "5"


FRAGMENTS = re.split(
    " ",
    r"\boxed{ \boxed \fbox{ { } \{ \} $ $$ \( \) \[ \] #### answer is Answer: or and , . ; \text{ \frac \frac12 \sqrt2 "
    r"\left( \right) ( ) [ ] ^ _ = + - * / 1 23 1,234 .5 x y \pi pi \pm \cup \in \infty \cdot \le < > \! \, \\ ^\circ "
    r"\% \$ \approx \begin{pmatrix} \end{pmatrix} & cm base Evelyn π √ ½ °",
)
texts = st.lists(st.sampled_from([*FRAGMENTS, " ", "\n", "\nQuestion:"]), max_size=14).map("".join)


@given(st.one_of(texts, st.text(max_size=40)))
def test_extraction_never_raises_and_gives_storable_text(text: str) -> None:
    for task in (TASK, HASHES):
        reading = task.read(text)
        assert reading.answer is None or reading.answer.encode()
        assert (reading.answer is None) == bool(reading.reason)


@settings(max_examples=400)
@given(st.one_of(texts, st.text(max_size=40)))
def test_the_normal_form_is_a_fixed_point_and_equal_to_its_text(text: str) -> None:
    form = normal_form(text)
    assert normal_form(form) == form
    assert compare(text, form).equal is True


@pytest.mark.parametrize(
    "unit",
    [
        r"\boxed{",
        r"\boxed{1} ",
        r"\boxed ",
        "#### ",
        "answer is $",
        "answer ",
        "\nProblem:",
        "\n",
        " ",
        "1,",
        "{",
        "}",
        "\\",
    ],
)
def test_extraction_time_grows_no_faster_than_the_text(unit: str) -> None:
    def fastest(count: int) -> float:
        text = unit * count
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            final_statement(text)
            final_statement(text, "####")
            seconds.append(time.perf_counter() - started)
        return min(seconds)

    assert fastest(200_000) < 12 * fastest(50_000) + 0.2


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (r"\left( 3, \dfrac\pi2 \right)", r"(3,\frac{\pi}{2})"),
        ("1,234", "1234"),
        ("1, 234", "1, 234"),
        ("(1,234)", "(1,234)"),
        (r"\{1,234\}", r"\{1,234\}"),
        ("(1{,}234, 5)", "(1234,5)"),
        (r"\sqrt{1,234}", r"\sqrt{1234}"),
        ("1,23", "1,23"),
        ("0,123", "0,123"),
        (r"1,\!234{,}567", "1234567"),
        ("$5$", "5"),
        ("5$6", "5 6"),
        ("**5**", "5"),
        ("-0.50", "-0.5"),
        ("-0", "0"),
        ("+007.", "7"),
        ("3/4", r"\frac{3}{4}"),
        ("6/8", r"\frac{6}{8}"),
        ("x = 5", "5"),
        ("y = 2x + 3", "y=2x+3"),
        (r"x \in [1,2]", "[1,2]"),
        (r"\text{Area} = 5 \text{ cm}^2", "5"),
        ("5 m/s", "5m/s"),
        (r"5\text{ m}/\text{s}^{2}", "5"),
        (r"30^{\circ}", "30"),
        (r"30^\circ\text{C}", "30"),
        (r"5\text{ million dollars}", r"5\times10^{6}"),
        (r"2\text{ feet }3\text{ inches}", "2 feet3"),
        (r"6 + 2\text{i}", "6+2i"),
        (r"\text{(C)}", "C"),
        (r"1 \text{ or } 2; 3", "1,2,3"),
        (r"\approx 3.1", "3.1"),
        (r"\pi \approx 3.1", r"\pi"),
        (r"2 \pi r", r"2\pi r"),
        ("x^10 + x^-1", "x^{10}+x^{-1}"),
        (r"\frac12 \frac1{72} \sqrt3", r"\frac{1}{2}\frac{1}{72}\sqrt{3}"),
        (r"\begin{bmatrix} 1 \\ 2 \end{bmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"\begin{vmatrix} 1 \end{vmatrix}", r"\begin{vmatrix}1\end{vmatrix}"),
        ("2 √3 × ½", r"2\sqrt{3}\times\frac{1}{2}"),
        ("", ""),
    ],
)
def test_the_normal_form_case_by_case(text: str, form: str) -> None:
    assert normal_form(text) == form


def test_the_normal_form_of_the_longest_answers_takes_milliseconds() -> None:
    rng = Random(0)
    pieces = [*FRAGMENTS, " ", "\n", r"\text{cm}", r"\text{cm} ", " apples", "1,234 ", "x=", "°", "$"]
    for _ in range(500):
        unit = "".join(rng.choices(pieces, k=rng.randint(1, 3)))
        text = (unit * 500)[:500]
        started = time.process_time()
        compare("1,2", normal_form(text))
        assert time.process_time() - started < 0.5, unit


def test_brackets_are_balanced_or_nothing_reads_them() -> None:
    assert is_balanced(r"(1,2] \{[x]\}")
    assert not any(map(is_balanced, ["(", ")", ")(", r"\{}", "{x]"]))
    assert is_balanced("(" * 30 + ")" * 30)
    assert not is_balanced("(" * 31 + ")" * 31)


# Numbers and values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", Fraction(12)),
        ("-0.25", Fraction(-1, 4)),
        (r"\frac{-3}{4}", Fraction(-3, 4)),
        (r"-1\frac{4}{5}", Fraction(-9, 5)),
        (r"6.72\times10^{-5}", Fraction(672, 10**7)),
        (r"-0.1\overline{36}", -Fraction(3, 22)),
        (r"\frac{1}{0}", None),
        (r"2\frac{3}{2}", None),
        ("1e5", None),
        ("1_000", None),
        ("٣", None),
        (r"10^{-999}", None),
        (r"1\times10^{999}", None),
    ],
)
def test_only_plain_numbers_are_read_as_numbers(text: str, expected: Fraction | None) -> None:
    number = exact_number(text)
    assert (number and number.value) == expected


@pytest.mark.parametrize("text", ["1/2x", r"2\frac{1}{3}", "f(x)", r"\sin x", "x!", "x'", "(" * 60 + "1" + ")" * 60])
def test_what_can_be_read_in_two_ways_has_no_value(text: str) -> None:
    assert evaluated(text) is None
    assert same_value(text, "1") is None


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        ("x+1", "x+2", False),
        ("-x^{2}", "x^{2}", False),
        (r"10^{20}+1-10^{20}", "2", False),
        (r"\frac{2\cdot(3+4)^{2}}{14}", "7", True),
        ("2^{-3}", "0.125", True),
        ("2(3)", "6", True),
        ("2^{3}4", "32", True),
        ("2^{10^{3}}", "2^{10^{3}}", None),
        ("((10^{200})^{200})^{200}", "1", None),
        ("0.333333+0", r"\frac{1}{3}", None),
        (r"\sqrt{2}", "1.41421", None),
        ("(x+1)^{2}", "x^{2}+2x+1", None),
        (r"\frac{1}{2}x", "0.5x", None),
        ("i^{2}", "-1", None),
        (r"\sqrt[3]{8}", "2", None),
        (r"\frac{1}{1-1}", "1", None),
        (r"10^{20}\pi+1-10^{20}\pi", "2", None),
    ],
)
def test_a_value_decides_only_what_is_exact_or_clearly_different(gold: str, answer: str, same: bool | None) -> None:
    assert same_value(gold, answer) is same


@given(st.lists(st.sampled_from(["1", "23", "4.5", "+", "-", "*", "/", "(", ")"]), max_size=9).map("".join))
def test_exact_values_are_those_of_python(text: str) -> None:
    found = evaluated(text)
    try:
        expected = eval(re.sub(r"([0-9.]+)", r"Fraction('\1')", re.sub(r"(?<=[0-9)])(?=\()", "*", text)))
    except (SyntaxError, ZeroDivisionError, TypeError, ValueError):
        return
    assert found is None or found.value == expected


# The strict rules: what RepExp's runs accepted (facts: a table of 500 answers in several formats)

STRICT: dict[str, tuple[str, int]] = {
    "decimal zero": ("decimal zero", 0),
    "text": ("text", 0),
    "thousands": ("thousands", 0),
    "displaystyle": ("displaystyle", 0),
    "approximately": ("approximately", 0),
    "as decimal": ("as decimal", 3),
    "units": ("units", 311),
    "degrees": ("degrees", 311),
    "dollars": ("dollars", 311),
    "per cent": ("per cent", 311),
    "label": ("label", 496),
}


@pytest.mark.parametrize("name", STRICT)
def test_the_strict_rule_accepts_what_hendrycks_accepts(name: str) -> None:
    choose, spell, _ = FORMATS[name]
    accepted = [TASK.audit(problem(gold), rf"\boxed{{{spell(gold)}}}") for gold in choose()]
    assert sum(found.status == "correct" for found in accepted) == STRICT[name][1]


def test_the_strict_rule_accepts_every_solution_and_no_fallback() -> None:
    assert all(TASK.audit(problem(row["answer"]), row["solution"]).status == "correct" for row in math500())
    found = TASK.audit(problem("5"), "The final answer is $5$.")
    assert found == Verdict("wrong", "no answer", "math_reward")


@pytest.mark.parametrize(
    ("gold", "response", "accepted"),
    [
        (r"\frac{1}{2}", r"\boxed{0.5}", True),
        (r"\frac{1}{2}", r"\boxed{1/2}", True),
        (r"\frac{1}{2}", r"\boxed{\frac12}", True),
        (r"\frac{1}{2}", r"\boxed{\dfrac 1 2}", True),
        (r"\frac{1}{72}", r"\boxed{\frac1{72}}", True),
        (r"\frac{72}{1}", r"\boxed{\frac{72}1}", False),
        (r"\frac{01}{2}", r"\boxed{01/2}", False),
        (r"\sqrt{3}", r"\boxed{\sqrt3}", True),
        ("0.3", r"\boxed{.3}", True),
        ("5", r"\boxed{k = 5}", True),
        ("5", r"\boxed{abc=5}", False),
        ("5", r"\boxed{5\text{ cm}}", True),
        ("5", r"\boxed{5\text{ cm}\text{ m}}", False),
        ("5", r"\boxed 5$ and", True),
        ("5", r"\boxed 5 and", False),
        ("5", r"\fbox{5}", False),
        ("5", r"\boxed{5", False),
        ("5", r"\boxed{4}\boxed{5}", True),
        (r"\sqrt", r"\boxed{\sqrt}", True),
        (r"\sqrt ", r"\boxed{\sqrt}", False),
        (r"\frac1", r"\boxed{\frac 1}", True),
    ],
)
def test_the_strict_rule_case_by_case(gold: str, response: str, accepted: bool) -> None:
    assert (strict_verdict("boxed", gold, response).status == "correct") is accepted


@pytest.mark.parametrize(
    ("response", "accepted"),
    [
        ("#### 18", True),
        ("#### 7\n#### 18", True),
        ("#### 18.", False),
        ("#### 18.00", False),
        ("#### $18", False),
        ("####18", False),
        ("#### **18**", False),
        (r"#### \boxed{18}", False),
        ("#### 18" + " " * 400, False),
        ("#### 18 eggs", True),
        ("#### 1,8", True),
        ("18", False),
    ],
)
def test_the_strict_rule_of_gsm8k_case_by_case(response: str, accepted: bool) -> None:
    assert (strict_verdict("####", "18", response).status == "correct") is accepted


# The task


def test_equal_keys_have_equal_verdicts_and_keys_tell_routes_apart() -> None:
    first, second, third = r"\boxed{5.0}", r"so \boxed{x = 5}", "The answer is 5"
    answers = TASK.answers(problem("5"), [first, second, third])
    assert answers == ["5", "5", "5"]
    keys = [TASK.verdict_key(problem("5"), text, "5") for text in (first, second, third)]
    assert keys == ["boxed:5", "boxed:5", "fallback:5"]
    verdicts = TASK.verify_all(problem("5"), [first, second, third])
    assert verdicts[0] == verdicts[1]
    assert verdicts[2].route == "fallback, equal text"


def test_a_batch_has_the_verdicts_of_its_responses() -> None:
    gold, equal = ALGEBRA
    responses = [equal, r"\boxed{7}", "", equal, r"\boxed{\frac{\sqrt{12}}{6}}", None, r"\boxed{\tan 30}"]
    verdicts = TASK.verify_all(problem(gold), responses)
    assert verdicts == [TASK.verify(problem(gold), response) for response in responses]
    assert [found.status == "correct" for found in verdicts] == [True, False, False, True, True, False, False]


def test_the_task_says_clearly_that_math_verify_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TASK.check() == ""
    monkeypatch.setattr("harness_tasks.math_answers.math_task.find_spec", lambda name: None)
    with pytest.raises(HarnessError, match="math answers need math-verify, which is not installed"):
        TASK.check()


def test_a_frozen_dataclass_can_inherit() -> None:
    assert Hashes() == HASHES
    assert (TASK.statements, TASK.strict) == ("boxed", "boxed")
    assert TASK.grader == f"2, math-verify {version('math-verify')}"


# Processes


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def algebra_is_graded() -> bool:
    gold, equal = ALGEBRA
    found = TASK.verify(problem(gold), equal)
    return found == correct(route="boxed, math-verify")


HANGS = ("7", r"\boxed{((9!)!)!}")


def test_math_verify_runs_in_no_process_but_the_checkers() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from test_math_answers import TASK, algebra_is_graded\n"
        "assert algebra_is_graded()\n"
        "print(sorted({'sympy', 'math_verify', 'torch'} & set(sys.modules)))\n"
        "from harness_tasks.math_answers.workers import shared_workers\n"
        "maps = open(f'/proc/{shared_workers().pids()[0]}/maps').read()\n"
        "print('libtorch' in maps)"
    )
    assert printed_by(code, cwd=ROOT).split("\n")[:2] == ["[]", "False"]


def test_grading_touches_no_signal_and_works_in_a_thread() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGPROF, signal.SIGCHLD, signal.SIGINT)]
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(algebra_is_graded()))
    thread.start()
    thread.join(120)
    assert results == [True]
    after = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGPROF, signal.SIGCHLD, signal.SIGINT)]
    assert before == after
    assert signal.getitimer(signal.ITIMER_REAL) == signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_many_threads_share_the_children() -> None:
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(algebra_is_graded())) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert results == [True] * 12
    assert len(shared_workers().pids()) <= 1 + len(os.sched_getaffinity(0))


def graded_in_a_child(_: int) -> tuple[bool, int, int]:
    """Whether algebra is graded here, this process's id, and how many children serve."""
    good = algebra_is_graded()
    TASK.verify_all(problem(r"\cot x"), [rf"\boxed{{\tan {n}x}}" for n in range(8)])
    return good, os.getpid(), len(shared_workers().pids()) - 1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_multiprocessing_child_has_a_checker_of_its_own_with_one_child(method: str) -> None:
    assert algebra_is_graded()
    with multiprocessing.get_context(method).Pool(1) as pool:
        good, pid, serving = pool.apply_async(graded_in_a_child, (0,)).get(180)
    assert good
    assert pid != os.getpid()
    assert serving == 1
    assert algebra_is_graded()


def test_a_child_is_replaced_after_so_many_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "RECYCLE", 3)
    own = workers.Workers()
    try:
        seen = set()
        for _ in range(7):
            assert own.check([(Pair("x+1", "1+x"),)]) == ["equal"]
            seen |= set(own.pids()[1:])
        assert len(seen) == 3
    finally:
        own.close()
    assert own.pids() == []


def test_claims_hold_together_in_order_or_in_any() -> None:
    check = shared_workers().check
    same, other = Pair("x+1", "1+x"), Pair("x", "y")
    assert check([(same,), (same, other), (other, same), ()]) == ["equal", "different", "different", "equal"]
    swapped = Matching((((other,), (same,)), ((same,), (other,))))
    twice = Matching((((same,), (other,)), ((same,), (other,))))
    refused = Matching(((None, (same,)), (None, ())))
    assert check([(swapped,), (twice,), (refused,)]) == ["equal", "different", "different"]
    assert check([]) == []


def test_a_checker_killed_in_the_middle_of_a_batch_does_no_harm() -> None:
    own = workers.Workers()
    batch = [(Pair(f"(x+{n})^{{2}}", f"x^{{2}}+{2 * n}x+{n * n}"),) for n in range(1, 25)]
    try:
        assert own.check(batch[:2]) == ["equal"] * 2
        zygote, *_ = own.pids()
        serving = children_of(zygote)
        outcomes: list[str] = []
        thread = threading.Thread(target=lambda: outcomes.extend(own.check(batch)))
        thread.start()
        for pid in (zygote, *serving):
            os.kill(pid, signal.SIGKILL)
        thread.join(120)
        assert outcomes == ["equal"] * len(batch)
        assert own.pids()[0] != zygote
    finally:
        own.close()


def kill_running_children(zygote: int) -> None:
    """Kill those that use a core now, not those that wait on their socket."""
    for pid in children_of(zygote):
        with suppress(OSError):  # it has ended by itself
            if ") R " in Path(f"/proc/{pid}/stat").read_text():
                os.kill(pid, signal.SIGKILL)


def test_a_check_whose_child_is_lost_twice_is_our_error() -> None:
    assert algebra_is_graded()
    zygote = shared_workers().pids()[0]
    results: list[Verdict] = []
    thread = threading.Thread(target=lambda: results.append(TASK.verify(problem(HANGS[0]), HANGS[1])))
    thread.start()
    while thread.is_alive():
        kill_running_children(zygote)
    assert results == [Verdict("error", "the math checker was lost twice on this answer", "boxed, math-verify")]
    assert algebra_is_graded()


def test_a_checker_that_cannot_start_is_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_shared", {})
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    found = TASK.verify(problem(ALGEBRA[0]), ALGEBRA[1])
    assert found.status == "error"
    assert found.reason == "the math checker does not run: /nonexistent/python: No such file or directory"
    assert TASK.verify(problem("5"), r"\boxed{5}").status == "correct"


def test_a_math_verify_that_does_not_import_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "math_verify.py").write_text("raise ImportError('broken here')")
    monkeypatch.setattr(workers, "_shared", {})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = TASK.verify(problem(ALGEBRA[0]), ALGEBRA[1])
    assert (found.status, found.reason) == ("error", "the math checker does not run: ImportError: broken here")


@pytest.mark.parametrize("busy", [False, True])
def test_nothing_survives_a_killed_harness(busy: bool) -> None:
    code = (
        "import sys, threading, time; sys.path.insert(0, 'tests')\n"
        "from test_math_answers import *\n"
        "assert algebra_is_graded()\n"
        "zygote = shared_workers().pids()[0]\n"
        f"if {busy}: threading.Thread(target=TASK.verify, args=(problem(HANGS[0]), HANGS[1]), daemon=True).start()\n"
        "time.sleep(0.3)\n"
        "print(zygote, *children_of(zygote), flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT) as harness:
        assert harness.stdout is not None
        pids = [int(pid) for pid in harness.stdout.readline().split()]
        harness.kill()
    assert len(pids) >= 2
    wait_until_ended(pids, 30)


def test_a_forked_copy_of_the_harness_does_not_keep_the_checker_alive() -> None:
    code = (
        "import sys, os, time; sys.path.insert(0, 'tests')\n"
        "from test_math_answers import *\n"
        "assert algebra_is_graded()\n"
        "pids = shared_workers().pids()\n"
        "copy = os.fork()\n"
        "if copy: print(copy, *pids, flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT) as harness:
        assert harness.stdout is not None
        copy, *pids = (int(pid) for pid in harness.stdout.readline().split())
        harness.kill()
    try:
        assert len(pids) == 2
        wait_until_ended(pids, 30)
        assert alive(copy)
    finally:
        os.kill(copy, signal.SIGKILL)


def test_a_batch_that_breaks_off_leaves_no_answer_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_child() -> None:
        raise CheckerFailure("no more")

    own = workers.Workers()
    monkeypatch.setattr(own, "_size", 2)
    same, other = (Pair("x+1", "1+x"),), (Pair("x", "y"),)
    try:
        assert own.check([same]) == ["equal"]
        with monkeypatch.context() as broken:
            broken.setattr(own, "_new_child", no_child)
            with pytest.raises(CheckerFailure, match="no more"):
                own.check([same, same])
        assert own.check([other, same, other]) == ["different", "equal", "different"]
    finally:
        own.close()


def test_a_late_reply_is_not_taken_for_another_ones() -> None:
    process = CheckerProcess()
    ours, theirs = socket.socketpair()
    try:
        process._control.settimeout(0.05)
        os.kill(process.pid, signal.SIGSTOP)  # no reply can come in time
        with pytest.raises(Gone):
            process.fork(theirs)
        os.kill(process.pid, signal.SIGCONT)
        with suppress(OSError):  # closed, as it should be
            process._control.settimeout(30)
        with pytest.raises(Gone):
            process.fork(theirs)
    finally:
        process.close()
        ours.close()
        theirs.close()


def test_the_checker_ends_with_the_harness_that_ends() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from test_math_answers import *\n"
        "assert algebra_is_graded()\n"
        "print(*shared_workers().pids())"
    )
    arguments = [sys.executable, "-W", "error", "-c", code]
    done = run_to_end(arguments, cwd=ROOT, check=True)
    assert done.stderr == ""
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    wait_until_ended(pids, 10)


# Limits of a child

FILTERED = pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="no table of system calls")


def confined(code: str, filtered: bool = False) -> subprocess.CompletedProcess[str]:
    """Run code in a process with a serving child's limits."""
    program = f"import checker\nchecker._confine(checker.seccomp() if {filtered} else None)\n{code}"
    folder = Path(checker.__file__).parent
    return run_to_end([sys.executable, "-c", program], cwd=folder)


def test_a_child_gets_no_more_memory_than_its_limit() -> None:
    assert "MemoryError" in confined("bytearray(3 << 30)").stderr
    assert confined("bytearray(1 << 30)").returncode == 0


def test_a_child_can_write_no_file(tmp_path: Path) -> None:
    done = confined(f"with open({str(tmp_path / 'note')!r}, 'w') as file: file.write('x' * 100)")
    assert "File too large" in done.stderr or "Operation not permitted" in done.stderr
    assert not (tmp_path / "note").exists() or (tmp_path / "note").stat().st_size == 0


@FILTERED
@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket()",
        "import os; os.fork()",
        "import os; os.execv('/bin/true', ['true'])",
        "import os; os.kill(os.getppid(), 0)",
        "open('/dev/null', 'w')",
        "import os; os.unlink('/dev/nothing')",
        "import signal; signal.setitimer(signal.ITIMER_PROF, 0)",
    ],
)
def test_a_child_is_refused_every_way_out(code: str) -> None:
    assert "Operation not permitted" in confined(code, filtered=True).stderr


@FILTERED
def test_the_children_that_serve_are_under_the_filter() -> None:
    assert algebra_is_graded()
    for pid in shared_workers().pids()[1:]:
        assert re.search("^Seccomp:\t2$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)


def test_without_the_filter_the_limits_hold_all_the_same() -> None:
    done = confined("checker._arm(0.2)\nwhile True: pass")
    assert done.returncode == -signal.SIGPROF


def test_memory_errors_and_stumbles_of_sympy_are_answers_of_the_checker() -> None:
    def no_memory(gold: str, answer: str) -> str:
        raise MemoryError

    def stumbles(gold: str, answer: str) -> str:
        raise RecursionError

    claims = [["1", "2"]]
    assert checker._outcome(claims, no_memory) == "memory"
    assert checker._outcome(claims, stumbles) == "unparsed"


def test_floats_are_compared_to_six_digits_also_where_they_are_small() -> None:
    assert checker.rounding("3.14 1") == 6
    assert checker.rounding(r"0.00067\pi") == 9
    assert accepts(r"\frac{\pi}{10^5}", "0.0000314159265")
    assert not accepts(r"\frac{\pi}{10^5}", "0.000031")
