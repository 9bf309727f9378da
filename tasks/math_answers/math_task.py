"""`MathTask`: what the tasks with a mathematical answer share; `problem.reference` is the answer, a string."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import ClassVar, NamedTuple

from harness import HarnessError, Message, Problem, Task, Verdict, correct, error, wrong

from .checker_process import CheckerFailure
from .equality import Claims, Comparison, compare
from .extraction import Extraction, Statements, final_statement
from .normal_form import normal_form
from .strict_rules import strict_verdict
from .workers import OVER, shared_workers

PROBLEM_CPU_S = 20.0  # of checks by math-verify in one grading of a problem's responses: 9 that never end, or thousands

FALLBACK = "fallback"  # the route of an answer that is not stated as the task asks for it


class Reading(NamedTuple):
    """A response's final answer: its normal form (None without one), where it stood, why there is none."""

    answer: str | None
    route: str
    reason: str


class MathTask(Task):
    r"""Verdicts on final answers. A task that inherits gives `problems`, `messages` and its settings.

    statements   what the task asks its models for: "boxed" (`\boxed{x}`) or "####" (a last line `#### x`)
    strict       the rule that `audit` applies: Hendrycks' ("boxed") or GSM8K's ("####")
    fallback     whether a response that states no answer so is graded by what it says last; a parameter of each task. A
                 response that the token limit cut off is not: its last number is one of the way, not of the end.
    """

    instruction: ClassVar[str]
    statements: ClassVar[Statements] = "boxed"
    strict: ClassVar[Statements] = "boxed"
    reads_finish = True
    chance_gradings = 1024
    fallback: bool = True

    @property
    def grader(self) -> str:
        """The version of these rules, and of math-verify, which decides what they leave open."""
        return f"2, math-verify {version('math-verify') if find_spec('math_verify') else 'missing'}"

    def check(self, unsafe_exec: bool = False) -> str:
        """No remark: nothing runs that a response wrote. Raises HarnessError where math-verify is not installed."""
        if find_spec("math_verify") is None:
            raise HarnessError("math answers need math-verify, which is not installed: pip install math-verify")
        return ""

    def messages(self, problem: Problem) -> list[Message]:
        """Return one user message: the problem, a space and the instruction."""
        return [{"role": "user", "content": f"{problem.prompt} {self.instruction}"}]

    def read(self, response: object, finish: str = "") -> Reading:
        """A response's final answer in normal form; 5 to 50 µs, never raises. `finish`: "length" if it was cut off."""
        found: Extraction = final_statement(response, self.statements)
        if found.answer is None:
            return Reading(None, found.route, found.reason)
        if found.route == FALLBACK and (finish == "length" or not self.fallback):
            return Reading(None, "", "cut off" if finish == "length" else "not stated as asked")
        answer = normal_form(found.answer)
        return Reading(answer or None, found.route, "" if answer else "no answer")

    def answer(self, problem: Problem, response: str, *, finish: str = "") -> str | None:
        """The final answer in normal form; None where there is none."""
        return self.read(response, finish).answer

    def answers(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[str | None]:
        """The same for many responses."""
        return [reading.answer for reading in self._read_all(responses, finish)]

    def verdict_key(self, problem: Problem, response: str, answer: str | None, *, finish: str = "") -> str | None:
        """The answer and where it stood, if it counts (`finish`): a verdict depends on nothing else."""
        return None if answer is None else f"{self.read(response, finish).route}:{answer}"

    def verify(self, problem: Problem, response: str, *, finish: str = "") -> Verdict:
        """Correct where the final answer equals the reference; else wrong and why. Up to 2 s of CPU elsewhere."""
        return self.verify_all(problem, [response], finish=[finish])[0]

    def verify_all(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[Verdict]:
        """The same for many responses: every distinct answer once, those that need algebra on all cores.

        Their checks have `PROBLEM_CPU_S` CPU seconds together; an answer that none is left for is an error, not wrong.
        """
        gold = str(problem.reference)
        readings = self._read_all(responses, finish)
        answers = dict.fromkeys(reading.answer for reading in readings if reading.answer is not None)
        graded = _graded(gold, list(answers))
        return [_verdict(reading, graded) for reading in readings]

    def audit(self, problem: Problem, response: str, *, finish: str = "") -> Verdict:
        """What the strict rule says, which knows no fallback; strings only, microseconds."""
        return strict_verdict(self.strict, str(problem.reference), response)

    def _read_all(self, responses: Sequence[str], finish: Sequence[str] | None) -> list[Reading]:
        ends = finish if finish is not None else [""] * len(responses)
        return [self.read(response, end) for response, end in zip(responses, ends, strict=True)]


class _Grade(NamedTuple):
    status: str
    way: str
    reason: str = ""


def _verdict(reading: Reading, graded: dict[str, _Grade]) -> Verdict:
    if reading.answer is None:
        return wrong(reading.reason, reading.route)
    grade = graded[reading.answer]
    route = f"{reading.route}, {grade.way}"
    return {"correct": correct, "wrong": wrong, "error": error}[grade.status](grade.reason, route)


def _graded(gold: str, answers: Sequence[str]) -> dict[str, _Grade]:
    """The grade of each answer; algebra only where nothing cheaper decides."""
    compared = {answer: compare(gold, answer) for answer in answers}
    graded = {answer: _grade(result) for answer, result in compared.items()}
    open_ones = {answer: result.claims for answer, result in compared.items() if result.equal is None}
    if open_ones:
        graded |= _by_math_verify(open_ones)
    return graded


def _grade(result: Comparison) -> _Grade:
    return _Grade("correct" if result.equal else "wrong", result.way, result.reason)


def _by_math_verify(open_ones: dict[str, Claims]) -> dict[str, _Grade]:
    answers = sorted(open_ones, key=lambda answer: (len(answer), answer))  # whatever the order of the responses
    try:
        outcomes = shared_workers().check([open_ones[answer] for answer in answers], PROBLEM_CPU_S)
    except CheckerFailure as failure:
        fault = _Grade("error", "math-verify", f"the math checker does not run: {failure}")
        return dict.fromkeys(open_ones, fault)
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
