"""Verdicts by figures that cost much: measured once, kept by what measured them, judged by any thresholds.

A task with a `measurer` has two steps where others have one. Figures are kept in STORE/measure under the measurer's
identity alone, so another threshold, another pool with the same response, and a run that was killed measure nothing
twice: they are written after every `Task.measured_together` responses. It is done in this process, one chunk after the
other: a measurer may fill a GPU, of which a second one would find nothing left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError
from harness.records import Problem
from harness.store import shards
from harness.store.shards import Stage
from harness.system.progress import Progress

from .work import Work, batches

if TYPE_CHECKING:
    from harness.running.plan import Plan


def measure(plan: Plan, missing: set[str], progress: Progress) -> Work:
    """Measure the responses of the problems without verdicts, where the task measures; the work of judging them."""
    measurer = plan.task.measurer()
    if measurer is None or not missing:
        return plan.work
    stage = _stage(plan, measurer)
    stage.begin()
    problems = [problem for problem in plan.problems if problem.id in missing]
    total = sum(len(_waiting(plan, stage, problem)) for problem in problems)
    if total:
        with progress.stage("measure", total, "responses") as bar:
            for problem in problems:
                for chunk in batches(_waiting(plan, stage, problem), plan.task.measured_together):
                    _measured(measurer, stage, problem, chunk)
                    bar.advance(len(chunk))
    return replace(plan.work, measured=stage)


def ahead(plan: Plan, n: int) -> list[tuple[Problem, int]]:
    """How many responses of each problem are still to be measured, of `n` each; none where the task does not measure.

    Of responses that are not drawn yet none counts as equal to another.
    """
    measurer = plan.task.measurer()
    problems = plan.work.verdicts.missing(plan.problems) if measurer else []
    if not problems:
        return []
    stage = _stage(plan, measurer)
    undrawn = {problem.id for problem in plan.work.pool.missing(problems)}
    counts = [(one, n if one.id in undrawn else len(_waiting(plan, stage, one))) for one in problems]
    return [(problem, count) for problem, count in counts if count]


def _stage(plan: Plan, measurer: Any) -> Stage:
    return plan.setting.store.stage("measure", dict(measurer.identity()), ".parquet")


def _waiting(plan: Plan, stage: Stage, problem: Problem) -> Sequence[str]:
    """The distinct responses of a problem that are not measured, in the order of the pool."""
    known = shards.read_figures(stage, problem)
    texts = dict.fromkeys(shards.read_responses(plan.work.pool, problem).texts)
    return plan.task.measurable(problem, [text for text in texts if shards.text_hash(text) not in known])


def _measured(measurer: Any, stage: Stage, problem: Problem, texts: Sequence[str]) -> None:
    """Measure a chunk and keep its figures beside those that are there, another run's included."""
    figures = measurer.measure(texts)
    if len(figures) != len(texts):
        raise HarnessError(f"{type(measurer).__name__}: measure gave {len(figures)} entries for {len(texts)} responses")
    new = {shards.text_hash(text): one for text, one in zip(texts, figures, strict=True)}
    shards.write_figures(stage, problem, shards.read_figures(stage, problem) | new)
