"""`MathTask`: readings, verdicts with their routes and reasons, batches, keys, cut-off responses, fallbacks."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

from support.math_grading import TASK, boxed, graded
from support.refusals import refusal_of

from harness import Problem, Verdict
from harness_tasks.math_task import MathTask

PROBLEM = Problem("p", "What is it?", "5")
CUT_OFF = "First we add 2 and 3, which gives 5"


@dataclass(frozen=True)
class Hashes(MathTask):
    """A task in GSM8K's style."""

    statements = "####"
    strict = "####"
    fallback: bool = True


HASHES = Hashes()

VERDICTS = [  # reference, boxed answer, status, reason, route
    ("5", "5", "correct", "", "equal text"), ("5", "5.0", "correct", "", "equal text"),
    (r"\frac12", "0.5", "correct", "", "number"), ("5", "6", "wrong", "different", "number"),
    ("6", "2(3)", "correct", "", "number"), ("x+1", "x+2", "wrong", "different", "value"),
    (r"\cot x", r"\frac{1}{\tan x}", "correct", "", "math-verify"),
    (r"\cot x", r"\tan x", "wrong", "different", "math-verify"), ("5", "1, 5", "wrong", "several answers", "elements"),
    ("5", "(5", "wrong", "unparsed", "text"), (r"\cot x", r"\frac", "wrong", "unparsed", "math-verify"),
    (r"\foo\frac", r"\foo \frac", "correct", "", "equal text"),
    (r"\foo\frac", r"\bar{x}", "wrong", "different", "text only, the reference does not parse"),
    (r"\frac{\pi}{10^5}", "0.0000314159265", "correct", "", "math-verify"),
    (r"\frac{\pi}{10^5}", "0.000031", "wrong", "different", "math-verify"),
]  # fmt: skip


def test_a_verdict_names_the_cheapest_method_that_decides_it_and_a_reason():
    made = [(gold, answer, graded(gold, boxed(answer))) for gold, answer, *_ in VERDICTS]
    assert made == [(*row[:2], Verdict(*row[2:4], f"boxed, {row[4]}")) for row in VERDICTS]
    assert graded("5", boxed(r"\frac{5")) == Verdict("wrong", "cut off", "boxed")
    assert graded("5", boxed("1" * 501)) == Verdict("wrong", "too long", "boxed")


def test_a_response_without_an_answer_is_wrong_and_has_no_key():
    for response in ("", "no idea", r"\boxed{.}"):
        assert TASK.answer(PROBLEM, response) is TASK.verdict_key(PROBLEM, response, None) is None
        assert TASK.verify(PROBLEM, response) == Verdict("wrong", "no answer", "")


def test_equal_keys_have_equal_verdicts_and_keys_tell_routes_apart():
    texts = [r"\boxed{5.0}", r"so \boxed{x = 5}", "The answer is 5"]
    assert TASK.answers(PROBLEM, texts) == ["5", "5", "5"]
    assert [TASK.verdict_key(PROBLEM, text, "5") for text in texts] == ["boxed:5", "boxed:5", "fallback:5"]
    routes = [verdict.route for verdict in TASK.verify_all(PROBLEM, texts)]
    assert routes == ["boxed, equal text"] * 2 + ["fallback, equal text"]


def test_a_batch_has_the_verdicts_of_its_responses():
    problem = Problem("p", "", r"\frac{\sqrt{3}}{3}")
    equal = r"\boxed{\frac{1}{\sqrt{3}}}"
    responses = [equal, r"\boxed{7}", "", equal, r"\boxed{\frac{\sqrt{12}}{6}}", None, r"\boxed{\tan 30}"]
    verdicts = TASK.verify_all(problem, responses)
    assert verdicts == [TASK.verify(problem, response) for response in responses]
    assert [verdict.status == "correct" for verdict in verdicts] == [True, False, False, True, True, False, False]


def test_a_response_that_was_cut_off_has_no_fallback():
    texts = [CUT_OFF, CUT_OFF, CUT_OFF, "so 5\n#### 5\nThat is, 17"]
    finish = ["length", "stop", "", "length"]  # "": not known, taken as complete
    verdicts = HASHES.verify_all(PROBLEM, texts, finish=finish)
    assert [(verdict.status, verdict.reason) for verdict in verdicts] == [("wrong", "cut off"), *[("correct", "")] * 3]
    assert [verdict.route.partition(",")[0] for verdict in verdicts] == ["", "fallback", "fallback", "####"]
    assert HASHES.answers(PROBLEM, texts, finish=finish) == [None, "5", "5", "5"]
    assert HASHES.verdict_key(PROBLEM, CUT_OFF, "5", finish="stop") == "fallback:5"
    assert HASHES.verdict_key(PROBLEM, CUT_OFF, "5", finish="length") == ":5"


def test_without_fallbacks_only_an_answer_in_the_form_asked_for_counts():
    texts = ["I think 5", "The answer is 5.", r"\boxed{5}", "#### 5"]
    strict = Hashes(fallback=False)
    assert [verdict.status for verdict in strict.verify_all(PROBLEM, texts)] == ["wrong", "wrong", "correct", "correct"]
    assert strict.verify(PROBLEM, texts[0]).reason == "not stated as asked"
    assert strict.answers(PROBLEM, texts) == [None, None, "5", "5"]


def test_the_task_checks_that_math_verify_is_installed_and_names_its_version(monkeypatch):
    assert TASK.check() == ""
    assert TASK.grader == f"3, math-verify {version('math-verify')}"
    for module in ("harness_tasks.math_task", "harness.system.extras"):
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None)
    line = "the check of math answers needs math_verify: not installed: pip install 'diversity-harness[math]'"
    assert refusal_of(TASK.check) == line
    assert TASK.grader == "3, math-verify missing"
