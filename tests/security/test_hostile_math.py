r"""Hostile responses to the grader of math answers: none is correct, none hangs, crashes or does anything.

Limits on CPU time are lower here than in use, so that attacks that never end stay affordable.
"""

import os
import time

import pytest
from corpora.hostile_math import BOXED, PAYLOADS, RESPONSES
from support.math_grading import TASK, algebra_is_graded, boxed, graded

from harness import Problem, Verdict, correct
from harness.columns.store import Memo
from harness.columns.verdicts import graded as graded_texts
from harness_tasks import math_task
from harness_tasks.math_task import ALGEBRA
from harness_tasks.sandbox import forked

ATTACKS = {name: (gold, boxed(answer)) for name, (gold, answer) in BOXED.items()} | RESPONSES
OUR_CPU_S = 1.0  # in the process that grades, which needs milliseconds
COT = Problem("p", "", r"\cot x")


def test_every_attack_is_wrong_in_bounded_time_and_harms_nothing(monkeypatch):
    assert (forked.CPU_LIMIT_S, math_task.PROBLEM_CPU_S) == (2.0, 20.0)  # in use
    monkeypatch.setattr(forked, "QUICK_S", 0.05)
    monkeypatch.setattr(forked, "CPU_LIMIT_S", 0.1)
    assert algebra_is_graded()
    checker = ALGEBRA.pid
    faults = []
    for name, attack in ATTACKS.items():
        started = time.process_time()
        verdict = graded(*attack)
        if verdict.status != "wrong" or not verdict.reason or time.process_time() - started > OUR_CPU_S:
            faults.append((name, verdict))
        decided_by_us = not verdict.route.endswith("math-verify")
        if not (graded(*attack) == verdict if decided_by_us else algebra_is_graded()):
            faults.append((name, "the next verdict is another"))
    assert faults == []
    assert ALGEBRA.pid == checker


def test_no_code_in_an_answer_or_a_reference_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr(forked, "CPU_LIMIT_S", 0.2)
    for payload in PAYLOADS:
        text = payload.replace("CANARY", str(tmp_path / "c"))
        forms = [boxed(text), f"The answer is {text}", f"#### {text}", text, f"\\boxed {text}", f"Answer: ${text}$"]
        verdicts = [*TASK.verify_all(COT, forms), graded(text, boxed(r"\cot x"))]
        assert {verdict.status for verdict in verdicts} == {"wrong"}, payload
    assert os.listdir(tmp_path) == []
    assert algebra_is_graded()


BOMBS = [boxed(rf"((9!)!)!\cot x + {number}") for number in range(10)]
HONEST = boxed(r"\frac{1}{\tan x} + 123456 - 123456")


@pytest.mark.slow
def test_the_bombs_of_a_problem_share_a_bound_and_the_rest_are_errors_which_a_later_run_grades(monkeypatch, tmp_path):
    monkeypatch.setattr(forked, "QUICK_S", 0.1)
    monkeypatch.setattr(forked, "CPU_LIMIT_S", 0.2)
    monkeypatch.setattr(math_task, "PROBLEM_CPU_S", 1.9)  # 10 tries of 0.1 s, then 5 of 0.2 s
    assert algebra_is_graded()
    verdicts = TASK.verify_all(COT, [*BOMBS, HONEST])
    over = "not checked: other answers to this problem used up the math checker's 1.9 CPU seconds"
    timeout = Verdict("wrong", "checker timeout", "boxed, math-verify")
    assert set(verdicts[:-1]) == {timeout, Verdict("error", over, "boxed, math-verify")}
    assert 4 <= verdicts.count(timeout) <= 6  # how many of each depends on the number of cores, a little
    assert verdicts[-1] == correct(route="boxed, math-verify")
    monkeypatch.setattr(math_task, "PROBLEM_CPU_S", 0.75)  # 5 tries of 0.1 s, then 2 of 0.2 s
    known = Memo(tmp_path / "known.jsonl")
    first, _ = graded_texts(TASK, COT, BOMBS[:5], known=known)
    assert {verdict.status for verdict in first} == {"wrong", "error"}
    assert TASK.verify_all(COT, BOMBS[4::-1]) == first[::-1]  # in any order
    second, _ = graded_texts(TASK, COT, BOMBS[:5], known=known)
    assert [verdict.status for verdict in second] == ["wrong"] * 5
