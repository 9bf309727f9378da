"""Importing a pool made elsewhere into the store, once; afterwards it is a pool like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import store
from .component import source_hash
from .config import RunConfig
from .contracts import Task
from .errors import HarnessError
from .pools import Joiner, PoolRecord, PoolTask, count_lines, file_digest, given_verdicts, read_pool
from .progress import Progress
from .progress import Stage as ShownStage
from .records import Problem
from .setting import Setting
from .store import Stage
from .work import Work, answer_or_none


@dataclass(frozen=True)
class Imported:
    """A pool in the store: its task, the problems that it has responses to, and the work on them."""

    task: Task
    problems: Sequence[Problem]
    work: Work


def import_pool(setting: Setting, needs_verdicts: bool = True) -> Imported:
    """The pool of the config, imported unless it is there already, joined to the task's problems.

    Verdicts: the pool's own where every line carries them (unless `regrade`), else the task's verifier's.
    """
    config, task = setting.config, setting.task
    assert config.pool is not None
    if not config.pool.is_file():
        raise HarnessError(f"pool {config.pool}: no such file")
    split = config.split or (task.default_split("")[0] if task else "")
    inputs: dict[str, Any] = {"file": file_digest(config.pool), "task": config.task, "split": split}
    if task:
        inputs |= {"revision": task.revision, "problems": source_hash(task)}
    pool = setting.store.stage("pool", inputs, ".parquet")
    candidates = list(task.problems(split)) if task else []
    index = _index(config.pool, pool, Joiner(task, candidates) if task else None, setting.progress)
    _say_lost(index, setting.progress)
    entries = index["entries"][: config.limit]
    if not task:
        candidates = [Problem(entry["id"], entry["prompt"], entry["reference"]) for entry in entries]
        task = PoolTask(candidates)
    by_id = {problem.id: problem for problem in candidates}
    problems = [by_id[entry["id"]] for entry in entries]
    has_verdicts = all(entry["graded"] for entry in entries)
    if needs_verdicts and not config.task and not has_verdicts:
        raise HarnessError(
            f"pool {config.pool}: carries no verdicts (`correct`) for every problem: say which --task grades"
        )
    given = has_verdicts and not (config.regrade and config.task)
    work = setting.work(task, pool, given=given, n=_common_size(config, entries))
    if given:
        setting.progress.say("verdicts: the pool's own (`correct`)" + ("; --regrade grades anew" * bool(config.task)))
        _keep_given(config.pool, Joiner(task, problems), task, pool, work.verdicts)
    return Imported(task, problems, work)


def _index(path: Path, pool: Stage, join: Joiner | None, progress: Progress) -> dict[str, Any]:
    """What the pool in the store holds: an entry a problem, and the ids of the lines that joined to none."""
    index = pool.folder / "index.json"
    if not index.exists():
        pool.begin()
        with progress.stage("import", count_lines(path), "problems", closing=False) as stage:
            store.write_json(index, _import(path, pool, join, stage))
    value: dict[str, Any] = store.read_json(index)
    return value


def _say_lost(index: dict[str, Any], progress: Progress) -> None:
    lost, entries = index["lost"], index["entries"]
    if lost:
        shown = ", ".join(repr(name) for name in lost[:5]) + (", ..." if len(lost) > 5 else "")
        progress.say(f"pool: {len(lost)} of {len(lost) + len(entries)} problems join to none of the task's: {shown}")


def _import(path: Path, pool: Stage, join: Joiner | None, shown: ShownStage) -> dict[str, Any]:
    """Write a shard a line; the index, which is written last, says that all are there."""
    entries: list[dict[str, Any]] = []
    lost: list[str] = []
    taken: dict[str, str] = {}
    for record in read_pool(path):
        problem = join(record) if join else Problem(record.problem_id, record.prompt or "", record.reference)
        if problem is None:
            lost.append(record.problem_id)
            continue
        if problem.id in taken:
            raise HarnessError(
                f"pool {path}: {record.problem_id!r} and {taken[problem.id]!r} both join to problem {problem.id!r}"
            )
        taken[problem.id] = record.problem_id
        store.write_responses(pool, problem, record.as_responses())
        entries.append(_entry(record, problem))
        shown.advance()
    if not entries:
        raise HarnessError(
            f"pool {path}: none of its {len(lost)} problems is the task's, by id or by prompt; the first is {lost[0]!r}"
        )
    return {"entries": entries, "lost": lost}


def _entry(record: PoolRecord, problem: Problem) -> dict[str, Any]:
    return {
        "id": problem.id,
        "prompt": record.prompt or "",
        "reference": record.reference,
        "n": len(record.responses),
        "graded": record.correct is not None,
        "logprob_kind": record.logprob_kind,
    }


def _keep_given(path: Path, join: Joiner, task: Task, pool: Stage, verdicts: Stage) -> None:
    """Write the verdicts that the file carries, and the answers that the task finds, where they are not there yet."""
    verdicts.begin()
    missing = {problem.id for problem in verdicts.missing(list(join.by_id.values()))}
    for record in read_pool(path) if missing else ():
        problem = join(record)
        if problem is not None and problem.id in missing:
            texts = store.read_responses(pool, problem).texts
            answers = {text: answer_or_none(task, problem, text) for text in dict.fromkeys(texts)}
            store.write_verdicts(verdicts, problem, given_verdicts(record), [answers[text] for text in texts])


def _common_size(config: RunConfig, entries: Sequence[dict[str, Any]]) -> int | None:
    """How many responses of each problem count: `--n`, else all, which must then be equally many."""
    smallest = min(entries, key=lambda entry: entry["n"])
    largest = max(entries, key=lambda entry: entry["n"])
    if config.n and config.n > smallest["n"]:
        raise HarnessError(
            f"--n {config.n} is more than pool {config.pool} holds: {smallest['id']!r} has {smallest['n']} responses"
        )
    if not config.n and smallest["n"] != largest["n"]:
        raise HarnessError(
            f"pool {config.pool}: {smallest['id']!r} has {smallest['n']} responses and {largest['id']!r} has "
            f"{largest['n']}: say --n {smallest['n']} to take the first {smallest['n']} of each"
        )
    return config.n
