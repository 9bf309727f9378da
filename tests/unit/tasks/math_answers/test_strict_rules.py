"""verl's strict rules for MATH and GSM8K, which are the second grader and the reward in RL."""

from __future__ import annotations

from corpora.strict_rules import GSM8K, MATH
from support.math_grading import TASK

from harness import Problem, Verdict
from harness_tasks.math_answers.strict_rules import strict_verdict


def test_the_rule_of_math_accepts_what_hendrycks_accepts():
    statuses = [(row, strict_verdict("boxed", row[0], row[1]).status) for row in MATH]
    assert [row for row, status in statuses if (status == "correct") is not row[2]] == []


def test_the_rule_of_gsm8k_accepts_a_bare_number_after_the_mark():
    statuses = [(row, strict_verdict("####", "18", row[0]).status) for row in GSM8K]
    assert [row for row, status in statuses if (status == "correct") is not row[1]] == []


def test_the_strict_rules_have_no_fallback_and_give_their_names_as_routes():
    assert strict_verdict("boxed", "5", "The final answer is $5$.") == Verdict("wrong", "no answer", "math_reward")
    assert strict_verdict("boxed", "5", r"\boxed{6}") == Verdict("wrong", "different", "math_reward")
    assert strict_verdict("####", "5", "#### 5") == Verdict("correct", "", "gsm8k strict")
    assert strict_verdict("####", "5", None) == Verdict("wrong", "not text", "gsm8k strict")


def test_of_a_reference_with_several_boxes_the_last_counts():
    several = Problem("p", "", r"\boxed{1}, \boxed{2}")
    assert TASK.audit(several, r"\boxed{2}").status == "correct"
    assert TASK.audit(several, r"\boxed{1}").status == "wrong"
