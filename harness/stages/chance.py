"""The chance level: how often a grader accepts a response that answers another problem.

The first m = min(N, 256) responses of each problem are graded against the references of k = min(others,
`Task.chance_gradings` // m) other problems of the run. These are chosen with a seed that is made from the problem's id;
problems with the same reference are left out. `results.verdict_quality` turns the counts into one share.

A grader that takes a response's last number has a chance level of about one in a hundred on GSM8K. With thousands of
responses a problem, nearly every problem then looks solved at least once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from harness.contracts import Executor
from harness.records import Problem
from harness.store import shards
from harness.store.json_files import read_record, write_record
from harness.store.keys import digest, shard_name, storable
from harness.store.stage import Stage, Store
from harness.system.progress import Progress
from harness.task import Task

from .verify import graded
from .work import Work, problem_seed

RESPONSES = 256  # graded per problem, at most
ESTIMATOR = "1"

Gradings = tuple[Problem, Sequence[Problem]]  # a problem, and the problems whose references its responses are graded by


def stage_of(store: Store, work: Work, task: Task, problems: Sequence[Problem]) -> Stage | None:
    """The stage of the counts, whose key depends on all problems of the run.

    None if the task wants no such gradings (`chance_gradings` is 0), or the verdicts came with an imported pool.
    """
    if not task.chance_gradings or work.verdicts.inputs["given"]:
        return None
    names = digest([shard_name(problem) for problem in problems])
    own = {"problems": names, "n": work.n, "gradings": task.chance_gradings, "estimator": ESTIMATOR}
    return store.stage("chance", {**work.audits.inputs, **own}, ".json")


def measure(
    store: Store, executor: Executor, work: Work, task: Task, problems: Sequence[Problem], progress: Progress
) -> None:
    """Grade by other problems' references, through the executor, and write the counts that the store lacks."""
    stage = stage_of(store, work, task, problems)
    if stage is None:
        return
    stage.begin()
    missing = stage.missing(problems)
    if missing:
        with progress.stage("chance", len(missing), "problems") as bar:
            gradings = ((problem, others(work, task, problems, problem)) for problem in missing)
            for _ in executor.map(partial(grade, work, stage), gradings):
                bar.advance()


def others(work: Work, task: Task, problems: Sequence[Problem], problem: Problem) -> list[Problem]:
    """Choose the problems against whose references a problem's responses are graded; [] if no reference differs."""
    n = shards.count_rows(work.pool.path(problem))
    m = max(1, min(n if work.n is None else work.n, RESPONSES))
    own = repr(problem.reference)
    eligible = [other for other in problems if repr(other.reference) != own]
    rng = np.random.default_rng(problem_seed("chance", 0, problem))
    k = min(len(eligible), max(1, task.chance_gradings // m))
    return [eligible[place] for place in rng.choice(len(eligible), k, replace=False)] if eligible else []


def grade(work: Work, stage: Stage, gradings: Gradings) -> None:
    """Grade a problem's responses against other problems' references, and write the counts into the store.

    The counts are the number of correct gradings, and of all gradings.
    """
    problem, tried = gradings
    task = work.build_task()
    pool = shards.read_responses(work.pool.path(problem)).first(RESPONSES if work.n is None else min(work.n, RESPONSES))
    hits = 0
    for other in tried:
        verdicts, _ = graded(task, other, pool.texts, finish=pool.finish)
        hits += sum(verdict.status == "correct" for verdict in verdicts)
    counts = {"problem_id": storable(problem.id), "correct": hits, "gradings": len(pool) * len(tried)}
    write_record(stage.path(problem), counts)


def counts_in(stage: Stage | None, problem: Problem) -> list[int] | None:
    """[correct, gradings] of a problem; None if the store has none."""
    if stage is None or not stage.path(problem).exists():
        return None
    counts = read_record(stage.path(problem))
    return [counts["correct"], counts["gradings"]]
