"""Grading on published data: the references and solutions of MATH-500, GSM8K and AIME, and their other spellings."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from support.json_lines import read_json_lines
from support.math_grading import TASK

from harness import Problem, correct
from harness_tasks.gsm8k import Gsm8k
from harness_tasks.math_answers.equality import compare
from harness_tasks.math_answers.exact_number import exact_number
from harness_tasks.math_answers.normal_form import normal_form


@pytest.fixture
def math500(shared_data):
    return read_json_lines(shared_data / "tasks" / "math500.jsonl")


@pytest.fixture
def golds(math500):
    return [row["answer"] for row in math500]


def verdict(gold, response):
    return TASK.verify(Problem("p", "", gold), response)


def accepts(gold, answer):
    """Whether a boxed answer is right; a fault of the grader is none of both."""
    status = verdict(gold, rf"So it is $\boxed{{{answer}}}$.").status
    assert status != "error", (gold, answer)
    return status == "correct"


def test_every_solution_of_math500_is_correct_by_its_box_and_by_the_strict_rule(math500):
    assert len(math500) == 500
    for row in math500:
        graded = verdict(row["answer"], row["solution"])
        assert (graded.status, graded.route.partition(",")[0]) == ("correct", "boxed"), row["solution"]
        assert TASK.audit(Problem("p", "", row["answer"]), row["solution"]).status == "correct"


# Pairs of unequal strings that hold the same answer, looked at one by one.
EQUAL_PAIRS = {("5", "x=5"), ("x=5", "5"), ("5,-3", "-3,5")}


def test_another_problems_solution_is_wrong(math500):
    accepted = {
        (row["answer"], other["answer"])
        for offset in (1, 7, 61, 250)
        for row, other in zip(math500, math500[offset:] + math500[:offset], strict=True)
        if verdict(row["answer"], other["solution"]).status == "correct"
    }
    assert {pair for pair in accepted if pair[0] != pair[1]} <= EQUAL_PAIRS


def test_every_solution_of_gsm8k_is_correct_by_its_mark_and_by_the_strict_rule(shared_data):
    rows = read_json_lines(shared_data / "tasks" / "gsm8k_test.jsonl")
    problems = [Problem("p", "", row["answer"].partition("#### ")[2]) for row in rows]
    verdicts = [Gsm8k().verify(problem, row["answer"]) for problem, row in zip(problems, rows, strict=True)]
    assert verdicts == [correct(route="####, equal text")] * 1319
    strict = [Gsm8k().audit(problem, row["answer"]) for problem, row in zip(problems, rows, strict=True)]
    assert strict == [correct(route="gsm8k strict")] * 1319


def test_aime_answers_are_numbers_with_or_without_leading_zeros(shared_data):
    for name in ("aime24_qwq.jsonl", "aime25_qwq.jsonl"):
        for gold in (str(row["answer"]) for row in read_json_lines(shared_data / "tasks" / name)):
            assert all(accepts(gold, spelt) for spelt in (f"{int(gold)}", f"{int(gold):03d}", f"{int(gold)}."))
            assert not accepts(gold, str(int(gold) + 1))


def test_every_reference_is_equal_to_its_normal_form_and_an_integer_is_its_own(golds):
    for gold in golds:
        form = normal_form(gold)
        assert form
        assert normal_form(form) == form
        assert compare(gold, form).equal is True
        assert form == gold or not re.fullmatch("-?[0-9]+", gold)


ENDINGS = (
    "The final answer is ${}$. I hope it is correct.",
    "Therefore, the final answer is {}.",
    "x = 7.\n\nAnswer: {}",
)


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_reference_is_read_without_a_box(golds, ending):
    verdicts = [verdict(gold, "It is $x$.\n" + ending.replace("{}", gold)) for gold in golds]
    assert {(graded.status, graded.route.partition(",")[0]) for graded in verdicts} == {("correct", "fallback")}


# Formats: each is made of all the references that it fits

OF_INTEGERS = {
    "decimal zero": "{}.0",
    "text": r"\text{{{}}}",
    "units": r"{}\text{{ cm}}",
    "square units": r"{}\text{{ cm}}^2",
    "words": "{} square units",
    "degrees": r"{}^\circ",
    "dollars": r"\${}",
    "per cent": r"{}\%",
    "approximately": r"\approx {}",
}
RIGHT = dict.fromkeys(OF_INTEGERS, 311) | {"thousands": 20, "as decimal": 58, "displaystyle": 70, "dfrac": 68}
RIGHT |= {"label": 496, "set": 10, "no brackets": 10, "swapped list": 3}
WRONG = {"one more": 311, "a hundred times": 369, "a hundredth": 369, "negated": 369, "5e-5 off": 58}
WRONG |= {"square brackets": 12, "half-open": 12}
STRICT = {"units": 311, "square units": 311, "degrees": 311, "dollars": 311, "per cent": 311, "label": 496}
STRICT |= {"dfrac": 68, "as decimal": 3}


def value(gold):
    """The value of a reference that is a number and nothing else, or None."""
    number = exact_number(normal_form(gold))
    return number.value if number and not re.search(r"text|mbox|circ|\$|,|=|\\frac.*\\frac", gold) else None


def rebracketed(gold, opening, closing):
    inner = gold.removeprefix(r"\left").strip("()").removesuffix(r"\right")
    return f"{opening}{inner}{closing}"


def is_pair(gold):
    return re.fullmatch(r"(\\left)?\(.*\)", gold) and "," in gold and "cup" not in gold


def right_spellings(gold):
    """Other spellings of a reference, by format."""
    spelt = {"label": f"x = {gold}"} if "=" not in gold else {}
    if re.fullmatch("-?[0-9]+", gold):
        spelt |= {name: spelling.format(gold) for name, spelling in OF_INTEGERS.items()}
        if abs(int(gold)) > 999:
            spelt["thousands"] = f"{int(gold):,}"
    if "frac" in gold:
        spelt["displaystyle"] = rf"\displaystyle {gold}"
        if value(gold) is not None:
            spelt["as decimal"] = repr(float(value(gold)))
    if r"\frac" in gold:
        spelt["dfrac"] = gold.replace("frac", "dfrac")
    if is_pair(gold) and "infty" not in gold:
        spelt |= {"set": rebracketed(gold, r"\{", r"\}"), "no brackets": rebracketed(gold, "", "")}
    if gold in ("1,-2", "3, 5, 7", "-2,1"):
        spelt["swapped list"] = ", ".join(reversed(gold.split(",")))
    return spelt


def wrong_spellings(gold):
    """What is near a reference and not the same, by format."""
    spelt = {"one more": f"{gold}, {int(gold) + 1}"} if re.fullmatch("-?[0-9]+", gold) else {}
    number = value(gold)
    if number:
        spelt |= {"a hundred times": str(float(100 * number)), "a hundredth": repr(float(number) / 100)}
        spelt["negated"] = gold[1:] if gold.startswith("-") else f"-{gold}"
        if "frac" in gold:
            spelt["5e-5 off"] = repr(float(number) * (1 + 5e-5))
    if is_pair(gold):
        spelt |= {"square brackets": rebracketed(gold, "[", "]"), "half-open": rebracketed(gold, "(", "]")}
    return spelt


def test_an_answer_in_another_format_is_correct(golds):
    spelt = [(gold, name, answer) for gold in golds for name, answer in right_spellings(gold).items()]
    assert Counter(name for _, name, _ in spelt) == RIGHT
    assert [row for row in spelt if not accepts(row[0], row[2])] == []


def test_what_is_not_the_answer_is_wrong_however_near(golds):
    spelt = [(gold, name, answer) for gold in golds for name, answer in wrong_spellings(gold).items()]
    assert Counter(name for _, name, _ in spelt) == WRONG
    assert [row for row in spelt if accepts(row[0], row[2])] == []


def test_the_strict_rule_accepts_some_of_the_formats(golds):
    spelt = [(gold, name, answer) for gold in golds for name, answer in right_spellings(gold).items()]
    accepted = [
        name
        for gold, name, answer in spelt
        if TASK.audit(Problem("p", "", gold), rf"\boxed{{{answer}}}").status == "correct"
    ]
    assert Counter(accepted) == STRICT
