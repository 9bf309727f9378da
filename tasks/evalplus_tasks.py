'''MBPP+ and HumanEval+: Python functions, run on evalplus' tests (Liu et al. 2023, arXiv:2305.01210).

Example, invented (MBPP+, id `Mbpp/123`): the prompt is a docstring,

    """
    Write a function to add the even numbers of a list.
    assert sum_even([1, 2, 4]) == 6
    """

and a correct response ends in a block ```python def sum_even(numbers): ... ```. HumanEval+'s prompts (`HumanEval/12`)
are the beginning of the function, its docstring included. A response is correct if its program (`program_text`) gives
the canonical solution's result on every test: the original ones ("base") and evalplus' own ("plus", the default;
`mbppplus:tests=base` leaves these away). Equality is evalplus' (`evalplus_oracle`), the limits are evalplus' in
CPU-seconds, and the program runs in the sandbox: evalplus' own guard was passed by five wrong programs of fifty, and
let others kill the grader, open connections and write files.

Data: evalplus' release files MbppPlus v0.2.0 (378 problems) and HumanEvalPlus v0.1.10 (164), through evalplus' download
(extra `code`), known by their SHA-256. `data` reads a file in that layout instead: JSONL, also gzipped, or parquet,
where a nested column may be JSON text.

The paper's pools for MBPP+: 6,400 responses of up to 768 tokens at top_p 0.95. It has no figures on HumanEval+.
'''

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import re
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness import HarnessError, Message, Problem, Task, Verdict, hookimpl, wrong
from harness.hookspecs import Register

from .data import sources
from .data.sources import Hub, Row
from .programs import program_grading
from .programs.evalplus_oracle import VERSION
from .programs.program_grading import Exercise
from .programs.program_text import program_in
from .sandbox import Sandbox, find_tier, shared_sandbox

PROMPT = (  # the problem in a block of its own: models that follow it answer in one (tests/bench/code_prompts.py)
    "Write a Python program for this problem, with the imports that it needs. Answer with one Markdown code block "
    "that holds the whole program.\n```\n{problem}\n```\n"
)
UNSAFE_EXEC = "HARNESS_UNSAFE_EXEC"  # worker processes, started later, inherit it
CONNECT_S = 20.0


@dataclass(frozen=True)
class Release:
    """One of evalplus' release files: as its download names it, and the SHA-256 of the unpacked file."""

    name: str
    version: str
    sha256: str


MBPP_PLUS = Release("MbppPlus", "v0.2.0", "b54e762755248ca411b523c917fa9f93c07b5ff2966bf60b3917b853926a3dad")
HUMANEVAL_PLUS = Release("HumanEvalPlus", "v0.1.10", "42526ec0e7d5f3ee0b06d6ced98f8c8bae3d76519151bfb3d36f79010645bd7f")


@dataclass(frozen=True)
class EvalPlus(Task):
    """What both tasks share. `tests`: "base" leaves evalplus' own tests away, for figures beside older papers'."""

    n = 64
    splits = ("test",)
    reads_finish = True
    grader = "2"
    dataset: ClassVar[str]
    release: ClassVar[Release]

    data: str | None = None
    tests: Literal["plus", "base"] = "plus"

    def __post_init__(self) -> None:
        if self.tests not in ("plus", "base"):
            raise HarnessError(f"{self._name}: tests must be 'plus' or 'base', got {self.tests!r}")

    @property
    def _name(self) -> str:
        return f"{self.dataset}plus"

    @property
    def _source(self) -> Hub:
        release = self.release
        return Hub(self._name, release.name, release.version, f"in the layout of evalplus' {release.name}.jsonl")

    @property
    def revision(self) -> str:
        """The release's version, or the file's hash."""
        return sources.revision(self._source, self.data)

    def problems(self, split: str) -> list[Problem]:
        """The problems, in the file's order."""
        sources.refuse_unknown(self._name, split, self.splits)
        data = self.data or str(_downloaded(self._name, self.release))
        return sources.problems(sources.rows(self._source, split, data), _problem)

    def check(self, unsafe_exec: bool = False) -> str:
        """Which sandbox grades. Raises HarnessError where evalplus is missing or nothing confines programs.

        The tier is tried out with programs that attack it, and with an honest one.
        """
        for module in ("evalplus.eval", "evalplus.data.mbpp"):
            _imported(self._name, module)
        os.environ.pop(UNSAFE_EXEC, None)
        if unsafe_exec:
            os.environ[UNSAFE_EXEC] = "1"
        return find_tier(unsafe_exec)[1]

    def conditions(self) -> Mapping[str, str]:
        """The tier of the sandbox."""
        return {"sandbox": _sandbox().tier}

    def messages(self, problem: Problem) -> list[Message]:
        """One user message: `PROMPT` with the problem."""
        return [{"role": "user", "content": PROMPT.format(problem=problem.prompt.strip())}]

    def verify(self, problem: Problem, response: str, *, finish: str = "") -> Verdict:
        """The verdict on one response; a process of its own runs its program."""
        return self.verify_all(problem, [response], finish=[finish])[0]

    def verify_all(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[Verdict]:
        """Correct on `base+plus` if every test passes; else wrong and why (`plus: test 41 raised ValueError`).

        Tests are counted from 1. Of equal programs one is run. An `error` is the sandbox's or the data's.
        """
        programs = self._programs(problem, responses, finish)
        distinct = [program for program in dict.fromkeys(programs) if program is not None]
        made = self._graded(problem, distinct) if distinct else []
        verdicts = dict(zip(distinct, made, strict=True))
        return [wrong("no program") if program is None else verdicts[program] for program in programs]

    def answer(self, problem: Problem, response: str, *, finish: str = "") -> str | None:
        """The program in one spelling: its syntax tree as source, without comments; None where there is none."""
        return self.answers(problem, [response], finish=[finish])[0]

    def answers(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[str | None]:
        """The same for many responses. They are parsed in the sandbox: text can crash a parser."""
        programs = self._programs(problem, responses, finish)
        distinct = [program for program in dict.fromkeys(programs) if program is not None]
        forms = dict(zip(distinct, _sandbox().normalised(distinct), strict=True)) if distinct else {}
        return [None if program is None else forms[program] for program in programs]

    def verdict_key(self, problem: Problem, response: str, answer: str | None, *, finish: str = "") -> str | None:
        """The program, letter by letter: it can see its line numbers, names and docstrings, and act upon them."""
        return self._programs(problem, [response], [finish])[0]

    def _programs(self, problem: Problem, responses: Sequence[str], finish: Sequence[str] | None) -> list[str | None]:
        ends = finish if finish is not None else [""] * len(responses)
        entry_point, prompt = problem.meta["entry_point"], problem.prompt
        return [
            program_in(response, entry_point, prompt, cut_off=end == "length")
            for response, end in zip(responses, ends, strict=True)
        ]

    def _graded(self, problem: Problem, programs: Sequence[str]) -> list[Verdict]:
        key = _key(self.dataset, self.tests, problem)
        return program_grading.grade(key, _sandbox(), lambda: self._exercise(problem), programs)

    def _exercise(self, problem: Problem) -> Exercise:
        meta = problem.meta
        runs = {name: self._inputs(problem, meta[f"{name}_input"]) for name in ("base", "plus")[: 1 + self._plus]}
        return Exercise(self.dataset, meta["entry_point"], problem.prompt + problem.reference, runs, meta["atol"])

    @property
    def _plus(self) -> bool:
        return self.tests == "plus"

    def _inputs(self, problem: Problem, given: list[Any]) -> Sequence[Sequence[Any]]:
        """The arguments of each test, from what JSON could hold of them."""
        return given


@dataclass(frozen=True)
class MbppPlus(EvalPlus):
    """The 378 problems of MBPP+, or a local file's."""

    max_tokens = 768
    paper: ClassVar[Mapping[str, Any]] = {"n": 6400, "max_tokens": 768, "sampler": {"top_p": 0.95}}
    dataset = "mbpp"
    release = MBPP_PLUS

    def plain(self, problem: Problem) -> str:
        """The docstring and a newline, to be continued with code."""
        return problem.prompt.strip() + "\n"

    def _inputs(self, problem: Problem, given: list[Any]) -> Sequence[Sequence[Any]]:
        """Evalplus' own: lists become tuples, sets or complex numbers for some 70 problems, by their number."""
        inputs: Sequence[Sequence[Any]] = _imported(self._name, "evalplus.data.mbpp").mbpp_deserialize_inputs(
            problem.id, given
        )
        return inputs


@dataclass(frozen=True)
class HumanEvalPlus(EvalPlus):
    """The 164 problems of HumanEval+, or a local file's; the paper has no figures on them."""

    max_tokens = 512
    dataset = "humaneval"
    release = HUMANEVAL_PLUS

    def plain(self, problem: Problem) -> str:
        """The beginning of the function, to be continued with its body."""
        return problem.prompt


def _sandbox() -> Sandbox:
    return shared_sandbox(os.environ.get(UNSAFE_EXEC) == "1")


def _key(dataset: str, tests: str, problem: Problem) -> str:
    """A hash of all that the ground truth depends on. Python's version too: Mbpp/596 asks for an object's size."""
    parts = [VERSION, sys.version_info[:2], dataset, tests, problem.id, problem.prompt, problem.reference]
    return _hash([*parts, problem.meta["sha256"]])[:32]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


# The data


def _problem(row: Row) -> Problem:
    """The problem of one row, its inputs as JSON has them, with a hash of them."""
    name, entry_point = row.text("task_id"), row.text("entry_point")
    if not re.fullmatch(r"(Mbpp|HumanEval)/[0-9]+", name):
        raise row.fault(f"task_id must be Mbpp/NUMBER or HumanEval/NUMBER, got {name!r:.60}")
    if not entry_point.isidentifier():
        raise row.fault(f"entry_point must be a function's name, got {entry_point!r:.60}")
    meta: dict[str, Any] = {
        "entry_point": entry_point,
        "base_input": _tests(row, "base_input"),
        "plus_input": _tests(row, "plus_input"),
        "atol": _tolerance(row),
    }
    meta["sha256"] = _hash(meta)  # here, once: the inputs are up to 0.4 MB
    return Problem(name, row.text("prompt"), row.text("canonical_solution"), meta)


def _tests(row: Row, column: str) -> list[Any]:
    """The arguments of each test; Mbpp/793 has an empty object where a list is meant."""
    value = row.find(column)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as failure:
            raise row.fault(f"column {column!r} is no JSON ({failure})") from failure
    if value == {}:
        return []
    if not isinstance(value, list) or not all(isinstance(given, list) for given in value):
        raise row.fault(f"column {column!r} must be a list with a list of arguments for each test")
    return value


def _tolerance(row: Row) -> float:
    value = row.find("atol")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise row.fault(f"column 'atol' must be a number of at least 0, got {value!r:.60}")
    return value


def _imported(task: str, module: str) -> Any:
    """A module of evalplus, imported when it is needed: it loads pandas."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as failure:
        raise HarnessError(f"{task}: needs evalplus ({failure}): pip install 'diversity-harness[code]'") from failure


def _downloaded(task: str, release: Release) -> Path:
    """Where evalplus keeps its release file; it is downloaded if it is not there."""
    files = _imported(task, "evalplus.data.utils")
    url, place = files.get_dataset_metadata(release.name, release.version, False)
    try:
        with _patience(CONNECT_S), contextlib.redirect_stdout(sys.stderr):
            files.make_cache(url, place)
        found = hashlib.sha256(Path(place).read_bytes()).hexdigest()
    except (OSError, EOFError, ValueError) as failure:
        raise HarnessError(
            f"{task}: {url} is not on this machine and could not be downloaded ({failure}): "
            f"give the file with --data FILE"
        ) from failure
    if found != release.sha256:
        raise HarnessError(f"{task}: {place} is not {release.name} {release.version}: delete it, or give --data FILE")
    return Path(place)


@contextlib.contextmanager
def _patience(seconds: float) -> Iterator[None]:
    """A bound for connections that are opened without one, as evalplus' download is."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@hookimpl
def register_tasks(register: Register) -> None:
    """The tasks `mbppplus` and `humanevalplus`."""
    register("mbppplus", "harness_tasks.evalplus_tasks:MbppPlus")
    register("humanevalplus", "harness_tasks.evalplus_tasks:HumanEvalPlus")
