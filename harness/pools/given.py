"""What a pool made elsewhere brings itself: problems where there is no task, its files' digests, and your own vectors.

`reading` reads the files, `joining` finds the task's problems, `running.importing` brings both into the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.contracts import Task
from harness.errors import HarnessError
from harness.records import Floats, Problem
from harness.store.keys import digest
from harness.system.files import MAX_VECTORS_GB, open_regular

from .reading import pool_files
from .registered_layouts import Layouts
from .vector_files import HeldArrays, open_vectors
from .vector_tables import Table

LARGEST = 1e15


class PoolTask(Task):
    """The task of a pool that has none: the problems are those in the pool file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems

    def problems(self, split: str) -> Iterable[Problem]:
        """The problems given at construction: lines of the pool file, whatever the split."""
        return self._problems


def file_digest(path: Path) -> str:
    """`sha256:` and the first 16 hex digits of the file's SHA-256."""
    with open_regular(path) as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def pool_digest(path: Path, layouts: Layouts | None = None) -> str:
    """The digest of a pool file; for a folder the digest of its files' names and contents."""
    if not path.is_dir():
        return file_digest(path)
    files = [[file.relative_to(path).as_posix(), file_digest(file)] for file in pool_files(path, layouts)]
    return f"sha256:{digest(files, 16)}"


class GivenVectors:
    """Your own vectors: a file of `vector_files` or `vector_tables`, one (n, d) array per problem id.

    An array of no id, in a `.npy` or a table without problem_id, is that of a pool's only problem.

    `lines`: problem id -> its id in the pool file, by which an array may be named too. `max_gb`: the most memory for
    one array. `held`: arrays in memory in place of the file's; `path` is then only their name.
    """

    def __init__(
        self,
        path: Path,
        lines: Mapping[str, str] | None = None,
        max_gb: float = MAX_VECTORS_GB,
        held: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.lines, where = path, lines or {}, f"embeddings {path}"
        self.file = open_vectors(path, where, max_gb) if held is None else HeldArrays(held, where)
        self.names = dict.fromkeys(self.file.names)

    def rows(self, name: str) -> int:
        """The number of rows of the array of that name, from its header; 0 for an array without dimensions."""
        shape = self.file.shape(name)
        return shape[0] if shape else 0

    def row_names(self, name: str) -> Sequence[str]:
        """The names of the array's rows, in a table with a column `id`; empty for other files."""
        return self.file.row_names[name] if isinstance(self.file, Table) else ()

    def get(self, problem_id: str, n: int) -> Any:
        """The problem's vectors (n, d) float32, sparse if they are; HarnessError if absent, misshapen or not finite.

        Values beyond 1e15 are refused too: float32 ends at 3e38, and selectors sum squares.
        """
        where = f"embeddings {self.path}: {problem_id!r}"
        if problem_id not in self.names:
            problem_id = self.lines.get(problem_id, problem_id)
        if self.file.unnamed and len(self.names) == len(self.lines) == 1:
            (problem_id,) = self.names
        if problem_id not in self.names:
            raise HarnessError(f"{where} is not in the file ({len(self.names)} other ids are)")
        shape = tuple(self.file.shape(problem_id))
        if len(shape) != 2 or shape[0] != n:
            raise HarnessError(f"{where} has shape {shape}, expected ({n}, d): one row a response")
        array = self.file.read(problem_id)
        largest = _largest(array)
        if len(bad := np.flatnonzero(~np.isfinite(largest))):
            raise HarnessError(
                f"{where} must hold finite numbers, got NaN or inf in {len(bad)} of {n} rows, row {bad[0]} the first"
            )
        if (most := float(largest.max(initial=0))) > LARGEST:
            raise HarnessError(f"{where} holds {most:.3g}: float32 vectors must stay within {LARGEST:g}, scale them")
        return np.asarray(array, np.float32) if isinstance(array, np.ndarray) else array.tocsr().astype(np.float32)


def _largest(vectors: Any) -> Floats:
    """The largest absolute values of the rows of vectors (n, d), dense or scipy-sparse: (n,); NaN if a row has one."""
    if not vectors.shape[1]:
        return np.zeros(vectors.shape[0], np.float32)
    largest: Any = np.abs(vectors).max(axis=1)
    return largest if isinstance(largest, np.ndarray) else largest.toarray().ravel()
