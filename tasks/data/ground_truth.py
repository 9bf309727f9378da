"""Compute the expected result of every test of a problem: the canonical solution's, run once in the sandbox.

A problem's results are computed when they are first needed (all of MBPP+ takes about 50 CPU seconds, 20 of them for
Mbpp/599) and are cached as compressed JSON in `$XDG_CACHE_HOME/diversity-harness/ground-truth`, else `~/.cache/...`. A
damaged file is replaced; if the folder cannot be written, nothing is cached. (evalplus computes the results in the
grading process and stores them as a pickle of 792 MB for MBPP+, 781 of them for Mbpp/255, which every grading process
loads.)

A result of more than `LONG` characters without floats is stored as a digest. So is every result after the first
`TOO_LONG` characters of a problem's results (in Mbpp/255 and HumanEval/130). Digests are compared for equality only.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.system.files import user_cache, write_atomically
from harness.system.json_text import parsed

from ..programs.evalplus_oracle import holds_floats
from ..sandbox import Run, Sandbox, Suite, loose

TEST_CPU_S = 60.0
ALL_CPU_S = 900.0
LONG = 1 << 20
TOO_LONG = 64 << 20
FRUGAL, GENEROUS = 1 << 29, 1 << 32  # bytes of memory: the canonical solution's first try and its second


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


def ground_truth(
    sandbox: Sandbox, key: str, solution: str, entry_point: str, inputs: Sequence[Sequence[Any]]
) -> GroundTruth:
    """Return the ground truth of one problem: from the cache, or computed in the sandbox and then cached.

    key           a hash of all that the ground truth depends on
    solution      the canonical solution, a whole program
    entry_point   the function in it to call
    inputs        the positional arguments of each test

    Raises NoGroundTruth if the canonical solution does not run on this machine.
    """
    path = user_cache() / "ground-truth" / f"{key}.json.gz"
    cached = _read(path, len(inputs))
    if cached is not None:
        return cached
    truth = _computed(sandbox, key, solution, entry_point, inputs)
    _write(path, truth)
    return truth


def _computed(
    sandbox: Sandbox, key: str, solution: str, entry_point: str, inputs: Sequence[Sequence[Any]]
) -> GroundTruth:
    """Run the canonical solution, up to three times: with more memory and with digests if it needs them."""
    memory, as_text = FRUGAL, len(inputs)

    def run() -> Run:
        suite = Suite(
            entry_point=entry_point,
            inputs=inputs,
            cpu_limits_s=[TEST_CPU_S] * len(inputs),
            digest=[test >= as_text for test in range(len(inputs))],
            memory_bytes=memory,
            output_bytes=TOO_LONG,
            total_cpu_s=ALL_CPU_S,
        )
        return sandbox.run_all(suite, [solution])[0]

    outcome = run()
    if outcome.status == "memory":
        memory = GENEROUS
        outcome = run()
    if outcome.status == "output":
        as_text = len(outcome.results)
        outcome = run()
    if outcome.status != "ok":
        raise NoGroundTruth(f"{outcome.status} {outcome.detail}".strip())
    return GroundTruth([_shortened(text) for text in outcome.results], list(outcome.cpu_s), min(2 * memory, GENEROUS))


def _shortened(text: str) -> str:
    """Return a result's text, or its digest if it is long and holds no floats."""
    if len(text) <= LONG or holds_floats(text):
        return text
    return "h" + hashlib.sha256(loose(text).encode()).hexdigest()


# The cache


def _read(path: Path, tests: int) -> GroundTruth | None:
    """Return the ground truth in a file; None if there is no file or it is damaged."""
    try:
        truth = GroundTruth(**parsed(gzip.decompress(path.read_bytes()), str(path), lenient=True))
        is_complete = len(truth.expected) == len(truth.cpu_s) == tests and FRUGAL <= truth.memory_bytes <= GENEROUS
        has_types = all(type(text) is str for text in truth.expected) and all(type(s) is float for s in truth.cpu_s)
        return truth if is_complete and has_types else None
    except (OSError, EOFError, zlib.error, ValueError, TypeError):
        return None


def _write(path: Path, truth: GroundTruth) -> None:
    try:
        write_atomically(path, gzip.compress(json.dumps(asdict(truth)).encode(), compresslevel=1, mtime=0))
    except (OSError, HarnessError):
        return
