"""Pools made elsewhere: JSONL in, checked line by line, joined to a task's problems; vectors of one's own.

One line a problem: `{"problem_id": str, "responses": [str, ...]}` and optionally `prompt`, `reference`, `logprobs`,
`logprob_kind`, `correct` (list of bool). Every fault is one line that names the file, the line and what to do.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from .contracts import Task
from .errors import HarnessError
from .records import Floats, Problem, Responses, Verdict, correct, wrong


@dataclass(frozen=True)
class PoolRecord:
    """One line of a pool file."""

    problem_id: str
    responses: Sequence[str]
    prompt: str | None = None
    reference: Any = None
    logprobs: Sequence[float] | None = None
    logprob_kind: str | None = None
    correct: Sequence[bool] | None = None

    def as_responses(self) -> Responses:
        """The record's columns; lengths are in characters, since tokens are not known."""
        n = len(self.responses)
        return Responses(
            texts=self.responses,
            finish=["stop"] * n,
            lengths=np.array([len(text) for text in self.responses], np.int64),
            logprobs=np.full(n, np.nan) if self.logprobs is None else np.asarray(self.logprobs, np.float64),
        )


class PoolTask(Task):
    """A pool without a task: its own problems, and the verdicts that it carries."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems

    def problems(self, split: str) -> Iterable[Problem]:
        """One problem a line of the pool."""
        return self._problems


def read_pool(path: Path) -> Iterator[PoolRecord]:
    """The records of a JSONL (or .jsonl.gz) pool file, each checked."""
    seen: dict[str, int] = {}
    with _opened(path) as lines:
        try:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                record = _record(line, f"pool {path}, line {number}")
                if record.problem_id in seen:
                    raise HarnessError(
                        f"pool {path}, line {number}: problem_id {record.problem_id!r} stands on line "
                        f"{seen[record.problem_id]} already: one line a problem"
                    )
                seen[record.problem_id] = number
                yield record
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as failure:
            raise HarnessError(f"pool {path}: not UTF-8 JSON lines ({failure})") from failure
    if not seen:
        raise HarnessError(f"pool {path}: empty: it holds one JSON object a line, see docs/pools.md")


def count_lines(path: Path) -> int:
    """How many lines a pool file has, blank ones included; 0 where it cannot be read (`read_pool` will say why)."""
    try:
        with _opened(path) as lines:
            return sum(1 for _ in lines)
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile):
        return 0


def _opened(path: Path) -> IO[str]:
    if not path.is_file():
        raise HarnessError(f"pool {path}: no such file")
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _record(line: str, where: str) -> PoolRecord:
    try:
        value = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as failure:
        raise HarnessError(f"{where}: not JSON ({failure}); a truncated file ends like this") from failure
    if not isinstance(value, dict) or "problem_id" not in value or "responses" not in value:
        raise HarnessError(f'{where}: expected {{"problem_id": ..., "responses": [...]}}, got {line.strip()[:60]!r}')
    problem_id, responses = value["problem_id"], value["responses"]
    if not isinstance(problem_id, str) or not problem_id:
        raise HarnessError(f"{where}: problem_id must be a text, got {problem_id!r}")
    where = f"{where} ({problem_id})"
    if not isinstance(responses, list) or not all(isinstance(text, str) for text in responses):
        raise HarnessError(f"{where}: responses must be a list of texts")
    if not responses:
        raise HarnessError(f"{where}: no responses: leave the problem out, or give it some")
    prompt = value.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        raise HarnessError(f"{where}: prompt must be a text, got {prompt!r:.60}")
    return PoolRecord(
        problem_id=problem_id,
        responses=responses,
        prompt=prompt,
        reference=value.get("reference"),
        logprobs=_column(value, "logprobs", len(responses), where),
        logprob_kind=value.get("logprob_kind"),
        correct=_column(value, "correct", len(responses), where),
    )


def _column(value: Mapping[str, Any], name: str, n: int, where: str) -> Any:
    column = value.get(name)
    if column is None:
        return None
    if not isinstance(column, list) or len(column) != n:
        size = f"{len(column)} entries" if isinstance(column, list) else f"{column!r:.40}"
        raise HarnessError(f"{where}: {name} must be a list as long as responses ({n}), got {size}")
    if name == "correct":
        good = all(isinstance(entry, bool) or (type(entry) in (int, float) and entry in (0, 1)) for entry in column)
        if not good:
            raise HarnessError(f"{where}: correct must hold true and false only")
        return [bool(entry) for entry in column]
    if not all(type(entry) in (int, float) and not math.isnan(entry) for entry in column):
        raise HarnessError(f"{where}: {name} must hold numbers only")
    return column


def file_digest(path: Path) -> str:
    """`sha256:` and the first 16 hex digits of the file's SHA-256."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def given_verdicts(record: PoolRecord) -> list[Verdict]:
    """The verdicts that the pool carries."""
    return [correct("given") if entry else wrong("given") for entry in record.correct or ()]


class Joiner:
    """Finds the task's problem for a pool's line: by id, else by the raw prompt, else by the rendered one.

    Prompts are compared with their runs of blanks made one.
    """

    def __init__(self, task: Task, problems: Iterable[Problem]) -> None:
        self.by_id: dict[str, Problem] = {}
        self.by_prompt: dict[str, Problem] = {}
        for problem in problems:
            self.by_id[problem.id] = problem
            rendered = "\n".join(message["content"] for message in task.messages(problem))
            for text in (rendered, problem.prompt):
                self.by_prompt[_squeezed(text)] = problem

    def __call__(self, record: PoolRecord) -> Problem | None:
        """The problem, or None where the line joins to none."""
        if record.problem_id in self.by_id:
            return self.by_id[record.problem_id]
        return self.by_prompt.get(_squeezed(record.prompt)) if record.prompt else None


def _squeezed(text: str) -> str:
    return " ".join(text.split())


class GivenVectors:
    """Vectors of one's own: an `.npz` or `.safetensors` file, one (n, d) array per problem id, read one at a time."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise HarnessError(f"embeddings {path}: no such file")
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
