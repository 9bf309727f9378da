"""`MathTask`: the base class of tasks with a mathematical answer, which is `problem.reference`, a string."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import ClassVar

from harness import Message, Problem, Task, Verdict, correct, error, wrong
from harness.system import extras

from .graders.strict_rules import strict_verdict
from .math_answers import checker
from .math_answers.equality import compare
from .math_answers.extraction import Extraction, Statements, final_statement
from .math_answers.normal_form import normal_form
from .sandbox.forked import Checker, CheckerFailure

# For all checks by math-verify in one grading of a problem's responses: 9 that never end, or thousands of usual ones.
PROBLEM_CPU_S = 20.0

ALGEBRA = Checker(checker.__name__)


class MathTask(Task):
    r"""Grades final answers. A subclass adds `problems` and its settings.

    instruction  what the prompt says after the problem
    statements   the form that the task asks for: "boxed" (`\boxed{x}`) or "####" (a last line `#### x`)
    strict       the rule that `audit` applies: Hendrycks' ("boxed") or GSM8K's ("####")
    fallback     whether a response without an answer in that form is graded by what it states last, unless the token
                 limit cut it off; a parameter of each task
    """

    instruction: ClassVar[str]
    statements: ClassVar[Statements] = "boxed"
    strict: ClassVar[Statements] = "boxed"
    chance_gradings = 1024
    fallback: bool = True

    @property
    def grader(self) -> str:  # type: ignore[override]
        """Return the version of these rules and that of math-verify, which decides what the rules leave open."""
        return f"3, math-verify {version('math-verify') if find_spec('math_verify') else 'missing'}"

    def check(self, unsafe_exec: bool = False) -> str:
        """Return "": no remark, since no code of a response is run. Raises HarnessError if math-verify is missing."""
        extras.require("the check of math answers", "math_verify")
        return ""

    def messages(self, problem: Problem) -> list[Message]:
        """Return one user message: the problem, a space and the instruction."""
        return [{"role": "user", "content": f"{problem.prompt} {self.instruction}"}]

    def read(self, response: object, finish: str = "") -> Extraction:
        """Return a response's final answer in normal form. Takes 5 to 50 µs, never raises.

        finish   "length" if the token limit cut the response off
        """
        statement = final_statement(response, self.statements)
        if statement.answer is None:
            return statement
        if statement.route == "fallback" and (finish == "length" or not self.fallback):
            return Extraction(None, "", "cut off" if finish == "length" else "not stated as asked")
        answer = normal_form(statement.answer)
        return Extraction(answer or None, statement.route, "" if answer else "no answer")

    def answer(self, problem: Problem, response: str, *, finish: str = "") -> str | None:
        """Return the response's final answer in normal form; None if it gives none."""
        return self.read(response, finish).answer

    def answers(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[str | None]:
        """Return the `answer` of each response."""
        return [reading.answer for reading in map(self.read, responses, finish or [""] * len(responses))]

    def verdict_key(self, problem: Problem, response: str, answer: str | None, *, finish: str = "") -> str | None:
        """Return the answer and its route, on which alone the verdict depends; None if no answer counts."""
        return None if answer is None else f"{self.read(response, finish).route}:{answer}"

    def verify(self, problem: Problem, response: str, *, finish: str = "") -> Verdict:
        """Return correct if the final answer equals the reference, wrong if not, error if it could not be checked."""
        return self.verify_all(problem, [response], finish=[finish])[0]

    def verify_all(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[Verdict]:
        """Return the verdict on each response, with the method that decided it. Each distinct answer is graded once.

        What nothing cheaper decides, math-verify does, on all cores. A check may take 2 CPU seconds, all of them
        `PROBLEM_CPU_S`; what that leaves out is an error.
        """
        readings = list(map(self.read, responses, finish or [""] * len(responses)))
        answers = dict.fromkeys(reading.answer for reading in readings if reading.answer is not None)
        compared = {answer: compare(str(problem.reference), answer) for answer in answers}
        undecided = [answer for answer, result in compared.items() if result.equal is None]
        undecided.sort(key=lambda answer: (len(answer), answer))  # independent of the responses' order
        try:
            outcomes = ALGEBRA.outcomes([compared[answer].claims for answer in undecided], PROBLEM_CPU_S)
        except CheckerFailure as failure:
            outcomes = [f"the math checker does not run: {failure}"] * len(undecided)
        graded = {
            answer: correct(route=result.method) if result.equal else wrong(result.reason, result.method)
            for answer, result in compared.items()
        }
        graded |= zip(undecided, map(_by_checker, outcomes), strict=True)
        return [
            wrong(reading.reason, reading.route)
            if reading.answer is None
            else Verdict((grade := graded[reading.answer]).status, grade.reason, f"{reading.route}, {grade.route}")
            for reading in readings
        ]

    def audit(self, problem: Problem, response: str, *, finish: str = "") -> Verdict:
        """Return the verdict of the strict rule, which has no fallback. It compares strings, in microseconds."""
        return strict_verdict(self.strict, str(problem.reference), response)


def _by_checker(outcome: str) -> Verdict:
    match outcome:
        case "equal":
            return correct(route="math-verify")
        case "gold":
            return wrong("different", "text only, the reference does not parse")
        case "different" | "unparsed":
            return wrong(outcome, "math-verify")
        case "timeout" | "memory" | "crashed":
            return wrong(f"checker {outcome}", "math-verify")
        case "lost":
            outcome = "the math checker was lost twice on this answer"
        case "over":
            bound = f"{PROBLEM_CPU_S:g} CPU seconds"
            outcome = f"not checked: other answers to this problem used up the math checker's {bound}"
    return error(outcome, "math-verify")
