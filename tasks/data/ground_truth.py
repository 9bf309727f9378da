"""What every test of a problem must give: its canonical solution's results, computed once in the sandbox.

evalplus computes them in the grading process and keeps them as a pickle, 792 MB for MBPP+ (781 of them Mbpp/255's),
which every grading process loads. Here one problem's are computed when they are first asked for (MBPP+ together takes
about 50 CPU-seconds, 20 of them Mbpp/599's) and kept as compressed JSON, never pickle: in
`$XDG_CACHE_HOME/diversity-harness/ground-truth`, else `~/.cache/...`. A damaged file is computed anew; where the folder
cannot be written, nothing is kept.

A result of more than `LONG` characters without floats is kept as a digest, and so is every result behind the first
`TOO_LONG` characters of a problem (of Mbpp/255 and HumanEval/130): those are compared by equality alone.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.system.files import write_atomically

from ..programs.evalplus_oracle import holds_floats
from ..sandbox import Run, Sandbox, Suite, loose

TEST_CPU_S = 60.0
ALL_CPU_S = 900.0
LONG = 1 << 20
TOO_LONG = 64 << 20
FRUGAL, GENEROUS = 1 << 29, 1 << 32  # bytes; a solution that needs no more than FRUGAL leaves others twice that


class NoGroundTruth(Exception):
    """The canonical solution did not run here; the text says why."""


@dataclass(frozen=True)
class GroundTruth:
    """The results of the canonical solution.

    expected      per test a canonical text, or the digest of one (`h...`)
    cpu_s         per test the CPU seconds it took
    memory_bytes  what another program may use: twice what this one needed, from 1 to 4 GiB
    """

    expected: list[str]
    cpu_s: list[float]
    memory_bytes: int


def ground_truth(
    sandbox: Sandbox, key: str, solution: str, entry_point: str, inputs: Sequence[Sequence[Any]]
) -> GroundTruth:
    """The ground truth of one problem, from the disk if it is there; `key` is a hash of all that it depends on."""
    path = _folder() / f"{key}.json.gz"
    known = _read(path, len(inputs))
    if known is not None:
        return known
    truth = _computed(sandbox, key, solution, entry_point, inputs)
    _write(path, truth)
    return truth


def _computed(
    sandbox: Sandbox, key: str, solution: str, entry_point: str, inputs: Sequence[Sequence[Any]]
) -> GroundTruth:
    memory, texts = FRUGAL, len(inputs)

    def run() -> Run:
        suite = Suite(
            key=f"{key} ground truth {memory} {texts}",
            entry_point=entry_point,
            inputs=inputs,
            cpu_limits_s=[TEST_CPU_S] * len(inputs),
            digest=[test >= texts for test in range(len(inputs))],
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
        texts = len(outcome.results)
        outcome = run()
    if outcome.status != "ok":
        raise NoGroundTruth(f"{outcome.status} {outcome.detail}".strip())
    return GroundTruth([_shortened(text) for text in outcome.results], list(outcome.cpu_s), min(2 * memory, GENEROUS))


def _shortened(text: str) -> str:
    if len(text) <= LONG or holds_floats(text):
        return text
    return "h" + hashlib.sha256(loose(text).encode()).hexdigest()


# On the disk


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    nowhere = cache.startswith("~")  # a user without a home: nothing can be kept below this
    return Path(os.devnull if nowhere else cache) / "diversity-harness" / "ground-truth"


def _read(path: Path, tests: int) -> GroundTruth | None:
    """What the file holds; None where there is none or it is damaged."""
    try:
        known = GroundTruth(**json.loads(gzip.decompress(path.read_bytes())))
        whole = len(known.expected) == len(known.cpu_s) == tests and FRUGAL <= known.memory_bytes <= GENEROUS
        sound = all(type(text) is str for text in known.expected) and all(type(s) is float for s in known.cpu_s)
        return known if whole and sound else None
    except (OSError, EOFError, zlib.error, ValueError, TypeError, RecursionError):
        return None


def _write(path: Path, truth: GroundTruth) -> None:
    try:
        write_atomically(path, gzip.compress(json.dumps(asdict(truth)).encode(), compresslevel=1, mtime=0))
    except (OSError, HarnessError):
        return
