"""Grade programs by a problem's tests, in the sandbox; a program ends at its first wrong result.

One process runs a program on the base tests and then on the plus tests (evalplus starts a process for each of the two).
The limits are evalplus', but in CPU time: in wall time, on a busy machine, an honest program failed ten times of ten. A
test may take 1 s, or 4 times as long as the canonical solution took. The tests of a run together may take the sum of
their limits, at most 60 s, and 2 s more.

The expected results are the canonical solution's. They are computed when they are first needed (all of MBPP+ takes
about 50 CPU seconds, 20 of them for Mbpp/599) and are cached as compressed JSON in
`$XDG_CACHE_HOME/diversity-harness/ground-truth`, else `~/.cache/...`. A damaged file is replaced; if the folder cannot
be written, nothing is cached. (evalplus computes the results in the grading process and stores them as a pickle of 792
MB for MBPP+, 781 of them for Mbpp/255, which every grading process loads.) A result of more than `LONG` characters
without floats is stored as a digest. So is every result after the first `TOO_LONG` characters of a problem's results
(in Mbpp/255 and HumanEval/130). Digests are compared for equality only.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import HarnessError, Verdict, correct, error, wrong
from harness.system.files import user_cache, write_atomically
from harness.system.json_text import parsed

from ..sandbox import Run, Sandbox, Suite, loose
from .evalplus_oracle import Oracle, compares_sets, holds_floats
from .program_text import Program

TEST_S, FACTOR = 1.0, 4.0  # evalplus/config.py
RUN_S, GRACE_S = 60.0, 2.0  # evalplus' untrusted_check: min(60, sum) + 1, and another second before it kills
DIGEST_S, DIGESTS_S = 60.0, 180.0  # more for a test with a digest, and for its run: Mbpp/255 has 153 million values
OUTPUT_BYTES = 4 << 20

SOLUTION_TEST_S, SOLUTION_S = 60.0, 900.0  # CPU seconds of the canonical solution: for one test, for all
FRUGAL, GENEROUS = 1 << 29, 1 << 32  # bytes of memory: its first try and its second
LONG = 1 << 20
TOO_LONG = 64 << 20

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
    runs: Mapping[str, Sequence[Sequence[Any]]]
    atol: float

    def suite(self, cpu_limits_s: list[float], digest: list[bool], **limits: Any) -> Suite:
        """Return the tests of all runs, for programs with the `suffix`."""
        called = _COLLECTED if self.suffix else self.entry_point
        inputs = [arguments for inputs in self.runs.values() for arguments in inputs]
        return Suite(called, inputs, cpu_limits_s, digest=digest, **limits)

    @property
    def suffix(self) -> str:
        """Return code to append to a program so that its results can be compared as sets; "" if they need not be."""
        return _COLLECTING.format(name=self.entry_point) if compares_sets(self.dataset, self.entry_point) else ""


class Bench:
    """Grades programs for one problem; thread-safe."""

    def __init__(self, exercise: Exercise, truth: GroundTruth):
        self.route = "+".join(exercise.runs)
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
        output_bytes = max(OUTPUT_BYTES, 2 * sum(map(len, truth.expected)))
        self._suite = exercise.suite(
            limits, digests, memory_bytes=truth.memory_bytes, output_bytes=output_bytes, total_cpu_s=total
        )

    def grade(self, sandbox: Sandbox, programs: Sequence[Program]) -> list[Verdict]:
        """Return the verdict on each program, in order."""
        passed = [0] * len(programs)
        failed: dict[int, str] = {}
        faults: dict[int, str] = {}

        def judge(program: int, test: int, text: str) -> bool:
            """Whether the program may continue. A program whose worker was lost begins again, with test 0."""
            if test == 0:
                passed[program] = 0
                failed.pop(program, None)
            run, number, oracle = self._tests[test]
            try:
                passes = oracle.passes(number, text)
            except Exception as fault:  # the grader's fault: a wrong result does not raise
                faults[program] = f"{type(fault).__name__}: {fault}"
                return False
            passed[program] += passes
            if not passes:
                name = f" {text[1:]}" if _NAME.fullmatch(text[1:]) else ""
                raised = f" raised{name}" if text.startswith("E") else ""
                failed[program] = f"{run}: test {number + 1}{raised}"
            return passes

        sources, lent = [program.source + self._suffix for program in programs], [program.lent for program in programs]
        verdicts: list[Verdict] = []
        for program, run in enumerate(sandbox.run_all(self._suite, sources, judge, lent=lent)):
            fault = reason = ""
            if program in faults:
                fault = f"oracle: {faults[program]}"
            elif run.status == "error":
                fault = f"sandbox: {run.detail:.200}"
            elif program in failed:
                reason = failed[program]
            elif run.status not in ("ok", "stopped"):
                reason = f"no function {self._entry_point}" if run.status == "missing" else run.status
            elif run.status == "stopped" or passed[program] != len(self._tests):
                fault = f"sandbox: {run.status} after {passed[program]} of {len(self._tests)} tests"
            made = error(fault, self.route) if fault else wrong(reason, self.route)
            verdicts.append(made if fault or reason else correct(route=self.route))
        return verdicts


_benches: dict[str, Bench] = {}  # those of all MBPP+ and HumanEval+ have 92 million characters of expected results
_making = threading.Lock()


def grade(key: str, sandbox: Sandbox, exercise: Callable[[], Exercise], programs: Sequence[Program]) -> list[Verdict]:
    """Return the verdict on each program; all `error` if the canonical solution does not run on this machine.

    key        a hash of all that the ground truth depends on
    exercise   returns the exercise; called only if the problem's bench must be created
    """
    try:
        with _making:
            bench = _benches.get(key)
            if bench is None:
                made = exercise()
                bench = _benches[key] = Bench(made, ground_truth(sandbox, key, made))
    except NoGroundTruth as failure:
        return [error(f"ground truth: {failure}")] * len(programs)
    return bench.grade(sandbox, programs)


# Ground truth


class NoGroundTruth(Exception):
    """The canonical solution does not run on this machine; the message says why."""


@dataclass(frozen=True)
class GroundTruth:
    """The results of the canonical solution, and what it used.

    expected      for each test the result's canonical text, or the digest of it (`h...`)
    cpu_s         for each test the CPU seconds that it took
    memory_bytes  the memory limit of other programs: 1 GiB if 512 MiB were enough for this one, else 4 GiB
    """

    expected: list[str]
    cpu_s: list[float]
    memory_bytes: int


def ground_truth(sandbox: Sandbox, key: str, exercise: Exercise) -> GroundTruth:
    """Return the ground truth of one problem: from the cache, or computed in the sandbox and then cached.

    Raises NoGroundTruth if the canonical solution does not run on this machine.
    """
    path, tests = user_cache() / "ground-truth" / f"{key}.json.gz", sum(map(len, exercise.runs.values()))
    cached = _cached(path, tests)
    if cached is not None:
        return cached
    memory, as_text = FRUGAL, tests

    def run() -> Run:
        digest = [test >= as_text for test in range(tests)]
        limits = {"memory_bytes": memory, "output_bytes": TOO_LONG, "total_cpu_s": SOLUTION_S}
        suite = exercise.suite([SOLUTION_TEST_S] * tests, digest, **limits)
        return sandbox.run_all(suite, [exercise.solution + exercise.suffix])[0]

    outcome = run()
    if outcome.status == "memory":
        memory = GENEROUS
        outcome = run()
    if outcome.status == "output":
        as_text = len(outcome.results)
        outcome = run()
    if outcome.status != "ok":
        raise NoGroundTruth(f"{outcome.status} {outcome.detail}".strip())
    # A long text without floats is shortened: it is compared for equality only.
    expected = [
        text if len(text) <= LONG or holds_floats(text) else "h" + hashlib.sha256(loose(text).encode()).hexdigest()
        for text in outcome.results
    ]
    truth = GroundTruth(expected, outcome.cpu_s, min(2 * memory, GENEROUS))
    with suppress(OSError, HarnessError):
        write_atomically(path, gzip.compress(json.dumps(asdict(truth)).encode(), compresslevel=1, mtime=0))
    return truth


def _cached(path: Path, tests: int) -> GroundTruth | None:
    """Return the ground truth in a file; None if there is no file or it is damaged."""
    try:
        truth = GroundTruth(**parsed(gzip.decompress(path.read_bytes()), str(path), lenient=True))
        is_complete = len(truth.expected) == len(truth.cpu_s) == tests and FRUGAL <= truth.memory_bytes <= GENEROUS
        has_types = all(type(text) is str for text in truth.expected) and all(type(s) is float for s in truth.cpu_s)
        return truth if is_complete and has_types else None
    except (OSError, EOFError, zlib.error, ValueError, TypeError):
        return None
