"""verl's reward function: grades a response by the run's grader. Called from many threads, one response per call."""

from __future__ import annotations

import functools
import json
import os
from typing import Any

from harness.records import Problem
from harness_plugins.rl.run_files import read_problems

from ..shaping import Grader
from .run_options import current_run

ERRORS = "grading_errors.jsonl"  # in the run's folder: verdicts `error`; they count as wrong


@functools.cache
def _grader() -> Grader:
    return Grader(current_run())


@functools.cache
def _problems() -> dict[tuple[str, str], Problem]:
    """Return the run's problems by split and id."""
    run = current_run()
    return {(split, problem.id): problem for split, path in run.problems.items() for problem, _ in read_problems(path)}


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any, **_: Any) -> float:
    """Return 1.0 for a correct response `solution_str`, else 0.0; verl does not say whether the response was cut off.

    The problem is found by `extra_info`: its "split" and, as "problem", its id. A verdict `error` counts as wrong and
    is appended to `ERRORS`.
    """
    problem = _problems()[extra_info["split"], extra_info["problem"]]
    verdict = _grader().verdicts(problem, [solution_str])[0]
    if verdict.status == "error":
        _note(problem.id, str(verdict.reason))
    return float(verdict.status == "correct")


def _note(problem: str, reason: str) -> None:
    """Append a line to the file of grading errors by a single write, since several processes may write."""
    line = json.dumps({"problem": problem, "reason": reason}) + "\n"
    file = os.open(current_run().folder / ERRORS, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
