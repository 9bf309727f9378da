"""Grading on published data: references and solutions of MATH-500 and GSM8K, by box, by mark and by their endings."""

import re

from support.json_lines import read_json_lines
from support.math_grading import TASK

from harness import Problem, correct
from harness_tasks.gsm8k import Gsm8k
from harness_tasks.math_answers.equality import compare
from harness_tasks.math_answers.normal_form import normal_form


def verdict(gold, response):
    return TASK.verify(Problem("p", "", gold), response)


# Pairs of unequal strings that hold the same answer, looked at one by one.
EQUAL_PAIRS = {("5", "x=5"), ("x=5", "5"), ("5,-3", "-3,5")}
ENDINGS = (
    "The final answer is ${}$. I hope it is correct.", "Therefore, the final answer is {}.", "x = 7.\n\nAnswer: {}",
)  # fmt: skip


def test_every_solution_of_math500_is_right_by_box_strict_rule_and_ending_and_another_is_wrong(shared_data):
    math500 = read_json_lines(shared_data / "tasks" / "math500.jsonl")
    assert len(math500) == 500
    accepted = set()
    for place, (row, other) in enumerate(zip(math500, math500[61:] + math500[:61], strict=True)):
        gold, form = row["answer"], normal_form(row["answer"])
        graded = verdict(gold, row["solution"])
        assert (graded.status, graded.route.partition(",")[0]) == ("correct", "boxed"), row["solution"]
        assert TASK.audit(Problem("p", "", gold), row["solution"]).status == "correct"
        assert normal_form(form) == form != ""
        assert compare(gold, form).equal is True
        assert form == gold or not re.fullmatch("-?[0-9]+", gold)
        ending = ENDINGS[place % len(ENDINGS)]
        graded = verdict(gold, "It is $x$.\n" + ending.replace("{}", gold))
        assert (graded.status, graded.route.partition(",")[0]) == ("correct", "fallback"), (gold, ending)
        if verdict(gold, other["solution"]).status == "correct":
            accepted.add((gold, other["answer"]))
    assert {pair for pair in accepted if pair[0] != pair[1]} <= EQUAL_PAIRS


def test_every_solution_of_gsm8k_is_correct_by_its_mark_and_by_the_strict_rule(shared_data):
    rows = read_json_lines(shared_data / "tasks" / "gsm8k_test.jsonl")
    problems = [Problem("p", "", row["answer"].partition("#### ")[2]) for row in rows]
    verdicts = [Gsm8k().verify(problem, row["answer"]) for problem, row in zip(problems, rows, strict=True)]
    assert verdicts == [correct(route="####, equal text")] * 1319
    strict = [Gsm8k().audit(problem, row["answer"]) for problem, row in zip(problems, rows, strict=True)]
    assert strict == [correct(route="gsm8k strict")] * 1319
