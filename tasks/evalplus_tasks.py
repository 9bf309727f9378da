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

import gzip
import hashlib
import json
import os
import re
import sys
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import platformdirs

from harness import HarnessError, Message, Problem, Task, Verdict, wrong
from harness.contracts import Ran
from harness.errors import Lacking
from harness.system.files import write_atomically
from harness.system.json_text import parsed

from .data import sources
from .data.sources import Row
from .programs import program_grading
from .programs.behaviour import behaviours
from .programs.evalplus_oracle import VERSION
from .programs.example_inputs import example_inputs
from .programs.program_grading import Exercise
from .programs.program_text import Program, defines_a_function, program_in
from .sandbox import Sandbox, find_tier, shared_sandbox

# The problem is in a separate block: models that follow this form then answer in one.
PROMPT = (
    "Write a Python program for this problem, with the imports that it needs. Answer with one Markdown code block "
    "that holds the whole program.\n```\n{problem}\n```\n"
)
MOST_INPUTS = 100
MOST_BYTES = 100_000_000  # of a release; the larger one has 8 million
ANSWERS_S = 20.0  # how long a server may be silent
UNSAFE_EXEC = "HARNESS_UNSAFE_EXEC"  # an environment variable, so that worker processes started later inherit it

Item = TypeVar("Item")
Result = TypeVar("Result")
Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class Release:
    """One release file: its name and version as evalplus' download has them, and the SHA-256 of the unpacked file."""

    name: str
    version: str
    sha256: str

    @property
    def url(self) -> str:
        """Return the address of the packed file."""
        place = f"evalplus/{self.name.lower()}_release/releases/download/{self.version}"
        return f"https://github.com/{place}/{self.name}.jsonl.gz"

    @property
    def path(self) -> Path:
        """Return the path of the unpacked file in evalplus' own cache, so that either finds what the other fetched."""
        return platformdirs.user_cache_path("evalplus", appauthor=False) / f"{self.name}-{self.version}.jsonl"


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
    def revision(self) -> str:
        return sources.revision(self._name, self.data, self.release.version)

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
        return sources.problems(sources.file_rows(self._name, data), _problem)

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
        # All that the ground truth depends on; Python's version too, since Mbpp/596 asks for the size of an object.
        parts = [VERSION, sys.version_info[:2], self.dataset, self.tests, problem.id, problem.prompt]
        key = _json_hash([*parts, problem.reference, problem.meta["sha256"]])[:32]

        def grade(programs: Sequence[Program]) -> list[Verdict]:
            return program_grading.grade(key, _sandbox(), lambda: self.exercise(problem), programs)

        verdicts = _once_each(self._programs(problem, responses, finish), grade)
        name = problem.meta["entry_point"]
        return [
            verdict or wrong(f"no function {name}" if defines_a_function(text) else "no program")
            for text, verdict in zip(responses, verdicts, strict=True)
        ]

    def exercise(self, problem: Problem) -> Exercise:
        """What a program must do: the entry point, the canonical program and the inputs of each set of tests."""
        meta, names = problem.meta, ["base"] if self.tests == "base" else ["base", "plus"]
        runs = {name: converted(problem.id, meta[f"{name}_input"]) for name in names}
        return Exercise(self.dataset, meta["entry_point"], problem.prompt + problem.reference, runs, meta["atol"])

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
        texts = [program and program.source for program in self._programs(problem, responses, finish)]
        return _once_each(texts, lambda distinct: _sandbox().normalised(distinct))  # text can crash a parser

    def run_answers(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[Ran | None]:
        """Return a digest of what each response's program returns on inputs made from the prompt, and its CPU seconds.

        The digest is None for a response without a program, or whose program has no behaviour (`programs.behaviour`).
        Equal programs run once. No test is read: neither its input nor its expected output.
        """
        entry_point, programs = problem.meta["entry_point"], self._programs(problem, responses, finish)
        inputs = example_inputs(problem.prompt, entry_point, self.inputs)
        ran = _once_each(programs, lambda distinct: behaviours(_sandbox(), entry_point, inputs, distinct))
        first = {program: place for place, program in reversed(list(enumerate(programs)))}
        return [
            Ran(None, 0.0) if program is None else each and each._replace(cpu_s=each.cpu_s * (first[program] == place))
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


@dataclass(frozen=True)
class MbppPlus(EvalPlus):
    """The 378 problems of MBPP+, or those of a local file."""

    max_tokens = 768
    sizes: ClassVar[Mapping[str, int]] = {"test": 378}
    paper: ClassVar[Mapping[str, Any]] = {"n": 6400, "max_tokens": 768, "sampler": {"top_p": 0.95}}
    dataset = "mbpp"
    release = Release("MbppPlus", "v0.2.0", "b54e762755248ca411b523c917fa9f93c07b5ff2966bf60b3917b853926a3dad")

    def plain(self, problem: Problem) -> str:
        """Return the docstring and a newline, for models that continue it with code."""
        return problem.prompt.strip() + "\n"


@dataclass(frozen=True)
class HumanEvalPlus(EvalPlus):
    """The 164 problems of HumanEval+, or those of a local file. The paper has no values for them."""

    max_tokens = 512
    sizes: ClassVar[Mapping[str, int]] = {"test": 164}
    dataset = "humaneval"
    release = Release("HumanEvalPlus", "v0.1.10", "42526ec0e7d5f3ee0b06d6ced98f8c8bae3d76519151bfb3d36f79010645bd7f")

    def plain(self, problem: Problem) -> str:
        """Return the beginning of the function, for models that continue it with its body."""
        return problem.prompt


def _once_each(items: Sequence[Item | None], work: Callable[[Sequence[Item]], Sequence[Result]]) -> list[Result | None]:
    """Return the result for each item, None for None; `work` gets each distinct item once, and no empty list."""
    distinct = [item for item in dict.fromkeys(items) if item is not None]
    results = dict(zip(distinct, work(distinct), strict=True)) if distinct else {}
    return [None if item is None else results[item] for item in items]


def _sandbox() -> Sandbox:
    return shared_sandbox(os.environ.get(UNSAFE_EXEC) == "1")


# The release files


def downloaded(task: str, release: Release) -> Path:
    """Return the path of a release file in evalplus' cache; it is downloaded if it is missing.

    Raises HarnessError if the download fails, or if the file's SHA-256 is not that of the release.

    task   its name begins every error message
    """
    path = release.path
    is_here = path.exists()
    try:
        if is_here:
            content = path.read_bytes()
        else:
            with urllib.request.urlopen(release.url, timeout=ANSWERS_S) as answer, gzip.open(answer) as unpacked:
                content = bytes(unpacked.read(MOST_BYTES + 1))
            if len(content) > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES:,} bytes")
    except (OSError, EOFError, ValueError, zlib.error, HTTPException) as failure:
        raise Lacking(
            f"{task}: {release.url} is not on this machine and could not be downloaded ({failure}): "
            f"give the file with --data FILE"
        ) from failure
    if hashlib.sha256(content).hexdigest() != release.sha256:
        where, remedy = (path, "delete it, or") if is_here else (release.url, "try again, or")
        raise HarnessError(f"{task}: {where} is not {release.name} {release.version}: {remedy} give --data FILE")
    if not is_here:
        write_atomically(path, content)
    return path


def _problem(row: Row) -> Problem:
    """Return the problem of one row.

    Its reference is the canonical solution. Its `meta` holds the tests' arguments as JSON has them (`base_input`,
    `plus_input`), the `entry_point`, the tolerance `atol`, and `sha256`, a hash of these.
    """
    name, entry_point, atol = row.text("task_id"), row.text("entry_point"), row.find("atol")
    if not re.fullmatch(r"(Mbpp|HumanEval)/[0-9]+", name):
        raise row.fault(f"task_id must be Mbpp/NUMBER or HumanEval/NUMBER, got {name!r:.60}")
    if not entry_point.isidentifier():
        raise row.fault(f"entry_point must be a function's name, got {entry_point!r:.60}")
    meta: dict[str, Any] = {"entry_point": entry_point}
    meta |= {column: _tests(row, column) for column in ("base_input", "plus_input")}
    if isinstance(atol, bool) or not isinstance(atol, (int, float)) or not 0 <= atol < float("inf"):
        raise row.fault(f"column 'atol' must be a number of at least 0, got {atol!r:.60}")
    meta["atol"] = atol
    meta["sha256"] = _json_hash(meta)  # computed once, since the inputs are up to 0.4 MB
    return Problem(name, row.text("prompt"), row.text("canonical_solution"), meta)


def _json_hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _tests(row: Row, column: str) -> list[Any]:
    """Return the arguments of each test. For no tests, Mbpp/793 has an empty object instead of a list."""
    value = row.find(column)
    if isinstance(value, str):
        try:
            value = parsed(value, "tests", lenient=True)
        except (ValueError, RecursionError) as failure:
            raise row.fault(f"column {column!r} is no JSON ({failure})") from failure
    if value == {}:
        return []
    if not isinstance(value, list) or not all(isinstance(arguments, list) for arguments in value):
        raise row.fault(f"column {column!r} must be a list with a list of arguments for each test")
    return value


# MBPP+'s tests: JSON has no tuples, sets or complex numbers


def converted(name: str, inputs: Sequence[Any]) -> list[Any]:
    """Return the arguments of each test of the problem of this name, in the types that its solution takes.

    For some 70 problems of MBPP+ the release file holds lists in the place of other types. Which argument of which
    problem becomes what is a table of evalplus (0.3.1, `data/mbpp.py`); a test compares ours with it over the whole
    release. Mbpp/2 takes two tuples: `converted("Mbpp/2", [[[3, 4], [5, 4]]])` is `[[(3, 4), (5, 4)]]`.
    """
    dataset, _, number = name.rpartition("/")
    converts = [convert for convert, numbers in _CONVERSIONS if dataset == "Mbpp" and int(number) in numbers]
    return [converts[0](arguments) for arguments in inputs] if converts else list(inputs)


def _deep(value: Any) -> Any:
    """Convert a list and all lists inside to tuples."""
    return tuple(map(_deep, value)) if isinstance(value, list) else value


def _set_or_dict(value: Any) -> Any:
    return set(value) if isinstance(value, list) and value else {}


# Conversions of a test's list of arguments, with the numbers of the problems
_CONVERSIONS: list[tuple[Convert, set[int]]] = [
    (
        lambda test: [tuple(value) for value in test],
        {
            *(2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424),
            *(429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809),
        },
    ),
    (
        lambda test: [[tuple(item) for item in value] for value in test],
        {63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780},
    ),
    (lambda test: [tuple(map(tuple, value)) for value in test], {259, 401, 445}),
    (lambda test: [[tuple(item) for item in test[0]], *test[1:]], {75, 413, 444, 753}),
    (lambda test: [tuple(test[0]), *test[1:]], {250, 307, 405, 446, 617, 720, 763, 808}),
    (lambda test: [test[0], tuple(test[1]), *test[2:]], {106, 750}),
    (lambda test: [{key: tuple(value) for key, value in test[0].items()}, *test[1:]], {722}),
    (lambda test: [complex(test[0]), *test[1:]], {252}),
    (lambda test: (float(test[0]), complex(test[1])), {124}),
    (lambda test: [[_set_or_dict(item) for item in value] for value in test], {115}),
    (lambda test: [tuple(tuple(item) if isinstance(item, list) else item for item in value) for value in test], {278}),
    (_deep, {580, 615, 791}),
]
