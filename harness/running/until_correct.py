"""`harness run --until-correct`: verify each response when it is sampled, until one is correct or the budget is spent.

There is no pool and no selector: the order is the sampler's. A problem gives a stopping time, which is censored where
the budget ended first. Such runs are scored by `scoring.survival`, kept apart from cells, and never averaged with them.

    STORE/sequence/KEY/PROBLEM.parquet   the responses that were sampled
    STORE/stopped/KEY/PROBLEM.json       the verdicts on them, the stopping time, whether it is censored

The whole run is one more file (`results.stopping_times`). A problem is kept as soon as it is finished; a killed run
goes on with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from harness.contracts import Task
from harness.errors import HarnessError
from harness.records import Problem, Responses, Verdict
from harness.results import stopping_times
from harness.results.cells import made_with
from harness.stages.verify import graded
from harness.stages.work import batches
from harness.store import in_use, missing_rows, shards
from harness.store.json_files import read_record, write_record
from harness.store.keys import storable
from harness.store.stage import Stage
from harness.system.progress import Progress

from . import older_pools
from .billing import billed
from .config import RunConfig
from .plan import Plan, Sampling
from .planning import charge, make_plan
from .preflight import SHORTER, require_consent, sampling_outlook

FIRST, MORE = 16, 4  # responses of the first wave, and the growth of each wave (for a sampler that does not steer)


@dataclass(frozen=True)
class Sequences:
    """A plan, and the two stages that only such a run has."""

    plan: Plan
    sampling: Sampling
    sampled: Stage
    stopped: Stage
    tokens: Callable[[int], None] = lambda count: None  # called as tokens are sampled


@in_use.until_done
def run(config: RunConfig, progress: Progress) -> dict[str, Any]:
    """Run the config and return its row: share solved by budget, restricted means, their standard errors."""
    with progress.waiting("preparing the run"):
        sequences = planned(config, progress)
    missing = sequences.stopped.missing(sequences.plan.problems)
    older_pools.require_no_sequences(sequences.sampled, sequences.plan.problems, config.adopt or ())
    for stage in (sequences.sampled, sequences.stopped):
        stage.begin()
    if missing:
        outlook = sampling_outlook(sequences.plan, missing)
        require_consent("run --until-correct", outlook, progress, SHORTER)
        remark = sequences.plan.task.check(unsafe_exec=config.unsafe_exec)
        if remark:
            progress.say(remark)
        sample_and_verify(sequences, {problem.id for problem in missing}, progress)
    return stopping_times.row([_kept(sequences)])


def planned(config: RunConfig, progress: Progress) -> Sequences:
    """The plan of a run; HarnessError, in one line, if the config cannot be carried out."""
    plan = make_plan(config, progress)
    assert plan.sampling is not None  # the config has checked that there is no pool
    graded_by = {name: plan.work.verdicts.inputs[name] for name in ("task", "grader", "code")}
    inputs = {**plan.work.pool.inputs, "until": "correct", "verified": graded_by}
    stage = plan.context.store.stage
    sequences = Sequences(plan, plan.sampling, stage("sequence", inputs, ".parquet"), stage("stopped", inputs, ".json"))
    charge(plan.context, plan.sampling.engine, sequences.sampled)
    return sequences


def dry_run(config: RunConfig, progress: Progress) -> list[dict[str, Any]]:
    """Return one row: how many problems are in the store ("there"), how many are not ("to_make"), and the key."""
    sequences = planned(config, progress)
    missing, total = len(sequences.stopped.missing(sequences.plan.problems)), len(sequences.plan.problems)
    progress.say(f"to do: at most {missing * sequences.sampling.n:,} responses to {missing:,} problems")
    return [{"stage": "until correct", "there": total - missing, "to_make": missing, "key": sequences.stopped.key}]


def sample_and_verify(sequences: Sequences, missing: set[str], progress: Progress) -> None:
    """Sample and verify the sequences that are not in the store, some problems at a time; keep each once it ends."""
    plan, sampling = sequences.plan, sequences.sampling
    if len(missing) < len(plan.problems):
        reused = len(plan.problems) - len(missing)
        progress.say(f"until correct: reused for {reused} of {len(plan.problems)} problems")
    todo = [problem for problem in plan.problems if problem.id in missing]
    sample = _one_at_a_time if sampling.steered else _by_waves
    with billed(sampling.engine, progress) as cost, progress.stage("until correct", len(todo), "problems") as stage:
        stage.note = cost

        def keep(judge: Judge, responses: Responses) -> None:
            if not sequences.stopped.path(judge.problem).exists():  # an engine may report a problem twice
                _keep(sequences, judge, responses)
                stage.advance()

        for group in batches(todo, sampling.problems_per_call(FIRST)):
            sample(replace(sequences, tokens=stage.tokens), [Judge(plan.task, problem) for problem in group], keep)


@dataclass(eq=False)
class Judge:
    """The verifier of one problem; equal responses are verified once."""

    task: Task
    problem: Problem
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)

    def verdict(self, text: str, finish: str) -> Verdict:
        """Grade a text in the form that the store keeps, as a later run will. `finish`: "" if not known."""
        response = storable(text), finish
        if response not in self.verdicts:
            [self.verdicts[response]], _ = graded(self.task, self.problem, [response[0]], finish=[finish])
        return self.verdicts[response]

    def accepts(self, text: str, finish: str) -> bool:
        """Whether the response is correct; arguments as for `verdict`."""
        return self.verdict(text, finish).status == "correct"


Finish = Callable[[Judge, Responses], None]


def _sample(sequences: Sequences, judges: Sequence[Judge], n: int, finish: Finish, **more: Any) -> None:
    """Sample n responses to each problem (fewer if `until` stops it), and call `finish` with each finished problem."""
    engine, problems = sequences.sampling.engine, [judge.problem for judge in judges]
    if not getattr(engine, "served", False):  # a server's requests would wait for the verifier
        more["done"] = lambda place, responses: finish(judges[place], responses)
    more["journals"] = [missing_rows.journal(sequences.sampled, problem) for problem in problems]
    sampled = engine.sample(sequences.plan.request(problems, n, tokens=sequences.tokens, **more))
    for judge, responses in zip(judges, sampled, strict=True):
        finish(judge, responses)


def _one_at_a_time(sequences: Sequences, judges: Sequence[Judge], keep: Finish) -> None:
    """Let the engine ask the verifier after every response, since each response depends on those before."""

    def until(place: int, text: str, finish: str = "") -> bool:
        return judges[place].accepts(text, finish)

    _sample(sequences, judges, sequences.sampling.n, keep, until=until)


def _by_waves(sequences: Sequences, judges: Sequence[Judge], keep: Finish) -> None:
    """Sample independent responses in growing waves, and cut each problem's at its first correct one.

    A wave samples the rows of the waves before it again (row i is the same in each): at most a third more in all.
    """
    going, size = list(judges), FIRST
    while going:
        size = min(size, sequences.sampling.n)
        ended: set[str] = set()

        def finish(judge: Judge, responses: Responses, size: int = size, ended: set[str] = ended) -> None:
            _require_all(judge.problem, responses)
            each = enumerate(zip(responses.texts, responses.finish, strict=True))
            stop = next((i for i, response in each if judge.accepts(*response)), None)
            if stop is not None or size == sequences.sampling.n:
                ended.add(judge.problem.id)
                keep(judge, responses.first(size if stop is None else stop + 1))

        _sample(sequences, going, size, finish)
        going = [judge for judge in going if judge.problem.id not in ended]
        size *= MORE


def _require_all(problem: Problem, responses: Responses) -> None:
    if responses.missing:
        raise HarnessError(
            f"problem {problem.id!r}: {len(responses.missing)} responses are missing, and without them "
            "the first correct one is unknown: run the same command again; finished problems are kept"
        )


def _keep(sequences: Sequences, judge: Judge, responses: Responses) -> None:
    """Keep the responses, then the verdicts: a shard of verdicts says that both exist."""
    verdicts = [judge.verdict(*response) for response in zip(responses.texts, responses.finish, strict=True)]
    shards.write_responses(sequences.sampled.path(judge.problem), judge.problem, responses)
    write_record(
        sequences.stopped.path(judge.problem),
        {
            "problem_id": storable(judge.problem.id),
            "time": len(verdicts),
            "solved": verdicts[-1].status == "correct",
            "budget": sequences.sampling.n,
            "tokens": int(np.sum(responses.lengths)),
            "verdicts": [[verdict.status, storable(verdict.reason)] for verdict in verdicts],
            "conditions": dict(judge.task.conditions()),
        },
    )
    missing_rows.journal(sequences.sampled, judge.problem).unlink(missing_ok=True)


# The run as one file.


def _kept(sequences: Sequences) -> stopping_times.Record:
    """The run's record, from its shards; written to the store too."""
    plan, stops = sequences.plan, [read_record(sequences.stopped.path(problem)) for problem in sequences.plan.problems]
    record: stopping_times.Record = {
        "kind": stopping_times.KIND,
        "schema": stopping_times.SCHEMA,
        "labels": {**plan.labels, "embedder": "none", "selector": "in-order", "seed": plan.config.seed},
        "budget": sequences.sampling.n,
        "inputs": dict(sequences.stopped.inputs),
        **made_with(()),
        "problems": [_entry(stop) for stop in stops],
    }
    stopping_times.write(plan.context.store.root, record)
    return record


def _entry(stop: dict[str, Any]) -> dict[str, Any]:
    errors = sum(status == "error" for status, _ in stop["verdicts"])
    return {"id": stop["problem_id"], **{name: stop[name] for name in ("time", "solved", "tokens")}, "errors": errors}
