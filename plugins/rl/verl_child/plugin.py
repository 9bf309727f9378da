"""The plugin that verl loads in each of its processes (entry-point group `verl.plugins`), in every run on the machine.

It does nothing unless the variable `RUN` names the folder of a run of the harness. verl ignores exceptions of plugins,
so a failure is printed and stored in `failure`; the process that starts Ray then refuses to continue. Here are also the
run that this process belongs to, and verl's reward function.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import RUN

if TYPE_CHECKING:
    from harness.records import Problem

    from ..rewards import Grader
    from ..training import TrainingRun

ERRORS = "grading_errors.jsonl"  # in the run's folder: verdicts `error`; they count as wrong
failure: Exception | None = None


def activate() -> None:
    """Register the harness' trainer in verl, and on CPUs also a platform and a sampler."""
    if os.environ.get("VERL_PLATFORM") == "cpu":
        import_module(f"{__package__}.cpu").register()
    import_module(f"{__package__}.trainer")  # registers itself


@functools.cache
def current_run() -> TrainingRun:
    """Return the run in the folder that the environment variable HARNESS_RL_RUN names."""
    from ..training import read_run

    return read_run(Path(os.environ[RUN]))


@functools.cache
def _graded() -> tuple[Grader, dict[tuple[str, str], Problem]]:
    """The run's grader, and its problems by split and id."""
    from ..rewards import Grader
    from ..training import read_problems

    run = current_run()
    problems = [(split, problem) for split, path in run.problems.items() for problem, _ in read_problems(path)]
    return Grader(run), {(split, problem.id): problem for split, problem in problems}


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any, **_: Any) -> float:
    """Return 1.0 for a correct response `solution_str`, else 0.0; verl does not say whether the response was cut off.

    verl calls it from many threads, with one response. The problem is found by `extra_info`: its "split" and, as
    "problem", its id. A verdict `error` counts as wrong and is appended to `ERRORS`, by a single write, since several
    processes may write.
    """
    grader, problems = _graded()
    problem = problems[extra_info["split"], extra_info["problem"]]
    verdict = grader.verdicts(problem, [solution_str], [""])[0]
    if verdict.status == "error":
        line = json.dumps({"problem": problem.id, "reason": str(verdict.reason)}) + "\n"
        with (current_run().folder / ERRORS).open("ab", buffering=0) as out:
            out.write(line.encode())
    return float(verdict.status == "correct")


if os.environ.get(RUN):
    try:
        activate()
    except Exception as raised:
        failure = raised
        traceback.print_exc(file=sys.stderr)
