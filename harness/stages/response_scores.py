"""Give stored responses scores by a scorer, such as a reward model; selectors read them, verdicts they are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.contracts import Report, Scorer
from harness.errors import HarnessError, contained, error_text
from harness.records import Floats, Message, Problem
from harness.store import shards
from harness.store.stage import Stage

from .model_work import Group, Models, ModelWork


def add_scores(todo: ModelWork, models: Models, group: Group, report: Report) -> None:
    """Write the scores of a group's stored responses; each problem is reported once it is written."""
    stage, scorer = todo.work.scores, models.scorer
    assert stage is not None
    assert scorer is not None
    for problem, prompt in zip(group.problems, group.prompts, strict=True):
        responses = shards.read_responses(todo.work.pool.path(problem))
        scores = scored(scorer, todo.scorer or "", problem, prompt, responses.texts)
        shards.write_scores(stage.path(problem), {name_of(stage): scores})
        report(len(responses))


def name_of(stage: Stage) -> str:
    """The name of the scores in a stage: that of their scorer."""
    return str(stage.inputs["scorer"]["name"])


def read_scores(stage: Stage, problem: Problem, n: int) -> dict[str, Floats]:
    """A problem's scores, name -> (n,); HarnessError if the shard has another number of rows than n."""
    scores = shards.read_scores(stage.path(problem))
    for values in scores.values():
        shards.require_rows(stage.path(problem), len(values), n)
    return scores


def scored(scorer: Scorer, spec: str, problem: Problem, prompt: Sequence[Message], texts: Sequence[str]) -> Floats:
    """The scorer's score of each text, (n,) float64; HarnessError if it raises, or gives something else.

    spec  the scorer's name in messages
    """
    where = f"scorer {spec!r}, problem {problem.id!r}"
    try:
        with contained():
            scores = np.asarray(scorer.score(problem, prompt, texts), np.float64)
    except HarnessError:
        raise
    except Exception as failure:
        raise HarnessError(f"{where}: {error_text(failure)}") from failure
    if scores.shape != (len(texts),) or np.isinf(scores).any():
        raise HarnessError(
            f"{where}: gave shape {scores.shape} for {len(texts)} responses, or infinity: a number each, NaN if unknown"
        )
    return scores
