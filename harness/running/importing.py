"""Importing a pool made elsewhere into the store, once; afterwards it is a pool like any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from harness.contracts import Task
from harness.errors import HarnessError
from harness.pools.given import PoolTask, file_digest, given_verdicts, pool_digest
from harness.pools.joining import SEVERAL, IdTable, Joiner
from harness.pools.layouts.reading import count_problems, read_pool
from harness.pools.record import PoolRecord
from harness.records import Problem, Responses
from harness.stages.work import Work, answer_or_none
from harness.store import shards
from harness.store.shards import Stage
from harness.system.progress import Progress
from harness.system.progress import Stage as ShownStage

from . import hardest
from .config import RunConfig
from .context import Setting

READER = "3"  # how files are read and joined: part of the key, so that a pool is imported anew when that changes


@dataclass(frozen=True)
class Imported:
    """A pool in the store: its task, the problems that it has responses to, the work on them.

    `lines`: problem id -> what the pool itself calls it.
    """

    task: Task
    problems: Sequence[Problem]
    work: Work
    lines: Mapping[str, str]


@dataclass(frozen=True)
class Kept:
    """The responses of a pool made elsewhere, in the store: an entry a problem, and the problems in the same order."""

    task: Task
    problems: Sequence[Problem]
    pool: Stage
    entries: Sequence[dict[str, Any]]

    @property
    def lines(self) -> dict[str, str]:
        """Problem id -> what the pool itself calls it."""
        return {entry["id"]: entry["line"] for entry in self.entries}


def import_pool(setting: Setting, needs_verdicts: bool = True) -> Imported:
    """The pool of the config, imported unless it is there already, joined to the task's problems.

    Verdicts: the pool's own where every line carries them (unless `regrade`), else the task's verifier's. Without
    `needs_verdicts` the pool is only to be kept: it may lack verdicts, and its problems may have differently many
    responses.
    """
    config, kept = setting.config, _kept(setting)
    assert config.pool is not None
    judged = all(entry.get("figures") for entry in kept.entries) and kept.task.measurer() is not None
    has_verdicts = judged or all(entry["graded"] for entry in kept.entries)
    if needs_verdicts and not config.task and not has_verdicts:
        raise HarnessError(
            f"pool {config.pool}: carries no verdicts (`correct`) for every problem: say which --task grades"
        )
    given = has_verdicts and not (config.regrade and config.task)
    n = _common_size(config, kept.entries) if needs_verdicts else None
    work = setting.work(kept.task, kept.pool, given=given, n=n)
    if given:
        whose = "by the pool's own plddt and ptm" if judged else "the pool's own (`correct`)"
        setting.progress.say(f"verdicts: {whose}" + ("; --regrade grades anew" * bool(config.task)))
        lines = [entry["line"] for entry in kept.entries]
        _keep_given(config.pool, dict(zip(lines, kept.problems, strict=True)), kept.task, work)
    return Imported(kept.task, kept.problems, work, kept.lines)


def import_responses(setting: Setting) -> Imported:
    """The pool of the config as far as its responses: verdicts that it carries are neither asked for nor read."""
    kept = _kept(setting)
    return Imported(kept.task, kept.problems, setting.work(kept.task, kept.pool), kept.lines)


def read_responses(setting: Setting) -> Iterator[tuple[Problem, Responses]]:
    """The problems of the config's pool file with their responses, joined as `import_pool` does; keeps nothing.

    What the file calls the responses and the problem stands in `problem.meta`, as "names" and "line".
    """
    config = setting.config
    assert config.pool is not None
    _, _, join = _joiner(setting)
    joined = JoinedPool(config.pool, join)
    for record, problem in joined:
        yield (
            replace(problem, meta={**problem.meta, "names": record.names, "line": record.problem_id}),
            record.as_responses(),
        )
    _say_what_joined(joined.index(), setting.progress)


def _kept(setting: Setting) -> Kept:
    config, task = setting.config, setting.task
    assert config.pool is not None
    if not config.pool.exists():
        raise HarnessError(f"pool {config.pool}: no such file")
    split, candidates, join = _joiner(setting)
    pool = setting.store.stage("pool", _inputs(setting, split, candidates), ".parquet")
    index = _index(config.pool, pool, join, setting.progress)
    _say_what_joined(index, setting.progress)
    entries = hardest.only(config.only, index["entries"], itemgetter("id"), f"pool {config.pool}")[: config.limit]
    if not task:
        candidates = [Problem(entry["id"], entry["prompt"], entry["reference"]) for entry in entries]
        task = PoolTask(candidates)
    by_id = {problem.id: problem for problem in candidates}
    return Kept(task, [by_id[entry["id"]] for entry in entries], pool, entries)


def _joiner(setting: Setting) -> tuple[str, list[Problem], Joiner | None]:
    """The split that a pool is joined to, its problems, and what finds them; nothing to join to without a task."""
    config, task = setting.config, setting.task
    ids = _table(config)
    split = config.split or (task.default_split("")[0] if task else "")
    candidates = list(task.problems(split)) if task else []
    return split, candidates, Joiner(task, candidates, ids) if task else None


def _table(config: RunConfig) -> IdTable | None:
    if config.ids and not config.task:
        raise HarnessError(f"ids {config.ids}: it maps the pool's lines to a task's problems: say which --task")
    return IdTable(config.ids) if config.ids else None


def _inputs(setting: Setting, split: str, candidates: Sequence[Problem]) -> dict[str, Any]:
    """All that fixes which responses the imported pool has, and to which problems."""
    config, task = setting.config, setting.task
    assert config.pool is not None
    inputs: dict[str, Any] = {
        "file": pool_digest(config.pool),
        "task": task.pools_as or config.task if task else None,
        "split": split,
        "reader": READER,
    }
    if task:
        names = [[problem.id, problem.prompt, task.messages(problem)] for problem in candidates]
        inputs |= {"revision": task.revision, "problems": shards.digest(names)}
    if config.ids:
        inputs["ids"] = file_digest(config.ids)
    return inputs


def _index(path: Path, pool: Stage, join: Joiner | None, progress: Progress) -> dict[str, Any]:
    """What the pool in the store holds: an entry a problem, the lines that joined to none, what there is to say."""
    index = pool.folder / "index.json"
    with shards.disk_errors(index):
        is_kept = index.exists()
    if not is_kept:
        pool.begin()
        with progress.stage("import", count_problems(path), "problems", closing=False) as stage:
            shards.write_record(index, _import(path, pool, join, stage))
    return shards.read_record(index)


def _import(path: Path, pool: Stage, join: Joiner | None, shown: ShownStage) -> dict[str, Any]:
    """Write a shard a line; the index, which is written last, says that all are there."""
    joined = JoinedPool(path, join)
    for record, problem in joined:
        shards.write_responses(pool, problem, record.as_responses())
        shown.advance()
    return joined.index()


class JoinedPool:
    """A pool file's lines with the problems that they answer, one at a time; `index` says what was found, at the end.

    Without a `join` each line brings its own problem.
    """

    def __init__(self, path: Path, join: Joiner | None) -> None:
        self.path, self.join = path, join
        self.entries: list[dict[str, Any]] = []
        self.lost: list[str] = []
        self.several: list[str] = []
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[tuple[PoolRecord, Problem]]:
        taken: dict[str, str] = {}
        for record in read_pool(self.path, self.notes.append):
            problem, way = self.join(record) if self.join else (_own_problem(record), "")
            if problem is None:
                (self.several if way == SEVERAL else self.lost).append(record.problem_id)
                continue
            name = shards.storable(problem.id)  # as a cell has it
            if name in taken:
                raise HarnessError(
                    f"pool {self.path}: {record.problem_id!r} and {taken[name]!r} both join to problem {problem.id!r}"
                )
            taken[name] = record.problem_id
            self.entries.append(_entry(record, problem, way))
            yield record, problem

    def index(self) -> dict[str, Any]:
        """An entry a problem, the lines that joined to none, what there is to say; HarnessError where none joined."""
        path, join, entries = self.path, self.join, self.entries
        if not entries:
            raise HarnessError(_none_joined(path, [*self.lost, *self.several], join))
        if join and join.ids and not any(entry["way"] == "--ids" for entry in entries):
            raise HarnessError(
                f"ids {join.ids.path}: names no line of pool {path}; its first is {entries[0]['line']!r}"
            )
        return {"entries": entries, "lost": self.lost, "several": self.several, "notes": self.notes}


def _none_joined(path: Path, lost: Sequence[str], join: Joiner | None) -> str:
    what_to_do = "the table" if join and join.ids else "give a table of --ids"
    return (
        f"pool {path}: none of its {len(lost)} problems is the task's, by id or by prompt; the first is {lost[0]!r}: "
        f"check the split, or {what_to_do}"
    )


def _own_problem(record: PoolRecord) -> Problem:
    return Problem(record.problem_id, next(iter(record.prompts), ""), record.reference)


def _entry(record: PoolRecord, problem: Problem, way: str) -> dict[str, Any]:
    return {
        "id": problem.id,
        "line": record.problem_id,
        "way": way,
        "prompt": next(iter(record.prompts), ""),
        "reference": record.reference,
        "n": len(record.responses),
        "graded": record.correct is not None,
        **({"figures": True} if record.figures else {}),
        "logprob_kind": record.logprob_kind,
    }


def _say_what_joined(index: dict[str, Any], progress: Progress) -> None:
    entries, lost, several = index["entries"], index["lost"], index["several"]
    total = len(entries) + len(lost) + len(several)
    for note in index["notes"]:
        progress.say(note)
    ways = Counter(entry["way"] for entry in entries)
    if set(ways) - {"", "id"}:
        progress.say(f"pool: {_listed_ways(ways)}")
    if lost:
        progress.say(f"pool: {len(lost)} of {total} problems join to none of the task's: {_shown(lost)}")
    if several:
        progress.say(
            f"pool: {len(several)} of {total} problems fit several of the task's and are left out: {_shown(several)}; "
            "a table of --ids says which is meant"
        )


def _listed_ways(ways: Counter[str]) -> str:
    named = {
        "--ids": "by the table of --ids",
        "id": "by id",
        "prompt": "by prompt",
        "rendered": "by the prompt as the task asks it",
        "within": "because their prompt holds the task's",
    }
    return "joined " + ", ".join(f"{ways[way]:,} {text}" for way, text in named.items() if ways[way])


def _shown(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")


def _keep_given(path: Path, problem_of: Mapping[str, Problem], task: Task, work: Work) -> None:
    """Write the verdicts that the file carries, and the answers that the task finds, where they are not there yet."""
    work.verdicts.begin()
    missing = {problem.id for problem in work.verdicts.missing(list(problem_of.values()))}
    for record in read_pool(path) if missing else ():
        problem = problem_of.get(record.problem_id)
        if problem is not None and problem.id in missing:
            pool = shards.read_responses(work.pool, problem)
            responses = list(zip(pool.texts, pool.finish, strict=True))
            answers = {one: answer_or_none(task, problem, *one) for one in dict.fromkeys(responses)}
            verdicts = (
                [task.judge(problem, text, one) for text, one in zip(record.responses, record.figures, strict=True)]
                if record.figures
                else given_verdicts(record)
            )
            shards.write_verdicts(work.verdicts, problem, verdicts, [answers[one] for one in responses])


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
