"""Answers that cost a run of each response (`AnswersByRunning`): run, and kept in STORE/answer.

They are kept by the response's text, apart from verdicts and for all pools of a store. So nothing runs twice: not for
another pool with the same response, not after a run was killed (they are written after each problem), and `harness
select` uses what `harness run` made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.errors import HarnessError, contained, error_text
from harness.plugin_system import finish_argument
from harness.records import Problem
from harness.store import shards
from harness.store.keys import text_hash
from harness.store.stage import Stage
from harness.task import AnswersByRunning, Ran, Task

NONE = Ran(None, 0.0)


def runs_answers(task: Any) -> bool:
    """Whether the task's answers, with its present parameters, cost a run of each response."""
    return isinstance(task, AnswersByRunning) and task.runs_answers


def ran_answers(
    task: Task, stage: Stage, problem: Problem, texts: Sequence[str], finish: Sequence[str]
) -> tuple[list[str | None], float]:
    """Return the answer of each response, and the CPU seconds that the answers cost, also if the store had them.

    Those that the store lacks are run together and written. A response that could not be run through a fault of ours
    has no answer here, and is run again next time. HarnessError if the task cannot run any.

    finish  how each response ended; read if the task reads it
    """
    reads = finish if finish_argument.reads_finish(task) else [""] * len(texts)
    each = list(zip(texts, reads, strict=True))
    keys = {response: text_hash("\0".join(response[::-1])) for response in dict.fromkeys(each)}
    known = shards.read_ran(stage.path(problem))
    new = [response for response, key in keys.items() if key not in known]
    if new:
        fresh = zip(new, _run(task, problem, new), strict=True)
        known |= {keys[response]: ran for response, ran in fresh if ran is not None}
        shards.write_ran(stage.path(problem), known)
    return (
        [known.get(keys[response], NONE).answer for response in each],
        sum(known.get(key, NONE).cpu_s for key in keys.values()),
    )


def _run(task: Task, problem: Problem, responses: Sequence[tuple[str, str]]) -> Sequence[Ran | None]:
    assert isinstance(task, AnswersByRunning)
    texts, finish = [text for text, _ in responses], [end for _, end in responses]
    try:
        with contained():
            ran = list(task.run_answers(problem, texts, **finish_argument.keyword(task, "run_answers", finish)))
    except HarnessError:
        raise
    except Exception as failure:
        raise HarnessError(f"task {type(task).__name__}: run_answers {error_text(failure)}") from failure
    if len(ran) != len(texts):
        raise HarnessError(f"task {type(task).__name__}: run_answers gave {len(ran)} answers for {len(texts)}")
    return ran
