"""Measure: compute and keep the measurements of responses that a `Measured` task judges by thresholds.

Measurements are kept in STORE/measure under the measurer's identity only. So nothing is measured twice: not for another
threshold, not for another pool with the same response, not after a run was killed (they are written after every
`measured_together` responses). Chunks are measured in this process, one after the other, since a measurer may fill a
GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.errors import HarnessError
from harness.records import Problem
from harness.store import shards
from harness.store.keys import text_hash
from harness.store.stage import Stage, Store
from harness.system.progress import Progress
from harness.task import Measured, Measurer, Task

from .work import Work, batches


def measure(store: Store, task: Task, work: Work, problems: Sequence[Problem], progress: Progress) -> Work:
    """Measure the responses of these problems that the store has no measurements of, and write the measurements.

    Return `work` with the stage of the measurements as `measured`. If the task is not `Measured`, or there are no
    problems, return `work` unchanged.
    """
    if not isinstance(task, Measured) or not problems:
        return work
    measurer = task.measurer()
    stage = _stage(store, measurer)
    stage.begin()
    total = sum(len(_waiting(task, work, stage, problem)) for problem in problems)
    if total:
        with progress.stage("measure", total, "responses") as bar:
            for problem in problems:
                for chunk in batches(_waiting(task, work, stage, problem), task.measured_together):
                    _measure_chunk(measurer, stage, problem, chunk)
                    bar.advance(len(chunk))
    return replace(work, measured=stage)


def still_to_measure(
    store: Store, task: Task, work: Work, problems: Sequence[Problem], n: int
) -> list[tuple[Problem, int]]:
    """The problems with responses still to be measured, each with their number; empty if the task does not measure.

    Graded problems are left out. A problem that is not sampled yet counts as `n` distinct responses.
    """
    ungraded = work.verdicts.missing(problems) if isinstance(task, Measured) else []
    if not ungraded or not isinstance(task, Measured):
        return []
    stage = _stage(store, task.measurer())
    unsampled = {problem.id for problem in work.pool.missing(ungraded)}
    counts = [(each, n if each.id in unsampled else len(_waiting(task, work, stage, each))) for each in ungraded]
    return [(problem, count) for problem, count in counts if count]


def _stage(store: Store, measurer: Measurer) -> Stage:
    return store.stage("measure", dict(measurer.identity()), ".parquet")


def _waiting(task: Measured, work: Work, stage: Stage, problem: Problem) -> Sequence[str]:
    """The distinct responses of a problem without measurements, in the order of the pool."""
    known = shards.read_measurements(stage.path(problem))
    texts = dict.fromkeys(shards.read_responses(work.pool.path(problem)).texts)
    return task.measurable(problem, [text for text in texts if text_hash(text) not in known])


def _measure_chunk(measurer: Measurer, stage: Stage, problem: Problem, texts: Sequence[str]) -> None:
    """Measure some responses, and add the values to those in the store, another run's included."""
    values = measurer.measure(texts)
    if len(values) != len(texts):
        raise HarnessError(f"{type(measurer).__name__}: measure gave {len(values)} entries for {len(texts)} responses")
    new = {text_hash(text): each for text, each in zip(texts, values, strict=True)}
    shards.write_measurements(stage.path(problem), shards.read_measurements(stage.path(problem)) | new)
