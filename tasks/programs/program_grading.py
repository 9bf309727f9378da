"""Verdicts on programs: a problem's tests in the sandbox, each result judged as it comes: a wrong program ends early.

One process runs a program on the base and then on the plus tests (evalplus starts one for each). The limits are
evalplus', in CPU time and not in wall time, which under load failed an honest program ten times of ten: a test may take
1 s, or 4 times what it took the canonical solution; a run's tests together what these make, at most 60 s, and 2 s.
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

TEST_S, FACTOR = 1.0, 4.0  # evalplus/config.py
RUN_S, GRACE_S = 60.0, 2.0  # untrusted_check: min(60, sum) + 1, and another second before it kills
DIGEST_S, DIGESTS_S = 60.0, 180.0  # more for those: Mbpp/255's results are 153 million values
OUTPUT_BYTES = 4 << 20
KEPT_CHARACTERS = 256 << 20

_NAME = re.compile(r"[A-Za-z_]\w{0,60}", re.ASCII)
# evalplus calls set() on the results of some functions: what is a generator, say, has to be collected inside. Literals'
# classes, since programs name variables `list`.
_COLLECTED = "__collected__"
_COLLECTING = """
def __collected__(*given):
    made = {name}(*given)
    kept = [].__class__, ().__class__, {{0}}.__class__, {{}}.__class__, "".__class__, b"".__class__
    return made if isinstance(made, kept) else {{*made}}
"""


@dataclass(frozen=True)
class Exercise:
    """What programs for one problem have to do.

    dataset      "mbpp" or "humaneval": whose rules hold
    solution     the canonical solution, a whole program
    runs         by name, "base" and then "plus": the positional arguments of each test
    atol         the tolerance that the data give; 0 for most
    """

    dataset: str
    entry_point: str
    solution: str
    runs: dict[str, Sequence[Sequence[Any]]]
    atol: float

    @property
    def inputs(self) -> list[Sequence[Any]]:
        """Those of all runs."""
        return [given for inputs in self.runs.values() for given in inputs]


class Bench:
    """Grades programs for one problem; made once, used by any number of threads."""

    def __init__(self, key: str, exercise: Exercise, truth: GroundTruth):
        self.route = "+".join(exercise.runs)
        self.characters = sum(map(len, truth.expected))
        self._tests: list[tuple[str, int, Oracle]] = []  # per test of the suite: its run, number and judge
        self._suffix = _collecting(exercise)
        digests = [text.startswith("h") for text in truth.expected]
        limits: list[float] = []
        total = DIGESTS_S if any(digests) else 0.0
        for name, inputs in exercise.runs.items():
            part = slice(len(limits), len(limits) + len(inputs))
            oracle = Oracle(exercise.dataset, exercise.entry_point, inputs, truth.expected[part], exercise.atol)
            self._tests += [(name, number, oracle) for number in range(len(inputs))]
            fair = [max(TEST_S, FACTOR * cpu_s) for cpu_s in truth.cpu_s[part]]
            limits += [limit + digest * DIGEST_S for limit, digest in zip(fair, digests[part], strict=True)]
            total += min(RUN_S, sum(fair)) + GRACE_S
        self._suite = Suite(
            key=key,
            entry_point=_COLLECTED if self._suffix else exercise.entry_point,
            inputs=exercise.inputs,
            cpu_limits_s=limits,
            digest=digests,
            memory_bytes=truth.memory_bytes,
            output_bytes=max(OUTPUT_BYTES, 2 * self.characters),
            total_cpu_s=total,
        )

    def grade(self, sandbox: Sandbox, programs: Sequence[str]) -> list[Verdict]:
        """The verdict on each program."""
        judge = _Judge(self._tests, len(programs))
        runs = sandbox.run_all(self._suite, [program + self._suffix for program in programs], judge)
        return [self._verdict(judge, program, run) for program, run in enumerate(runs)]

    def _verdict(self, judge: _Judge, program: int, run: Run) -> Verdict:
        if program in judge.faults:
            return error(f"oracle: {judge.faults[program]}", self.route)
        if run.status == "error":
            return error(f"sandbox: {run.detail:.200}", self.route)
        if program in judge.failed:
            return wrong(judge.failed[program], self.route)
        if run.status not in ("ok", "stopped"):
            return wrong(run.status, self.route)
        if run.status == "ok" and judge.passed[program] == len(self._tests):
            return correct(route=self.route)
        return error(f"sandbox: {run.status} after {judge.passed[program]} of {len(self._tests)} tests", self.route)


class _Judge:
    """Is called with every result, from the sandbox's threads; remembers how far each program came."""

    def __init__(self, tests: Sequence[tuple[str, int, Oracle]], programs: int):
        self._tests = tests
        self.passed = [0] * programs
        self.failed: dict[int, str] = {}
        self.faults: dict[int, str] = {}

    def __call__(self, program: int, test: int, text: str) -> bool:
        """Whether the program may go on. A program that lost its worker begins again, with test 0."""
        if test == 0:
            self.passed[program] = 0
            self.failed.pop(program, None)
        run, number, oracle = self._tests[test]
        try:
            right = oracle.passes(number, text)
        except Exception as fault:  # ours: a wrong result is no reason to raise
            self.faults[program] = f"{type(fault).__name__}: {fault}"
            return False
        if right:
            self.passed[program] += 1
        else:
            self.failed[program] = f"{run}: test {number + 1}{_raised(text)}"
        return right


def _raised(text: str) -> str:
    if not text.startswith("E"):
        return ""
    return f" raised {text[1:]}" if _NAME.fullmatch(text[1:]) else " raised"


def _collecting(exercise: Exercise) -> str:
    """What is put behind a program so that its results can be compared as sets; "" where they are not."""
    if not compares_sets(exercise.dataset, exercise.entry_point):
        return ""
    return _COLLECTING.format(name=exercise.entry_point)


# Benches made lately

_benches: OrderedDict[str, Bench] = OrderedDict()
_making: dict[str, threading.Lock] = {}
_guard = threading.Lock()


def bench_for(key: str, sandbox: Sandbox, exercise: Callable[[], Exercise]) -> Bench:
    """The bench of a problem, made by the first who asks; those used last are kept (of `KEPT_CHARACTERS` together).

    `key` is a hash of all that the ground truth depends on. Raises NoGroundTruth.
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
        while len(_benches) > 1 and sum(each.characters for each in _benches.values()) > KEPT_CHARACTERS:
            _benches.popitem(last=False)
    return bench


def _made(key: str, sandbox: Sandbox, exercise: Exercise) -> Bench:
    suffix = _collecting(exercise)
    entry_point = _COLLECTED if suffix else exercise.entry_point
    return Bench(key, exercise, ground_truth(sandbox, key, exercise.solution + suffix, entry_point, exercise.inputs))


def grade(key: str, sandbox: Sandbox, exercise: Callable[[], Exercise], programs: Sequence[str]) -> list[Verdict]:
    """The verdict on each program; `error` for all where the canonical solution does not run here."""
    try:
        bench = bench_for(key, sandbox, exercise)
    except NoGroundTruth as failure:
        return [error(f"ground truth: {failure}")] * len(programs)
    return bench.grade(sandbox, programs)
