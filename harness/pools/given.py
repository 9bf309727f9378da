"""Pools made elsewhere, apart from their layouts: what a pool without a task offers; vectors of one's own.

`pool_layouts` reads the files, `pool_joining` finds the task's problems, `foreign` brings both into the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from harness.contracts import Task
from harness.errors import HarnessError
from harness.records import Floats, Problem, Verdict, correct, wrong
from harness.store.keys import digest
from harness.system.expansion import MAX_VECTORS_GB

from .layouts.reading import pool_files
from .layouts.reading import read_pool as read_pool
from .record import PoolRecord
from .vector_files import open_vectors

LARGEST = 1e15


class PoolTask(Task):
    """A pool without a task: its own problems, and the verdicts that it carries."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems

    def problems(self, split: str) -> Iterable[Problem]:
        """One problem a line of the pool."""
        return self._problems


def file_digest(path: Path) -> str:
    """`sha256:` and the first 16 hex digits of the file's SHA-256."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def pool_digest(path: Path) -> str:
    """The digest of a pool file; of a folder that of its files' names and contents."""
    if not path.is_dir():
        return file_digest(path)
    files = [[file.relative_to(path).as_posix(), file_digest(file)] for file in pool_files(path)]
    return f"sha256:{digest(files, 16)}"


def given_verdicts(record: PoolRecord) -> list[Verdict]:
    """The verdicts that the pool carries."""
    return [correct("given") if entry else wrong("given") for entry in record.correct or ()]


class GivenVectors:
    """Vectors of one's own: an `.npz` or `.safetensors` file, one (n, d) array per problem id, read one at a time.

    `lines`: problem id -> what the pool itself calls it, by which an array may be named too. `max_gb`: what one array
    may take.
    """

    def __init__(self, path: Path, lines: Mapping[str, str] | None = None, max_gb: float = MAX_VECTORS_GB) -> None:
        self.path, self.lines = path, lines or {}
        self.file = open_vectors(path, f"embeddings {path}", max_gb)
        self.names = dict.fromkeys(self.file.names)

    def rows(self, name: str) -> int:
        """How many rows the array of that name has by its header; 0 where it has none."""
        shape = self.file.shape(name)
        return shape[0] if shape else 0

    def get(self, problem_id: str, n: int) -> Floats:
        """The problem's vectors (n, d) float32; one clear line where they are absent, of the wrong shape or no numbers.

        Numbers beyond 1e15 are refused too: float32 ends at 3e38, and selectors add up squares.
        """
        where = f"embeddings {self.path}: {problem_id!r}"
        if problem_id not in self.names:
            problem_id = self.lines.get(problem_id, problem_id)
        if problem_id not in self.names:
            raise HarnessError(f"{where} is not in the file ({len(self.names)} other ids are)")
        shape = tuple(self.file.shape(problem_id))
        if len(shape) != 2 or shape[0] != n:
            raise HarnessError(f"{where} has shape {shape}, expected ({n}, d): one row a response")
        array = self.file.read(problem_id)
        if not np.isfinite(array).all():
            raise HarnessError(f"{where} must hold finite numbers, got {array.dtype} with NaN or inf")
        if array.size and (largest := float(np.abs(array).max())) > LARGEST:
            raise HarnessError(f"{where} holds {largest:.3g}: float32 vectors must stay within {LARGEST:g}, scale them")
        return np.asarray(array, np.float32)
