"""Small problems of MBPP+ and HumanEval+, and exercises, with what grades programs for them."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from corpora.evalplus_results import PROGRAMS

from harness import Problem
from harness_tasks.evalplus_tasks import UNSAFE_EXEC, EvalPlus
from harness_tasks.programs.program_grading import Exercise, grade
from harness_tasks.programs.program_text import Program
from harness_tasks.sandbox import shared_sandbox
from support.json_lines import write_json_lines

SOLUTION = "def sum_even(numbers):\n    return sum(n for n in numbers if n % 2 == 0)\n"
ROW = {
    "task_id": "Mbpp/9001",
    "prompt": '"""\nWrite a function to add the even numbers of a list.\nassert sum_even([1, 2, 4]) == 6\n"""\n',
    "entry_point": "sum_even", "canonical_solution": SOLUTION, "base_input": [[[1, 2, 4]], [[]]],
    "plus_input": [[[2, -2]], [[10] * 50], [[3]]], "atol": 0,
}  # fmt: skip
BEGUN = 'def half(x: float) -> float:\n    """ Half of x.\n    >>> half(3.0)\n    1.5\n    """\n'
HALF = {
    "task_id": "HumanEval/9001", "prompt": BEGUN, "entry_point": "half", "canonical_solution": "    return x / 2\n",
    "base_input": [[3.0]], "plus_input": [[0.1], [-7.0]], "atol": 0,
}  # fmt: skip


def written(folder: Path, *rows: dict) -> str:
    """The path of a data file with these rows."""
    return str(write_json_lines(folder / "data.jsonl", rows))


def block(program: str) -> str:
    """A response with a program."""
    return f"```python\n{program}\n```"


def passes(exercise: Exercise, programs: Sequence[str]) -> list[bool]:
    """Whether each program is correct, by the sandbox and the oracle; AssertionError if one cannot be graded."""
    key = hashlib.sha256(repr(exercise).encode()).hexdigest()
    verdicts = grade(key, shared_sandbox(), lambda: exercise, list(map(Program, programs)))
    assert all(verdict.status != "error" for verdict in verdicts), verdicts
    return [verdict.status == "correct" for verdict in verdicts]


def corpus_verdicts(passes: Callable[[Exercise, list[str]], list[bool]]) -> list[tuple[str, list[bool]]]:
    """The functions of the corpus on whose programs a grader has other verdicts than evalplus, with these."""
    others = []
    for dataset, name, solution, base, plus, right, wrong in PROGRAMS:
        programs = [f"def {name}(a, b):\n    {body}\n" for body in (solution, *right, *wrong)]
        verdicts = passes(Exercise(dataset, name, programs[0], {"base": base, "plus": plus}, 0), programs)
        if verdicts != [True] * (1 + len(right)) + [False] * len(wrong):
            others.append((name, verdicts))
    return others


def verdicts_here(task: EvalPlus, problem: Problem, responses: Sequence[str]) -> tuple:
    """Verdicts and conditions of this process, which may be a worker, and whether it has loaded torch."""
    verdicts = [(verdict.status, verdict.reason) for verdict in task.verify_all(problem, responses)]
    return verdicts, task.conditions(), os.environ.get(UNSAFE_EXEC), "torch" in sys.modules
