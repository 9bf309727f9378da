"""What evalplus itself says of programs, from a process of its own: `evalplus_passes(exercise, programs)`.

Of its own, since evalplus forks, with limits on address space and with this process' warning filters: beside torch it
fails right programs. The process is started once; questions go in pickled, answers come out as JSON.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from harness_tasks.program_grading import Exercise


def evalplus_passes(exercise: Exercise, programs: Sequence[str]) -> list[bool]:
    """Whether evalplus passes each program on all runs of the exercise."""
    process = _process()
    pickle.dump((*astuple(exercise), programs), process.stdin)
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@functools.cache
def _process() -> Any:
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.communicate)
    return process


def _main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # programs and evalplus print
    while sys.stdin.buffer.peek(1):
        *exercise, programs = pickle.load(sys.stdin.buffer)
        print(json.dumps([_passes(*exercise, program) for program in programs]), file=answers)


def _passes(dataset: str, name: str, solution: str, runs: dict[str, Any], atol: float, program: str) -> bool:
    from evalplus.eval import untrusted_check
    from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS
    from evalplus.gen.util import trusted_exec

    for inputs in runs.values():
        not_none = dataset == "mbpp" and name in MBPP_OUTPUT_NOT_NONE_TASKS
        expected, seconds = trusted_exec(solution, inputs, name, record_time=True, output_not_none=not_none)
        if untrusted_check(dataset, program, inputs, name, expected, atol, seconds, fast_check=True)[0] != "pass":
            return False
    return True


if __name__ == "__main__":
    _main()
