"""Whole responses and their verdicts, from outside: a task by its name, a response, a verdict."""

import pytest
from corpora.math_outside import ROWS

from harness import Problem
from harness_tasks.competition_math import Math
from harness_tasks.gsm8k import Gsm8k
from harness_tasks.own import Own

TASKS = {
    "math": Math(),
    "gsm8k": Gsm8k(),
    "own": Own(file="problems.jsonl", grader="number"),
    "own-math": Own(file="problems.jsonl", grader="math"),
}


@pytest.mark.parametrize("kind", ROWS)
def test_every_response_of_a_kind_has_its_verdict(kind):
    rows = [(name, gold, response, is_right) for name, gold, response, is_right in ROWS[kind]]
    verdicts = [TASKS[name].verify(Problem("p", "", gold), response) for name, gold, response, _ in rows]
    wanted = ["correct" if is_right else "wrong" for *_, is_right in rows]
    assert [
        (row, verdict) for row, verdict, word in zip(rows, verdicts, wanted, strict=True) if verdict.status != word
    ] == []
