"""Pools made elsewhere, apart from their layouts: what a pool without a task offers; vectors of one's own.

`pool_layouts` reads the files, `pool_joining` finds the task's problems, `foreign` brings both into the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import store
from .contracts import Task
from .errors import HarnessError
from .pool_layouts import pool_files
from .pool_layouts import read_pool as read_pool
from .pool_record import PoolRecord
from .records import Floats, Problem, Verdict, correct, wrong


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
    return f"sha256:{store.digest(files, 16)}"


def given_verdicts(record: PoolRecord) -> list[Verdict]:
    """The verdicts that the pool carries."""
    return [correct("given") if entry else wrong("given") for entry in record.correct or ()]


class GivenVectors:
    """Vectors of one's own: an `.npz` or `.safetensors` file, one (n, d) array per problem id, read one at a time.

    `lines`: problem id -> what the pool itself calls it, by which an array may be named too.
    """

    def __init__(self, path: Path, lines: Mapping[str, str] | None = None) -> None:
        if not path.is_file():
            raise HarnessError(f"embeddings {path}: no such file")
        self.lines = lines or {}
        self.path, self.file = path, self._open(path)
        self.names = set(self.file.files if path.suffix == ".npz" else self.file.keys())

    def _open(self, path: Path) -> Any:
        from safetensors import SafetensorError, safe_open

        try:
            if path.suffix == ".npz":
                return np.load(path, allow_pickle=False)
            if path.suffix == ".safetensors":
                return safe_open(path, framework="numpy")
        except (OSError, ValueError, EOFError, SafetensorError) as failure:
            raise HarnessError(f"embeddings {path}: cannot be read ({failure})") from failure
        raise HarnessError(f"embeddings {path}: must be .npz or .safetensors, one (n, d) array per problem id")

    def get(self, problem_id: str, n: int) -> Floats:
        """The problem's vectors (n, d); one clear line where they are absent, of the wrong shape or not finite."""
        where = f"embeddings {self.path}: {problem_id!r}"
        if problem_id not in self.names:
            problem_id = self.lines.get(problem_id, problem_id)
        if problem_id not in self.names:
            raise HarnessError(f"{where} is not in the file ({len(self.names)} other ids are)")
        try:
            array = self.file[problem_id] if self.path.suffix == ".npz" else self.file.get_tensor(problem_id)
        except ValueError as failure:
            raise HarnessError(f"{where} cannot be read ({failure})") from failure
        if array.ndim != 2 or len(array) != n:
            raise HarnessError(f"{where} has shape {array.shape}, expected ({n}, d): one row a response")
        if not np.issubdtype(array.dtype, np.floating) or not np.isfinite(array).all():
            raise HarnessError(f"{where} must hold finite numbers, got {array.dtype} with NaN, inf or no floats")
        return np.asarray(array, np.float32)
