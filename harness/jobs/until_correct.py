"""`harness run --until-correct`: verify each response when it is sampled, until one is correct or the budget is spent.

There is no pool and no selector: the order is the sampler's. A problem gives a stopping time, which is censored where
the budget ended first. The whole run is one more file, scored apart from cells (`results.stopping_times`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import pyarrow as pa

from harness.columns.column import Column, Out, Part, Question, Todo
from harness.columns.responses import Sampled, response_rows
from harness.columns.store import table
from harness.columns.verdicts import graded
from harness.contracts import Task
from harness.errors import HarnessError, Lacking
from harness.records import Responses, Verdict
from harness.results import stopping_times
from harness.results.cells import made_with
from harness.system.json_text import digest, storable
from harness.system.progress import Progress

from .options import RunConfig
from .plan import Context, Plan, charge, make_context, make_plan
from .price import SHORTER, ask_before_fetching, require_consent, sampling, space, unplanned

FIRST, MORE = 16, 4  # responses of the first wave, and the growth of each wave (for a sampler that does not steer)


@dataclass(frozen=True)
class Sequences(Sampled):
    """Responses to each problem up to the first correct one, at most n, with the verdicts on them."""

    kind: ClassVar[str] = "sequences"
    verb: ClassVar[str] = "until correct"
    noun: ClassVar[str] = "until correct"
    by_rows: ClassVar[bool] = False
    most_tokens: ClassVar[int] = 0  # progress counts problems, whose tokens are not bounded by those of a response

    grader: Part

    rows = Column.rows  # problems are counted

    @property
    def together(self) -> int:  # type: ignore[override]
        """As many problems as suit the engine with the first wave."""
        return int(self.engine.built.problems_per_call(FIRST))

    def part(self, question: Question) -> Any:
        """What the model sees, and what the grader reads."""
        return [question.asked, question.graded]

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        """Sample and verify; each problem is kept as soon as it ends.

        A sampler that steers lets the engine ask the verifier after every response, since each depends on those before.
        Others sample independent responses in growing waves, which are cut at the first correct one. A wave samples the
        rows of the waves before it again (row i is the same in each): at most a third more in all.
        """
        judges = [Judge(self.grader.built, each) for each in todo]

        def keep(judge: Judge, responses: Responses) -> None:
            if judge.is_done:  # an engine may report a problem twice
                return
            judge.is_done = True
            out.keep(judge.todo, judge.rows(responses))
            out.paid(judge.todo.question).unlink(missing_ok=True)
            out.report(1)

        def stops(place: int, text: str, finish: str = "") -> bool:
            return judges[place].verdict(text, finish).status == "correct"

        if self.steers:
            self._ask(judges, out, self.n, keep, until=stops)
            return
        size = FIRST
        while going := [judge for judge in judges if not judge.is_done]:
            size = min(size, self.n)

            def finish(judge: Judge, responses: Responses, size: int = size) -> None:
                if responses.missing:
                    raise HarnessError(
                        f"problem {judge.todo.problem.id!r}: {len(responses.missing)} responses are missing, and "
                        "without them the first correct one is unknown: run the same command again; finished problems "
                        "are kept"
                    )
                each = enumerate(zip(responses.texts, responses.finish, strict=True))
                stop = next((i for i, one in each if judge.verdict(*one).status == "correct"), None)
                if stop is not None or size == self.n:
                    keep(judge, responses.first(size if stop is None else stop + 1))

            self._ask(going, out, size, finish)
            size *= MORE

    def _ask(self, judges: Sequence[Judge], out: Out, n: int, finish: Finish, **more: Any) -> None:
        """Sample n responses to each problem (fewer if `until` stops it), and call `finish` with each finished one."""
        if not getattr(self.engine.built, "served", False):  # a server's requests would wait for the verifier
            more["done"] = lambda place, responses: finish(judges[place], responses)
        questions = [judge.todo.question for judge in judges]
        journals, tokens = self.journals(questions, out), out.tokens
        sampled = self.engine.built.sample(self.request(questions, n=n, tokens=tokens, journals=journals, **more))
        for judge, responses in zip(judges, sampled, strict=True):
            finish(judge, responses)


@dataclass(eq=False)
class Judge:
    """The verifier of one problem; equal responses are verified once."""

    task: Task
    todo: Todo
    is_done: bool = False
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)

    def verdict(self, text: str, finish: str) -> Verdict:
        """Grade a text in the form that the store keeps, as a later run will. `finish`: "" if not known."""
        response = storable(text), finish
        if response not in self.verdicts:
            [self.verdicts[response]], _ = graded(self.task, self.todo.problem, [response[0]], [finish])
        return self.verdicts[response]

    def rows(self, responses: Responses) -> pa.Table:
        """The responses with their verdicts, as they are stored."""
        verdicts = [self.verdict(*each) for each in zip(responses.texts, responses.finish, strict=True)]
        made = response_rows(responses)
        columns = {name: made[name] for name in made.column_names}
        columns["status"] = [verdict.status for verdict in verdicts]
        columns["reason"] = [storable(verdict.reason) for verdict in verdicts]
        return table(columns, {"conditions": dict(self.task.conditions())})


Finish = Callable[[Judge, Responses], None]


def planned(config: RunConfig, progress: Progress, context: Context | None = None) -> tuple[Plan, Sequences]:
    """The plan of a run, and its column."""
    plan = make_plan(config, progress, context=context)
    assert isinstance(plan.responses, Sampled)  # the config has checked that there is no pool
    assert plan.part_of_task is not None
    settings = {each.name: getattr(plan.responses, each.name) for each in fields(plan.responses)}
    made = Sequences(**settings, grader=plan.part_of_task)
    charge(plan, made)
    return replace(plan, responses=made, vectors=None, verdicts=None), made


def run(config: RunConfig, progress: Progress) -> dict[str, Any]:
    """Run the config and return its row: share solved by budget, restricted means, their standard errors."""
    context = make_context(config, progress)
    ask_before_fetching(context)
    with progress.waiting("preparing the run"):
        plan, sequences = planned(config, progress, context)
    with plan.store.used():
        missing = plan.store.missing(sequences, plan.questions)
        if missing:
            plan.store.begin(sequences)
            progress.say(_to_do(plan, sequences, len(missing)))
            outlook = sampling(plan, missing, len(missing) * sequences.n)
            require_consent("run --until-correct", outlook, progress, SHORTER)
            if remark := plan.task.check(unsafe_exec=config.unsafe_exec):
                progress.say(remark)
        return plan.maker.make([sequences], plan.questions, lambda: stopping_times.row([_kept(plan, sequences)]))


def dry_run(config: RunConfig, progress: Progress) -> list[dict[str, Any]]:
    """Return one row: how many problems are in the store ("there"), how many are not ("to_make"), and the key."""
    try:
        plan, sequences = planned(config, progress)
    except Lacking as failure:
        return unplanned(make_context(config, progress), failure, set())[0]
    missing, total = len(plan.store.missing(sequences, plan.questions)), len(plan.questions)
    progress.say(_to_do(plan, sequences, missing))
    return [{"stage": "until correct", "there": total - missing, "to_make": missing, "key": sequences.key}]


def _to_do(plan: Plan, sequences: Sequences, missing: int) -> str:
    most = f"to do: at most {missing * sequences.n:,} responses to {missing:,} problems"
    return ", ".join(filter(None, [most, space(plan).told(plan.store.root)]))


def _kept(plan: Plan, sequences: Sequences) -> stopping_times.Record:
    """The run's record, from its files; written to the store too."""
    hidden = ("kind", "version", "grader", "task")
    inputs = {name: value for name, value in sequences.settings.items() if name not in hidden}
    inputs["task"] = {"name": sequences.task, "revision": plan.task.revision}
    inputs["prompt"] = digest(list(plan.questions[0].chat))
    problems = []
    for question in plan.questions:
        rows = plan.store.rows(sequences, question)
        status, lengths = rows["status"].to_pylist(), rows["length"].to_pylist()
        entry = {"id": storable(question.problem.id), "time": len(status), "solved": status[-1] == "correct"}
        problems.append({**entry, "tokens": int(sum(lengths)), "errors": status.count("error")})
    record: stopping_times.Record = {
        "kind": stopping_times.KIND,
        "schema": stopping_times.SCHEMA,
        "labels": {**plan.labels, "embedder": "none", "selector": "in-order", "seed": plan.config.seed},
        "budget": sequences.n,
        "inputs": {**inputs, "until": "correct", "verified": sequences.grader.described},
        **made_with(()),
        "problems": problems,
    }
    stopping_times.write(plan.store.root, record)
    return record
