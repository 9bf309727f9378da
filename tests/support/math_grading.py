"""Grade answers that only math-verify can decide, in this process and in programs that tests start."""

from __future__ import annotations

from harness import Problem, Verdict, correct
from harness_tasks.math_task import MathTask

TASK = MathTask()
HANGING = ("7", r"\boxed{((9!)!)!}")  # a reference and a response whose check never ends


def boxed(answer: str) -> str:
    """A response that boxes an answer."""
    return rf"Therefore $\boxed{{{answer}}}$."


def graded(gold: str, response: object) -> Verdict:
    """The verdict on a response, which need not be text."""
    return TASK.verify(Problem("p", "What is it?", gold), response)  # type: ignore[arg-type]


def algebra_is_graded(_: int = 0) -> bool:
    """Whether an answer is right that neither text nor value shows to be so."""
    return graded(r"\cot x", boxed(r"\frac{1}{\tan x}")) == correct(route="boxed, math-verify")
