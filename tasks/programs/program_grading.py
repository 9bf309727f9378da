"""Grade programs by a problem's tests, in the sandbox; a program ends at its first wrong result.

One process runs a program on the base tests and then on the plus tests (evalplus starts a process for each of the two).
The limits are evalplus', but in CPU time: in wall time, on a busy machine, an honest program failed ten times of ten. A
test may take 1 s, or 4 times as long as the canonical solution took. The tests of a run together may take the sum of
their limits, at most 60 s, and 2 s more.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness import Verdict, correct, error, wrong

from ..data.ground_truth import GroundTruth, NoGroundTruth, ground_truth
from ..sandbox import Run, Sandbox, Suite
from .evalplus_oracle import Oracle, compares_sets
from .program_text import Program

TEST_S, FACTOR = 1.0, 4.0  # evalplus/config.py
RUN_S, GRACE_S = 60.0, 2.0  # evalplus' untrusted_check: min(60, sum) + 1, and another second before it kills
DIGEST_S, DIGESTS_S = (
    60.0,
    180.0,
)  # more for a test with a digest, and for its run: Mbpp/255 has 153 million values
OUTPUT_BYTES = 4 << 20
KEPT_CHARACTERS = 256 << 20  # of expected results, in all benches that are kept

_NAME = re.compile(r"[A-Za-z_]\w{0,60}", re.ASCII)
# evalplus calls set() on the results of some functions. A generator, for example, must be collected inside the sandbox.
# The types are taken from literals, since programs have variables called `list`.
_COLLECTED = "__collected__"
_COLLECTING = """
def __collected__(*given):
    made = {name}(*given)
    kept = [].__class__, ().__class__, {{0}}.__class__, {{}}.__class__, "".__class__, b"".__class__
    return made if isinstance(made, kept) else {{*made}}
"""


@dataclass(frozen=True)
class Exercise:
    """What programs for one problem must do.

    dataset      "mbpp" or "humaneval", whose rules of comparison hold
    entry_point  the function that a program must define
    solution     the canonical solution, a whole program
    runs         the positional arguments of each test, by the name of the run: "base", then "plus"
    atol         the absolute tolerance of the data, 0 for most problems
    """

    dataset: str
    entry_point: str
    solution: str
    runs: dict[str, Sequence[Sequence[Any]]]
    atol: float

    @property
    def inputs(self) -> list[Sequence[Any]]:
        """The arguments of the tests of all runs."""
        return [arguments for inputs in self.runs.values() for arguments in inputs]

    @property
    def suffix(self) -> str:
        """Return code to append to a program so that its results can be compared as sets; "" if they need not be."""
        if not compares_sets(self.dataset, self.entry_point):
            return ""
        return _COLLECTING.format(name=self.entry_point)

    @property
    def called(self) -> str:
        """The name of the function to call in a program with the suffix."""
        return _COLLECTED if self.suffix else self.entry_point


class Bench:
    """Grades programs for one problem; thread-safe."""

    def __init__(self, key: str, exercise: Exercise, truth: GroundTruth):
        self.route = "+".join(exercise.runs)
        self.characters = sum(map(len, truth.expected))
        self._tests: list[tuple[str, int, Oracle]] = []  # for each test of the suite: its run, its number, its oracle
        self._entry_point, self._suffix = exercise.entry_point, exercise.suffix
        digests = [text.startswith("h") for text in truth.expected]
        limits: list[float] = []
        total = DIGESTS_S if any(digests) else 0.0
        for name, inputs in exercise.runs.items():
            part = slice(len(limits), len(limits) + len(inputs))
            oracle = Oracle(exercise.dataset, exercise.entry_point, inputs, truth.expected[part], exercise.atol)
            self._tests += [(name, number, oracle) for number in range(len(inputs))]
            test_limits = [max(TEST_S, FACTOR * cpu_s) for cpu_s in truth.cpu_s[part]]
            total += min(RUN_S, sum(test_limits)) + GRACE_S
            for limit, has_digest in zip(test_limits, digests[part], strict=True):
                limits.append(limit + DIGEST_S if has_digest else limit)
        self._suite = Suite(
            entry_point=exercise.called,
            inputs=exercise.inputs,
            cpu_limits_s=limits,
            digest=digests,
            memory_bytes=truth.memory_bytes,
            output_bytes=max(OUTPUT_BYTES, 2 * self.characters),
            total_cpu_s=total,
        )

    def grade(self, sandbox: Sandbox, programs: Sequence[Program]) -> list[Verdict]:
        """Return the verdict on each program, in order."""
        judge = _Judge(self._tests, len(programs))
        sources, lent = [program.source + self._suffix for program in programs], [program.lent for program in programs]
        runs = sandbox.run_all(self._suite, sources, judge, lent=lent)
        return [self._verdict(judge, program, run) for program, run in enumerate(runs)]

    def _verdict(self, judge: _Judge, program: int, run: Run) -> Verdict:
        if program in judge.faults:
            return error(f"oracle: {judge.faults[program]}", self.route)
        if run.status == "error":
            return error(f"sandbox: {run.detail:.200}", self.route)
        if program in judge.failed:
            return wrong(judge.failed[program], self.route)
        if run.status == "missing":
            return wrong(f"no function {self._entry_point}", self.route)
        if run.status not in ("ok", "stopped"):
            return wrong(run.status, self.route)
        if run.status == "ok" and judge.passed[program] == len(self._tests):
            return correct(route=self.route)
        return error(f"sandbox: {run.status} after {judge.passed[program]} of {len(self._tests)} tests", self.route)


class _Judge:
    """Judges each result as it arrives and counts how many tests each program passed.

    The sandbox calls it from its threads: `judge(program, test, text)`, with the numbers of the program and the test.
    """

    def __init__(self, tests: Sequence[tuple[str, int, Oracle]], programs: int):
        self._tests = tests
        self.passed = [0] * programs
        self.failed: dict[int, str] = {}
        self.faults: dict[int, str] = {}

    def __call__(self, program: int, test: int, text: str) -> bool:
        """Whether the program may continue. A program whose worker was lost begins again, with test 0."""
        if test == 0:
            self.passed[program] = 0
            self.failed.pop(program, None)
        run, number, oracle = self._tests[test]
        try:
            passes = oracle.passes(number, text)
        except Exception as fault:  # the grader's fault: a wrong result does not raise
            self.faults[program] = f"{type(fault).__name__}: {fault}"
            return False
        if passes:
            self.passed[program] += 1
        else:
            self.failed[program] = f"{run}: test {number + 1}{_raised(text)}"
        return passes


def _raised(text: str) -> str:
    """Say what a test raised, if it raised; else ""."""
    if not text.startswith("E"):
        return ""
    return f" raised {text[1:]}" if _NAME.fullmatch(text[1:]) else " raised"


# The most recently used benches

_benches: OrderedDict[str, Bench] = OrderedDict()
_making: dict[str, threading.Lock] = {}
_guard = threading.Lock()


def bench_for(key: str, sandbox: Sandbox, exercise: Callable[[], Exercise]) -> Bench:
    """Return the bench of a problem, created at the first call. Raises NoGroundTruth.

    The most recently used benches stay in memory, up to `KEPT_CHARACTERS` of expected results.

    key        a hash of all that the ground truth depends on
    exercise   returns the exercise; called only if the bench must be created
    """
    with _guard:
        making = _making.setdefault(key, threading.Lock())
    with making:
        with _guard:
            bench = _benches.get(key)
        return _keep(key, bench or _made(key, sandbox, exercise()))


def _keep(key: str, bench: Bench) -> Bench:
    with _guard:
        _benches[key] = bench
        _benches.move_to_end(key)
        while len(_benches) > 1 and sum(kept.characters for kept in _benches.values()) > KEPT_CHARACTERS:
            _benches.popitem(last=False)
    return bench


def _made(key: str, sandbox: Sandbox, exercise: Exercise) -> Bench:
    solution = exercise.solution + exercise.suffix
    return Bench(key, exercise, ground_truth(sandbox, key, solution, exercise.called, exercise.inputs))


def grade(key: str, sandbox: Sandbox, exercise: Callable[[], Exercise], programs: Sequence[Program]) -> list[Verdict]:
    """Return the verdict on each program; all `error` if the canonical solution does not run on this machine.

    key, exercise   as for `bench_for`
    """
    try:
        bench = bench_for(key, sandbox, exercise)
    except NoGroundTruth as failure:
        return [error(f"ground truth: {failure}")] * len(programs)
    return bench.grade(sandbox, programs)
