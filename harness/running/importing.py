"""A pool made elsewhere: planned from its file alone, and brought into the store, once, as a stage of the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.pools.given import PoolTask
from harness.pools.joining import IdTable, Joined, Joiner, remarks
from harness.pools.reading import (
    Layouts,
    count_problems,
    file_digest,
    other_layout,
    pool_digest,
    read_pool,
    takes_scores,
)
from harness.pools.record import PoolRecord
from harness.records import Problem, Responses, correct, wrong
from harness.stages.answers import ran_answers
from harness.stages.verify import answer_or_none
from harness.stages.work import Work
from harness.store import shards
from harness.store.json_files import read_record, write_record
from harness.store.keys import digest
from harness.store.stage import Stage
from harness.system.files import disk_errors
from harness.system.progress import Progress
from harness.task import Measured, Task

from . import chosen_problems
from .config import RunConfig
from .context import Context

READER = "3"  # how files are read and joined: part of the key, so that a pool is imported anew when that changes


@dataclass(frozen=True)
class ImportedPool:
    """A pool made elsewhere as a plan has it; its responses need not be in the store yet.

    joined     its file, line by line with the problems
    problems   those that it has responses to, after --only and --limit; `entries` say of each, in the same order, what
               the file says of it
    is_stored  whether the store had it when the plan was made
    """

    joined: Joined
    task: Task
    problems: Sequence[Problem]
    entries: Sequence[dict[str, Any]]
    stage: Stage
    is_stored: bool

    @property
    def path(self) -> Path:
        """The file or folder."""
        return self.joined.path

    @property
    def lines(self) -> dict[str, str]:
        """Problem id -> the name that the file gives it."""
        return {entry["id"]: entry["line"] for entry in self.entries}

    @property
    def is_measured(self) -> bool:
        """Whether the file brings measurements by which the task judges."""
        return all(entry.get("figures") for entry in self.entries) and isinstance(self.task, Measured)

    @property
    def has_verdicts(self) -> bool:
        """Whether it brings a verdict on every response, or measurements that give one."""
        return self.is_measured or all(entry["graded"] for entry in self.entries)


def imported_pool(context: Context) -> ImportedPool:
    """The pool of the config, joined to the task's problems; read from its file, or from the store if it has it."""
    config, task = context.config, context.task
    split, candidates, joined = _joined(context)
    stage = context.store.stage("pool", _inputs(context, split, candidates, joined), ".parquet")
    index_file = stage.folder / "index.json"
    with disk_errors(index_file):
        is_stored = index_file.exists()
    if is_stored:
        index = read_record(index_file)
    else:
        for _ in _with_progress(joined, "read", context.progress):
            pass
        index = joined.index()
    for line in remarks(index):
        context.progress.say(line)
    entries = chosen_problems.only(config.only, index["entries"], itemgetter("id"), f"pool {joined.path}")
    entries = entries[: config.limit]
    if not task:
        candidates = [Problem(entry["id"], entry["prompt"], entry["reference"]) for entry in entries]
        task = PoolTask(candidates)
    by_id = {problem.id: problem for problem in candidates}
    problems = [by_id[entry["id"]] for entry in entries]
    return ImportedPool(joined, task, problems, entries, stage, is_stored)


def import_pool(pool: ImportedPool, progress: Progress) -> None:
    """Write the pool to the store, one shard a problem, unless the store has all of it.

    It is the whole file, also the problems that --only and --limit leave out. The index, written last, says that the
    pool in the store is complete.
    """
    index_file = pool.stage.folder / "index.json"
    if pool.is_stored or index_file.exists():
        return
    pool.stage.begin()
    for record, problem in _with_progress(pool.joined, "import", progress):
        shards.write_responses(pool.stage.path(problem), problem, record.as_responses())
    write_record(index_file, pool.joined.index())


def bring_in(pool: ImportedPool, work: Work, progress: Progress) -> None:
    """Import the pool, and the verdicts that it brings where these count (`work` says so)."""
    import_pool(pool, progress)
    if work.verdicts.inputs["given"]:
        keep_given_verdicts(pool, work)


def verdicts_given(context: Context, pool: ImportedPool, needed: bool = True) -> bool:
    """Whether the pool's own verdicts count: if every response has one, unless --regrade asks the task's verifier.

    HarnessError if verdicts are `needed`, and neither the pool nor a task gives them.
    """
    config = context.config
    if needed and not config.task and not pool.has_verdicts:
        without = [entry["line"] for entry in pool.entries if not entry["graded"]]
        some = f"{len(without)} of {len(pool.entries)} problems, the first of them {without[0]!r:.80}, have"
        who = "it has" if len(without) == len(pool.entries) else some
        raise HarnessError(f"pool {config.pool}: {who} no verdicts (`correct`): add them, or say which --task grades")
    given = pool.has_verdicts and not (config.regrade and config.task)
    if given:
        whose = "by the pool's own plddt and ptm" if pool.is_measured else "the pool's own (`correct`)"
        context.progress.say(f"verdicts: {whose}" + ("; --regrade grades anew" if config.task else ""))
    return given


def common_size(config: RunConfig, pool: ImportedPool) -> int | None:
    """Return how many responses of each problem count: `--n`, else None for all, which must then be equally many.

    HarnessError if a problem has fewer than `--n`, or if all count and problems differ.
    """
    smallest = min(pool.entries, key=itemgetter("n"))
    largest = max(pool.entries, key=itemgetter("n"))
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


def keep_given_verdicts(pool: ImportedPool, work: Work) -> None:
    """Write the verdicts that the file carries, and the answers that the task extracts, where they are missing."""
    for stage in filter(None, (work.verdicts, work.answers)):
        stage.begin()
    missing = {problem.id for problem in work.verdicts.missing(pool.problems)}
    problem_of = dict(zip(pool.lines.values(), pool.problems, strict=True))
    for record in read_pool(pool.path, layouts=pool.joined.layouts) if missing else ():
        problem = problem_of.get(record.problem_id)
        if problem is None or problem.id not in missing:
            continue
        stored = shards.read_responses(work.pool.path(problem))
        answers, cpu_s = _answers(pool.task, work, problem, stored)
        if record.measurements and isinstance(pool.task, Measured):
            judged = zip(record.responses, record.measurements, strict=True)
            verdicts = [pool.task.judge(problem, text, measurements) for text, measurements in judged]
        else:
            verdicts = [correct("given") if entry else wrong("given") for entry in record.correct or ()]
        shards.write_verdicts(work.verdicts.path(problem), verdicts, answers, answers_cpu_s=cpu_s)


def _answers(task: Task, work: Work, problem: Problem, stored: Responses) -> tuple[list[str | None], float | None]:
    """The answer of each response, and the CPU seconds of running them; None where nothing had to be run."""
    if work.answers:
        return ran_answers(task, work.answers, problem, stored.texts, stored.finish)
    responses = list(zip(stored.texts, stored.finish, strict=True))
    answers = {each: answer_or_none(task, problem, *each) for each in dict.fromkeys(responses)}
    return [answers[each] for each in responses], None


def responses_in_file(context: Context) -> Iterator[tuple[Problem, Responses]]:
    """Yield the problems of the config's pool file with their responses, joined as `imported_pool` does.

    Nothing is stored, and --only and --limit do not count. The names that the file gives the responses and the problem
    stand in `problem.meta`, as "names" and "line".
    """
    joined = _joined(context)[2]
    for record, problem in joined:
        meta = {**problem.meta, "names": record.names, "line": record.problem_id}
        yield replace(problem, meta=meta), record.as_responses()
    for line in remarks(joined.index()):
        context.progress.say(line)


def _joined(context: Context) -> tuple[str, list[Problem], Joined]:
    """The split that the config's pool is joined to, its problems ([] without a task), and the file's lines."""
    config, task, path = context.config, context.task, context.config.pool
    assert path is not None
    if not path.exists():
        raise HarnessError(f"pool {path}: no such file")
    if config.ids and not config.task:
        raise HarnessError(f"ids {config.ids}: it maps the pool's lines to a task's problems: say which --task")
    ids = IdTable(config.ids) if config.ids else None
    split = config.split or (task.default_split("")[0] if task else "")
    candidates = list(task.problems(split)) if task else []
    layouts = Layouts(context.registry, context.progress.say)
    return split, candidates, Joined(path, Joiner(task, candidates, ids) if task else None, layouts)


def _inputs(context: Context, split: str, candidates: Sequence[Problem], joined: Joined) -> dict[str, Any]:
    """All that fixes which responses the imported pool has, and to which problems."""
    config, task = context.config, context.task
    inputs: dict[str, Any] = {
        "file": pool_digest(joined.path, joined.layouts),
        "task": task.pools_as or config.task if task else None,
        "split": split,
        "reader": READER,
    }
    if task:
        problems = [[problem.id, problem.prompt, task.messages(problem)] for problem in candidates]
        inputs |= {"revision": task.revision, "problems": digest(problems)}
    if config.ids:
        inputs["ids"] = file_digest(config.ids)
    if takes_scores(joined.path, joined.layouts):  # older versions read the same file without its scores
        inputs["scores"] = True
    layout = other_layout(joined.path, joined.layouts)
    return inputs | ({"layout": layout} if layout else {})


def _with_progress(joined: Joined, verb: str, progress: Progress) -> Iterator[tuple[PoolRecord, Problem]]:
    total = count_problems(joined.path, joined.layouts)
    with progress.stage(verb, total, "problems", closing=False) as stage:
        for line in joined:
            yield line
            stage.advance()
