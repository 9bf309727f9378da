"""Pass to a task how each response ended (`finish`), if it reads that (`Task.reads_finish`).

A task may define any of the methods that take `finish`; those that it inherits from `Task` take none. A sequence
`finish` says how each response ended: "stop" or "length", "" if that is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.contracts import Task
from harness.records import Problem, Verdict


def reads_finish(task: Any) -> bool:
    """Whether the task's verdicts depend on how a response ended."""
    return bool(getattr(task, "reads_finish", False))


def keyword(task: Any, method: str, finish: str | Sequence[str]) -> dict[str, Any]:
    """`{"finish": finish}` if the task reads it and defines that method itself; otherwise {}."""
    return {"finish": finish} if reads_finish(task) and not _inherits(task, method) else {}


def verify_all(task: Any, problem: Problem, texts: Sequence[str], finish: Sequence[str]) -> list[Verdict]:
    """Return the verdicts on many responses to a problem."""
    if reads_finish(task) and _inherits(task, "verify_all"):
        return [task.verify(problem, text, finish=end) for text, end in zip(texts, finish, strict=True)]
    return list(task.verify_all(problem, texts, **keyword(task, "verify_all", finish)))


def answers(task: Any, problem: Problem, texts: Sequence[str], finish: Sequence[str]) -> list[str | None]:
    """Return the final answers of many responses to a problem, None for a response without one."""
    if reads_finish(task) and _inherits(task, "answers"):
        return [
            task.answer(problem, text, **keyword(task, "answer", end)) for text, end in zip(texts, finish, strict=True)
        ]
    return list(task.answers(problem, texts, **keyword(task, "answers", finish)))


def _inherits(task: Any, method: str) -> bool:
    return getattr(type(task), method, None) is getattr(Task, method, None)
