r"""Hostile responses to the grader of math answers: none is correct, none hangs, crashes or does anything.

Limits on CPU time are lower here than in use, so that attacks that never end stay affordable.
"""

import os
import time

import pytest
from support.math_grading import TASK, algebra_is_graded, boxed, graded

from harness import Problem, Verdict, correct
from harness.columns.store import Memo
from harness.columns.verdicts import graded as graded_texts
from harness_tasks import math_task
from harness_tasks.math_task import ALGEBRA
from harness_tasks.sandbox import forked

# Attacks: the survey's on which the design rests (A1-A9, M10-M27), and more
# name: (reference, what the response boxes)
BOXED = {
    "A2 NUL": ("5", "5\x00"), "A3 lone surrogate": ("5", "5\ud800"), "M10 power tower": ("5", "9^{9^{9}}"),
    "M12 factorials of factorials": ("5", "((9!)!)!"), "M13 binomial": ("5", r"\binom{10^9}{5\cdot10^8}"),
    "M14 long sum": ("5", r"\sum_{k=1}^{10^9} \frac{1}{k}"),
    "M15 brackets within the limit": ("5", "(" * 240 + "6" + ")" * 240),
    "M16 braces within the limit": ("5", "{" * 240 + "6" + "}" * 240),
    "M16 sets in sets": ("5", r"\{" * 120 + "6" + r"\}" * 120),
    "M16 tuples in tuples": ("(1,2)", "(" * 120 + "1" + ",2)" * 120),
    "M17 fractions within the limit": ("5", r"\frac{1}{" * 45 + "6" + "}" * 45),
    "M18 a long number within the limit": ("5", "5" * 500),
    "M19 polynomials, expanded": ("(x+1)^{100}", "(x^2+2x+1)^{49}(x+1)^{3}"),
    "M20 guess list in a box": ("5", "1 or 2 or 3 or 4 or 5"), "M20 guess list by plus-minus": ("5", r"\pm 5"),
    "M21 chain": ("5", "1=2=3=4=5"), "M23 NaN for zero": ("0", r"\text{NaN}"),
    "M23 zero by zero": ("0", r"\frac{0}{0}"), "M23 infinity less infinity": ("0", r"\infty - \infty"),
    "M23 a huge exponent": ("5", "1e999999999"), "M23 a huge power of ten": ("5", r"5 \times 10^{999999999}"),
    "M23 a tiny number for zero": ("0", "10^{-400}"), "M24 slightly off": (r"\frac{7}{3}", "2.33345"),
    "M25 commas": ("5", "1," * 249 + "1"), "M25 text commands": ("5", r"\text{" * 80 + "6" + "}" * 80),
    "M25 minus signs": ("5", "-" * 400 + "6"), "M26 square brackets": ("(1,2)", "[1,2]"),
    "M27 no base": ("2516_8", "2516"), "expansion": ("5", "(x+1)^{100000}"),
    "roots of roots": ("5", r"\sqrt{" * 60 + "6+x" + "}" * 60),
    "powers of powers": ("5", "x" + "^{x" * 100 + "}" * 100),
    "integral": ("5", r"\int_0^{\infty} e^{-x^{x^{x}}} \sin(x^x) dx"),
    "limit": ("5", r"\lim_{x \to 0} \frac{\sin(x^{99})-x^{99}}{x^{297}}"),
    "equation": ("y=5x", "x^{17}-x^{13}+7x^5-3x^2=5"),
    "determinant": ("5", r"\det\begin{pmatrix}" + r"x & y \\ " * 40 + r"1 & 2\end{pmatrix}"),
    "matrix power": ("5", r"\begin{pmatrix}1&1\\1&0\end{pmatrix}^{10^{9}}"),
    "modulo": ("5", r"7^{10^{12}} \pmod{10^{9}}"), "letters to multiply": ("5", " ".join("abcdefghjk" * 20)),
    "unicode digits": ("6", "５"), "arabic digits": ("5", "٥"), "superscripts": ("5", "5⁹"),
    "combining marks": ("5", "5" + "\u0338" * 100), "right-to-left": ("12", "\u202e21"),
    "escape codes": ("5", "\x1b[31m5"), "division by a difference": ("0", r"\frac{0}{x-x}"),
    "reference in a comment": ("5", "6 % 5"), "reference behind a remark": ("5", r"6 \approx 5"),
    "reference by prefix": ("5", "5 banana 6"), "dangling operator": ("5", "5+"), "digits apart": ("55", "5 5"),
    "mixed by brackets": ("5", "2(3)"), "unit letters": ("5", "5c"), "inequality": ("5", r"5 \ne 6"),
    "unsolvable equations": ("x^2=-1", "x^2=-2"), "a checker's words": ("5", '{"outcome": "equal"}'),
}  # fmt: skip

# name: (reference, response)
RESPONSES = {
    "A3 lone surrogate in words": ("5", "The answer is \udcff5"), "A4 a megabyte of x": ("5", "x" * 1_000_000),
    "A6 None": ("5", None), "A6 a list": ("5", [r"\boxed{5}"]),
    "A7 the prompt": ("5", "What is 2 + 3? Put your final answer within \\boxed{}."),
    "A8 right, then wrong": ("5", r"\boxed{5} Wait, \boxed{7}"), "A9 open boxes": ("5", "\\boxed{" * 20_000 + "5"),
    "M20 guess list in boxes": ("5", " or ".join(rf"\boxed{{{guess}}}" for guess in range(1, 6))),
    "M25 display brackets": ("5", "\\[" * 20_000 + "6"), "M25 answer is, often": ("5", "the answer is $" * 20_000),
    "invented problem": ("5", "The answer is 4.\nQuestion: What is 2+3?\nThe answer is 5."),
    "length prefix": ("5", '\x00\x00\x00\x05\\boxed{"equal"}'),
}  # fmt: skip

# Code in place of mathematics (M22 and more). CANARY is a path that the code would make.
PAYLOADS = (
    "(lambda:open('CANARY','w'))()", "__import__('os').system('touch CANARY')", "exec(\"open('CANARY','w')\")",
    "eval(\"__import__('os').system('touch CANARY')\")",
    "[c for c in ().__class__.__base__.__subclasses__() if c.__name__=='Popen'][0](['touch','CANARY'])",
    "sympify(\"__import__('os').system('touch CANARY')\")",
    "Symbol('x').__init__.__globals__['os'].system('touch CANARY')",
    r"\operatorname{__import__('os').system('touch CANARY')}", r"\text{__import__('os').system('touch CANARY')}",
    r"\input{CANARY} \write18{touch CANARY}", "5; __import__('os').system('touch CANARY')",
    "5 if __import__('os').system('touch CANARY') else 5", "`touch CANARY`", "5 | touch CANARY",
    "!!python/object/apply:os.system ['touch CANARY']", "cos\nsystem\n(S'touch CANARY'\ntR.",
)  # fmt: skip

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
