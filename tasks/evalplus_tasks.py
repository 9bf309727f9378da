'''MBPP+ and HumanEval+: Python functions, run on evalplus' tests (Liu et al. 2023, arXiv:2305.01210).

How a response is graded: its program (`program_text`) runs in the sandbox, and is correct if it returns the canonical
solution's result on every test: the original ones ("base") and evalplus' own ("plus"). `mbppplus:tests=base` leaves the
latter out. Results are compared by evalplus' rules (`evalplus_oracle`), and the limits are evalplus', in CPU seconds.
evalplus' own checker is not used: five of fifty wrong programs passed it, and others killed the grader, opened
connections and wrote files.

A problem (`mbppplus`, id `Mbpp/17`): the prompt is a docstring,

    """
    Write a function that returns the perimeter of a square given its side length as input.
    assert square_perimeter(10)==40
    """

the reference is the canonical solution `def square_perimeter(a): return 4*a`, with the arguments of 101 plus and 3 base
tests. A correct response ends in a block ```python def square_perimeter(a): ... ```. The prompts of HumanEval+
(`HumanEval/12`) are the beginning of the function, docstring included.

Data: evalplus' release files MbppPlus v0.2.0 (378 problems) and HumanEvalPlus v0.1.10 (164), downloaded once into
evalplus' cache; their SHA-256 are pinned below. `data` reads a file in their layout instead: JSONL, also gzipped, or
parquet, whose nested columns may be JSON text.

The paper's pools for MBPP+: 6,400 responses of up to 768 tokens at top_p 0.95. It has no values for HumanEval+.
'''

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from harness import HarnessError, Message, Problem, Task, Verdict, wrong
from harness.contracts import Ran

from .data import sources
from .data.evalplus_release import Release, converted, downloaded, json_hash, problem_in
from .data.sources import Hub
from .programs import program_grading
from .programs.behaviour import Behaviour, behaviours
from .programs.evalplus_oracle import VERSION
from .programs.example_inputs import example_inputs
from .programs.program_grading import Exercise
from .programs.program_text import Program, defines_a_function, program_in
from .sandbox import Sandbox, find_tier, shared_sandbox

# The problem is in a separate block: models that follow this form then answer in one (tests/bench/code_prompts.py).
PROMPT = (
    "Write a Python program for this problem, with the imports that it needs. Answer with one Markdown code block "
    "that holds the whole program.\n```\n{problem}\n```\n"
)
MBPP_PLUS = Release("MbppPlus", "v0.2.0", "b54e762755248ca411b523c917fa9f93c07b5ff2966bf60b3917b853926a3dad")
HUMANEVAL_PLUS = Release("HumanEvalPlus", "v0.1.10", "42526ec0e7d5f3ee0b06d6ced98f8c8bae3d76519151bfb3d36f79010645bd7f")
MOST_INPUTS = 100
UNSAFE_EXEC = "HARNESS_UNSAFE_EXEC"  # an environment variable, so that worker processes started later inherit it

Item = TypeVar("Item")
Result = TypeVar("Result")
Without = TypeVar("Without")


@dataclass(frozen=True)
class EvalPlus(Task):
    """The base class of MBPP+ and HumanEval+.

    tests      "plus" (the default): the original tests and evalplus' own; "base": only the original ones, as in older
               papers
    answer_by  what makes two responses' answers equal: "program" (the default): their programs in one spelling;
               "behaviour": what their programs return on `inputs` inputs, made from the prompt (`programs.behaviour`)
    """

    n = 64
    splits = ("test",)
    grader = "3"
    dataset: ClassVar[str]
    release: ClassVar[Release]

    data: str | None = None
    tests: Literal["plus", "base"] = "plus"
    answer_by: Literal["program", "behaviour"] = "program"
    inputs: int = 6

    def __post_init__(self) -> None:
        for name, allowed in (("answer_by", ("program", "behaviour")), ("tests", ("plus", "base"))):
            if getattr(self, name) not in allowed:
                raise HarnessError(
                    f"{self._name}: {name} must be {allowed[0]!r} or {allowed[1]!r}, got {getattr(self, name)!r}"
                )
        if not 1 <= self.inputs <= MOST_INPUTS:
            raise HarnessError(f"{self._name}: inputs must be from 1 to {MOST_INPUTS}, got {self.inputs}")

    @property
    def _name(self) -> str:
        return f"{self.dataset}plus"

    @property
    def _source(self) -> Hub:
        release = self.release
        return Hub(self._name, release.name, release.version, f"in the layout of evalplus' {release.name}.jsonl")

    @property
    def revision(self) -> str:
        return sources.revision(self._source, self.data)

    @property
    def runs_answers(self) -> bool:
        return self.answer_by == "behaviour"

    @property
    def pools_as(self) -> str | None:  # type: ignore[override]
        """Return the task's spec without what changes answers only, which changes no response and no verdict."""
        if not self.runs_answers:
            return None
        return self._name if self.tests == "plus" else f"{self._name}:tests={self.tests}"

    def problems(self, split: str) -> list[Problem]:
        data = self.data or str(downloaded(self._name, self.release))
        return sources.problems(sources.rows(self._source, split, data), problem_in)

    def check(self, unsafe_exec: bool = False) -> str:
        """Return a line that names the sandbox, tried first. Raises HarnessError if nothing confines programs."""
        os.environ.pop(UNSAFE_EXEC, None)
        if unsafe_exec:
            os.environ[UNSAFE_EXEC] = "1"
        return find_tier(unsafe_exec)[1]

    def conditions(self) -> Mapping[str, str]:
        return {"sandbox": _sandbox().tier}

    def messages(self, problem: Problem) -> list[Message]:
        return [{"role": "user", "content": PROMPT.format(problem=problem.prompt.strip())}]

    def verify(self, problem: Problem, response: str, *, finish: str = "") -> Verdict:
        return self.verify_all(problem, [response], finish=[finish])[0]

    def verify_all(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[Verdict]:
        """Return the verdict on each response: correct if every test passes, else wrong with a reason.

        A reason is `plus: test 41 raised ValueError`, for example; tests are counted from 1. The route names the tests:
        `base+plus`, or `base`. Equal programs run once. An `error` is a fault of the grader or the data.

        finish   how each response ended; "length": the token limit cut it off. None: unknown
        """

        def grade(programs: Sequence[Program]) -> list[Verdict]:
            # All that the ground truth depends on; Python's version too, since Mbpp/596 asks for the size of an object.
            parts = [VERSION, sys.version_info[:2], self.dataset, self.tests, problem.id, problem.prompt]
            key = json_hash([*parts, problem.reference, problem.meta["sha256"]])[:32]
            return program_grading.grade(key, _sandbox(), lambda: self._exercise(problem), programs)

        verdicts = _once_each(self._programs(problem, responses, finish), grade, None)
        return [
            verdict or wrong(f"no function {problem.meta['entry_point']}" if defines_a_function(text) else "no program")
            for text, verdict in zip(responses, verdicts, strict=True)
        ]

    def answer(self, problem: Problem, response: str, *, finish: str = "") -> str | None:
        """Return the program in one spelling: its syntax tree as source, without comments.

        None if the response has no program, or one that does not parse. With `answer_by=behaviour`, the digest of what
        the program does (`run_answers`).
        """
        return self.answers(problem, [response], finish=[finish])[0]

    def answers(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[str | None]:
        if self.runs_answers:
            return [ran and ran.answer for ran in self.run_answers(problem, responses, finish=finish)]
        sources = [program and program.source for program in self._programs(problem, responses, finish)]
        return _once_each(sources, lambda distinct: _sandbox().normalised(distinct), None)  # text can crash a parser

    def run_answers(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[Ran | None]:
        """Return a digest of what each response's program returns on inputs made from the prompt, and its CPU seconds.

        The digest is None for a response without a program, or whose program has no behaviour (`programs.behaviour`).
        Equal programs run once. No test is read: neither its input nor its expected output.
        """
        entry_point, programs = problem.meta["entry_point"], self._programs(problem, responses, finish)
        inputs = example_inputs(problem.prompt, entry_point, self.inputs)

        def run(distinct: Sequence[Program]) -> list[Behaviour]:
            return behaviours(_sandbox(), entry_point, inputs, distinct)

        ran = _once_each(programs, run, Behaviour(None, 0.0))
        first = {program: place for place, program in reversed(list(enumerate(programs)))}
        return [
            None if each.fault else Ran(each.digest, each.cpu_s if first[program] == place else 0.0)
            for place, (program, each) in enumerate(zip(programs, ran, strict=True))
        ]

    def verdict_key(self, problem: Problem, response: str, answer: str | None, *, finish: str = "") -> str | None:
        """Return the program's exact text, since it can see its lines, names and docstrings; None without one.

        What the response lends to it is part of the key.
        """
        program = self._programs(problem, [response], [finish])[0]
        return program and "\0".join([program.source, *program.lent])

    def _programs(
        self, problem: Problem, responses: Sequence[str], finish: Sequence[str] | None
    ) -> list[Program | None]:
        ends = finish if finish is not None else [""] * len(responses)
        entry_point, prompt = problem.meta["entry_point"], problem.prompt
        return [
            program_in(response, entry_point, prompt, cut_off=end == "length")
            for response, end in zip(responses, ends, strict=True)
        ]

    def _exercise(self, problem: Problem) -> Exercise:
        meta = problem.meta
        names = ["base"] if self.tests == "base" else ["base", "plus"]
        runs: dict[str, Sequence[Sequence[Any]]] = {
            name: converted(problem.id, meta[f"{name}_input"]) for name in names
        }
        return Exercise(self.dataset, meta["entry_point"], problem.prompt + problem.reference, runs, meta["atol"])


@dataclass(frozen=True)
class MbppPlus(EvalPlus):
    """The 378 problems of MBPP+, or those of a local file."""

    max_tokens = 768
    sizes: ClassVar[Mapping[str, int]] = {"test": 378}
    paper: ClassVar[Mapping[str, Any]] = {"n": 6400, "max_tokens": 768, "sampler": {"top_p": 0.95}}
    dataset = "mbpp"
    release = MBPP_PLUS

    def plain(self, problem: Problem) -> str:
        """Return the docstring and a newline, for models that continue it with code."""
        return problem.prompt.strip() + "\n"


@dataclass(frozen=True)
class HumanEvalPlus(EvalPlus):
    """The 164 problems of HumanEval+, or those of a local file. The paper has no values for them."""

    max_tokens = 512
    sizes: ClassVar[Mapping[str, int]] = {"test": 164}
    dataset = "humaneval"
    release = HUMANEVAL_PLUS

    def plain(self, problem: Problem) -> str:
        """Return the beginning of the function, for models that continue it with its body."""
        return problem.prompt


def _once_each(
    programs: Sequence[Item | None], work: Callable[[Sequence[Item]], Sequence[Result]], no_program: Without
) -> list[Result | Without]:
    """Return the result for each program, in order; `work` gets each distinct program once, and no empty list."""
    distinct = [program for program in dict.fromkeys(programs) if program is not None]
    results = dict(zip(distinct, work(distinct), strict=True)) if distinct else {}
    return [no_program if program is None else results[program] for program in programs]


def _sandbox() -> Sandbox:
    return shared_sandbox(os.environ.get(UNSAFE_EXEC) == "1")
