"""`MathTask`: the base class of tasks with a mathematical answer, which is `problem.reference`, a string."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import ClassVar, NamedTuple

from harness import Message, Problem, Task, Verdict, correct, error, wrong
from harness.system import extras

from .checker_process import CheckerFailure
from .equality import Claims, Comparison, compare
from .extraction import Extraction, Statements, final_statement
from .normal_form import normal_form
from .strict_rules import strict_verdict
from .workers import OVER, shared_workers

# For all checks by math-verify in one grading of a problem's responses: 9 that never end, or thousands of usual ones.
PROBLEM_CPU_S = 20.0

FALLBACK = "fallback"  # the route of an answer that is not stated in the form that the task asks for


class Reading(NamedTuple):
    """A response's final answer.

    answer   its normal form; None without an answer
    route    the form in which it is stated: "boxed", "####" or "fallback"; without an answer "", or the form of a text
             that cannot be one ("boxed" for a box that was cut off)
    reason   why there is no answer; "" if there is one
    """

    answer: str | None
    route: str
    reason: str


class MathTask(Task):
    r"""Grades final answers. A subclass adds `problems` and its settings.

    instruction  what the prompt says after the problem
    statements   the form that the task asks for: "boxed" (`\boxed{x}`) or "####" (a last line `#### x`)
    strict       the rule that `audit` applies: Hendrycks' ("boxed") or GSM8K's ("####")
    fallback     whether a response without an answer in that form is graded by what it states last; a parameter of each
                 task. This never applies if the token limit cut it off: its last number is an intermediate result.
    """

    instruction: ClassVar[str]
    statements: ClassVar[Statements] = "boxed"
    strict: ClassVar[Statements] = "boxed"
    reads_finish = True
    chance_gradings = 1024
    fallback: bool = True

    @property
    def grader(self) -> str:
        """Return the version of these rules and that of math-verify, which decides what the rules leave open."""
        return f"2, math-verify {version('math-verify') if find_spec('math_verify') else 'missing'}"

    def check(self, unsafe_exec: bool = False) -> str:
        """Return "": no remark, since no code of a response is run. Raises HarnessError if math-verify is missing."""
        extras.require("the check of math answers", "math_verify")
        return ""

    def messages(self, problem: Problem) -> list[Message]:
        """Return one user message: the problem, a space and the instruction."""
        return [{"role": "user", "content": f"{problem.prompt} {self.instruction}"}]

    def read(self, response: object, finish: str = "") -> Reading:
        """Return a response's final answer in normal form. Takes 5 to 50 µs, never raises.

        finish   "length" if the token limit cut the response off
        """
        statement: Extraction = final_statement(response, self.statements)
        if statement.answer is None:
            return Reading(None, statement.route, statement.reason)
        if statement.route == FALLBACK and (finish == "length" or not self.fallback):
            return Reading(None, "", "cut off" if finish == "length" else "not stated as asked")
        answer = normal_form(statement.answer)
        return Reading(answer or None, statement.route, "" if answer else "no answer")

    def answer(self, problem: Problem, response: str, *, finish: str = "") -> str | None:
        """Return the response's final answer in normal form; None if it gives none.

        Two spellings that only algebra shows to be equal stay two answers. `finish`: how the response ended; one that
        was cut off has no answer by fallback.
        """
        return self.read(response, finish).answer

    def answers(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[str | None]:
        """Return the `answer` of each response."""
        return [reading.answer for reading in self._read_all(responses, finish)]

    def verdict_key(self, problem: Problem, response: str, answer: str | None, *, finish: str = "") -> str | None:
        """Return the answer and its route, on which alone the verdict depends; None if no answer counts."""
        return None if answer is None else f"{self.read(response, finish).route}:{answer}"

    def verify(self, problem: Problem, response: str, *, finish: str = "") -> Verdict:
        """Return correct if the final answer equals the reference, wrong if not, error if it could not be checked.

        A check by math-verify may take 2 CPU seconds, in another process.
        """
        return self.verify_all(problem, [response], finish=[finish])[0]

    def verify_all(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[Verdict]:
        """Return the verdict on each response. Each distinct answer is graded once; algebra uses all cores.

        All checks by math-verify share `PROBLEM_CPU_S` CPU seconds. An answer with no time left for it is an error,
        not wrong.
        """
        gold = str(problem.reference)
        readings = self._read_all(responses, finish)
        answers = dict.fromkeys(reading.answer for reading in readings if reading.answer is not None)
        graded = _graded(gold, list(answers))
        return [_verdict(reading, graded) for reading in readings]

    def audit(self, problem: Problem, response: str, *, finish: str = "") -> Verdict:
        """Return the verdict of the strict rule, which has no fallback. It compares strings, in microseconds."""
        return strict_verdict(self.strict, str(problem.reference), response)

    def _read_all(self, responses: Sequence[str], finish: Sequence[str] | None) -> list[Reading]:
        ends = finish if finish is not None else [""] * len(responses)
        return [self.read(response, end) for response, end in zip(responses, ends, strict=True)]


class _Grade(NamedTuple):
    """The verdict on an answer: its status, the method that decided it, and a reason."""

    status: str
    method: str
    reason: str = ""


def _verdict(reading: Reading, graded: dict[str, _Grade]) -> Verdict:
    if reading.answer is None:
        return wrong(reading.reason, reading.route)
    grade = graded[reading.answer]
    route = f"{reading.route}, {grade.method}"
    return {"correct": correct, "wrong": wrong, "error": error}[grade.status](grade.reason, route)


def _graded(gold: str, answers: Sequence[str]) -> dict[str, _Grade]:
    """Return the grade of each answer; math-verify is used only if nothing cheaper decides."""
    compared = {answer: compare(gold, answer) for answer in answers}
    graded = {answer: _grade(result) for answer, result in compared.items()}
    undecided = {answer: result.claims for answer, result in compared.items() if result.equal is None}
    if undecided:
        graded |= _by_math_verify(undecided)
    return graded


def _grade(result: Comparison) -> _Grade:
    return _Grade("correct" if result.equal else "wrong", result.method, result.reason)


def _by_math_verify(undecided: dict[str, Claims]) -> dict[str, _Grade]:
    """Return the grade of each answer by math-verify; `undecided` maps it to the claims to check."""
    answers = sorted(undecided, key=lambda answer: (len(answer), answer))  # independent of the responses' order
    try:
        outcomes = shared_workers().check([undecided[answer] for answer in answers], PROBLEM_CPU_S)
    except CheckerFailure as failure:
        fault = _Grade("error", "math-verify", f"the math checker does not run: {failure}")
        return dict.fromkeys(undecided, fault)
    return {answer: _from_outcome(outcome) for answer, outcome in zip(answers, outcomes, strict=True)}


def _from_outcome(outcome: str) -> _Grade:
    if outcome == "equal":
        return _Grade("correct", "math-verify")
    if outcome == "gold":
        return _Grade("wrong", "text only, the reference does not parse", "different")
    if outcome == "lost":
        return _Grade("error", "math-verify", "the math checker was lost twice on this answer")
    if outcome == OVER:
        reason = f"not checked: other answers to this problem used up the math checker's {PROBLEM_CPU_S:g} CPU seconds"
        return _Grade("error", "math-verify", reason)
    return _Grade("wrong", "math-verify", outcome if outcome in ("different", "unparsed") else f"checker {outcome}")
