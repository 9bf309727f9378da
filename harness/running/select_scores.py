"""Scores for `harness select`: those in memory, or those of a scorer, kept in the store as a run's are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.plugin_system.picks import needs
from harness.pools.record import scores_in
from harness.stages.response_scores import read_scores
from harness.system.progress import Progress

from . import pipeline
from .candidates import Candidates
from .config import SelectConfig
from .importing import import_pool
from .planning import make_plan
from .preflight import Outlook, require_consent, to_score


def with_given(given: Mapping[str, Any], candidates: Sequence[Candidates]) -> list[Candidates]:
    """The candidates with scores that the caller holds: problem id -> n numbers, or names -> n numbers.

    HarnessError for an id that is no candidate's, and for scores that are no n numbers.
    """
    unknown = set(given) - {each.problem.id for each in candidates}
    if unknown:
        raise HarnessError(f"select: scores of {min(unknown)!r}, which is none of the problems")
    return [_with(each, _numbers(given.get(each.problem.id), each)) for each in candidates]


def _numbers(given: Any, each: Candidates) -> dict[str, Any]:
    named = given if given is None or isinstance(given, Mapping) else {"score": given}
    listed = named and {name: _listed(column) for name, column in named.items()}
    scores = scores_in(listed, len(each.responses), f"select: problem {each.problem.id!r}")
    return {name: np.array(column, np.float64) for name, column in scores.items()}


def _listed(column: Any) -> Any:
    return column.tolist() if hasattr(column, "tolist") else list(column) if isinstance(column, Sequence) else column


def _with(each: Candidates, scores: Mapping[str, Any]) -> Candidates:
    return replace(each, responses=replace(each.responses, scores={**each.responses.scores, **scores}))


def with_scorer(
    request: SelectConfig, selector: Any, candidates: Sequence[Candidates], progress: Progress
) -> list[Candidates]:
    """The candidates with the scores of the request's scorer, if it names one and the selector reads scores."""
    if not request.scorer or "scores" not in needs(selector):
        if request.scorer:
            progress.say(f"selector {request.selector!r} reads no scores: none are made")
        return list(candidates)
    plan = make_plan(request.run_config, Progress(quiet=True), with_verdicts=False)
    stage = plan.work.scores
    assert stage is not None  # the config names a scorer
    stage.begin()
    plan.show_weights(progress)
    require_consent("select", Outlook(0, to_score(plan)), progress, "a smaller --pool makes it shorter")
    if plan.imported:
        import_pool(plan.imported, progress)
    pipeline.add_scores(plan, progress)
    problems = {problem.id: problem for problem in plan.problems}
    return [_with(each, read_scores(stage, problems[each.problem.id], len(each.responses))) for each in candidates]
