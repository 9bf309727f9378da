"""What evalplus itself says of programs, from a process of its own: `evalplus_passes(exercise, programs)`.

Of its own, since evalplus forks, with limits on address space and with this process' warning filters: beside torch it
fails right programs. The process is started once and stays small, since every verdict forks it; questions go in
pickled, answers come out as JSON. The checking is evalplus' own (`untrusted_check`), but for the clock: its limit on a
test is in wall time, and on a busy machine an honest program runs into it, so here it counts CPU time, as ours does.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any

from harness_tasks.programs.program_grading import Exercise


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
    import evalplus.eval

    evalplus.eval.time_limit = _cpu_limit
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # programs and evalplus print
    while sys.stdin.buffer.peek(1):
        *exercise, programs = pickle.load(sys.stdin.buffer)
        print(json.dumps(_passed(*exercise, programs)), file=answers)


@contextlib.contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    """evalplus' `time_limit`, in CPU time."""
    from evalplus.eval.utils import TimeoutException

    def stop(*unused: Any) -> None:
        raise TimeoutException("Timed out!")

    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.signal(signal.SIGPROF, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _passed(
    dataset: str, name: str, solution: str, runs: dict[str, Any], atol: float, programs: Sequence[str]
) -> list[bool]:
    from evalplus.eval import untrusted_check
    from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS
    from evalplus.gen.util import trusted_exec

    passed = [True] * len(programs)
    for inputs in runs.values():
        not_none = dataset == "mbpp" and name in MBPP_OUTPUT_NOT_NONE_TASKS
        expected, seconds = trusted_exec(solution, inputs, name, record_time=True, output_not_none=not_none)
        for at, program in enumerate(programs):
            status, _ = untrusted_check(dataset, program, inputs, name, expected, atol, seconds, fast_check=True)
            passed[at] &= status == "pass"
    return passed


if __name__ == "__main__":
    _main()
