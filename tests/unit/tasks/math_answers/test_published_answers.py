"""Grading on published data: references and solutions of MATH-500 and GSM8K, by box, by mark and by their endings."""

import re

import pytest
from support.json_lines import read_json_lines
from support.math_grading import TASK

from harness import Problem, correct
from harness_tasks.gsm8k import Gsm8k
from harness_tasks.math_answers.equality import compare
from harness_tasks.math_answers.normal_form import normal_form


@pytest.fixture
def math500(shared_data):
    return read_json_lines(shared_data / "tasks" / "math500.jsonl")


@pytest.fixture
def golds(math500):
    return [row["answer"] for row in math500]


def verdict(gold, response):
    return TASK.verify(Problem("p", "", gold), response)


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
        for offset in (61,)
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
