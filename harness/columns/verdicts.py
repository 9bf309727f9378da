"""Columns of verdicts: a task's own, those that a file brings, those of a second grader, and the chance level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from harness.contracts import Measured, Ran, Task
from harness.errors import HarnessError, contained, error_text
from harness.pools.record import PoolRecord
from harness.records import Problem, Responses, Verdict, error
from harness.system.json_text import storable

from .column import Column, Out, Part, Todo, memo
from .responses import response_rows, responses_of, seed_of
from .store import table

Ended: TypeAlias = tuple[str, str]  # a response and how it ended: "stop", "length", or "" if not known

CHANCE_RESPONSES = 256  # graded per problem against other problems' references, at most


def verdict_rows(verdicts: Sequence[Verdict], answers: Sequence[str | None], made: Any) -> pa.Table:
    """The rows of verdicts and canonical answers. `made`: under which conditions, and what the answers cost."""
    columns = {
        "status": pa.array([verdict.status for verdict in verdicts], pa.string()).dictionary_encode(),
        "reason": pa.array([storable(verdict.reason) for verdict in verdicts], pa.string()).dictionary_encode(),
        "route": pa.array([storable(verdict.route) for verdict in verdicts], pa.string()).dictionary_encode(),
        "answer": pa.array([None if answer is None else storable(answer) for answer in answers], pa.string()),
    }
    return table(columns, made)


@dataclass(frozen=True)
class Verdicts(Column):
    """The task's verdicts: status, reason, route; and the canonical answers, which selectors may read."""

    kind: ClassVar[str] = "verdicts"
    verb: ClassVar[str] = "verify"
    noun: ClassVar[str] = "verdicts"
    given: ClassVar[bool] = False

    task: Part
    responses: Column

    @property
    def here(self) -> bool:  # type: ignore[override]
        """Where verdicts compare measurements with thresholds: a measurer may fill a GPU."""
        return isinstance(self.task.built, Measured)

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        """Grade. What is costly is kept by response, for all pools: measurements, answers by running, verdicts."""
        task: Task = self.task.built
        for each in todo:
            responses = responses_of(each.given["responses"])
            if isinstance(task, Measured):
                verdicts = _measured(task, each.problem, responses, out)
                answers = answers_of(task, each.problem, responses.texts, responses.finish)
            else:
                shared = self.task.described | ({"task": task.pools_as} if task.pools_as else {})
                known = memo(out.root, "graded", shared, each.problem)
                verdicts, answers = graded(task, each.problem, responses.texts, responses.finish, known)
            made: dict[str, Any] = {"conditions": dict(task.conditions())}
            if runs_answers(task):
                answers, made["cpu_s"] = ran_answers(self.task, each.problem, responses, out.root)
            out.keep(each, verdict_rows(verdicts, answers, made))


@dataclass(frozen=True)
class GivenVerdicts(Column):
    """The verdicts that a pool file brings, with the answers that the task, if there is one, extracts."""

    kind: ClassVar[str] = "verdicts"
    verb: ClassVar[str] = "verify"
    noun: ClassVar[str] = "verdicts"
    given: ClassVar[bool] = True
    name: ClassVar[str] = "given"
    here: ClassVar[bool] = True  # the file need not be on other machines,
    together: ClassVar[int] = 1 << 62  # and is read once

    task: Part | None
    responses: Column

    def of_record(self, problem: Problem, record: PoolRecord, out: Out) -> pa.Table:
        """The rows of a line of the file."""
        responses = responses_of(response_rows(record.as_responses()))
        task: Task = self.task.built if self.task else Task()
        made: dict[str, Any] = {"conditions": {}}
        if self.task and runs_answers(task):
            answers, made["cpu_s"] = ran_answers(self.task, problem, responses, out.root)
        else:
            answers = answers_of(task, problem, responses.texts, responses.finish)
        if record.measurements and isinstance(task, Measured):
            judged = zip(record.responses, record.measurements, strict=True)
            verdicts = [task.judge(problem, text, measurements) for text, measurements in judged]
        else:
            verdicts = [Verdict("correct" if entry else "wrong", "given") for entry in record.correct or ()]
        return verdict_rows(verdicts, answers, made)

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        """Read the file again, where responses are there and their verdicts are not."""
        wanted = {each.problem.id: each for each in todo}
        for record, problem in self.responses.joined:  # type: ignore[attr-defined]
            if each := wanted.get(problem.id):
                out.keep(each, self.of_record(each.problem, record, out))


def graded(
    task: Task,
    problem: Problem,
    texts: Sequence[str],
    finish: Sequence[str] | None = None,
    known: Any = None,
) -> tuple[list[Verdict], list[str | None]]:
    """The verdict on each text, and its canonical answer; `error`, never `wrong`, if the verifier raises.

    Only a HarnessError of the verifier passes through: it is a fault that the user can fix. Of responses that are equal
    or have equal verdict keys one is graded, or none if `known`, a memo of verdicts by verdict key, has the verdict.
    `finish`: how each response ended; None if not known.
    """
    every = ended(texts, finish)
    distinct = list(dict.fromkeys(every))
    answers = dict(zip(distinct, answers_of(task, problem, *_columns(distinct)), strict=True))
    # A response without a key stands for itself, and is kept in no memo.
    verdict_keys = {each: _verdict_key(task, problem, each, answers[each]) for each in distinct}
    keys: dict[Ended, Any] = {each: each if key is None else key for each, key in verdict_keys.items()}
    first = {key: each for each, key in reversed(keys.items())}
    verdicts: dict[Any, Verdict] = {}

    def grade(some: list[Any]) -> list[Any]:
        made = _verdicts(task, problem, [first[key] for key in some])
        verdicts.update(zip(some, made, strict=True))
        plain = [[verdict.status, storable(verdict.reason), storable(verdict.route)] for verdict in made]
        return [None if each[0] == "error" else each for each in plain]

    in_order = list(dict.fromkeys(keys.values()))
    shared = [key for key in in_order if isinstance(key, str)]
    grade([key for key in in_order if not isinstance(key, str)])
    kept = known.filled(shared, grade) if known else {}
    verdicts |= {key: Verdict(*value) for key, value in kept.items() if value}
    if not known:
        grade(shared)
    return [verdicts[keys[each]] for each in every], [answers[each] for each in every]


def ended(texts: Sequence[str], finish: Sequence[str] | None) -> list[Ended]:
    """Pair each text with how it ended: "stop", "length", or "" if that is not known."""
    return list(zip(texts, [""] * len(texts) if finish is None else finish, strict=True))


def _columns(responses: Sequence[Ended]) -> tuple[list[str], list[str]]:
    return [text for text, _ in responses], [finish for _, finish in responses]


def _verdicts(task: Task, problem: Problem, responses: Sequence[Ended]) -> list[Verdict]:
    texts, finish = _columns(responses)
    try:
        with contained():
            verdicts = list(task.verify_all(problem, texts, finish=finish)) if texts else []
    except HarnessError:  # a fault that the user can fix: better no verdicts than an error for every response
        raise
    except Exception as failure:
        if len(responses) == 1:
            return [error(f"{type(failure).__name__}: {failure}")]
        return [verdict for each in responses for verdict in _verdicts(task, problem, [each])]
    if len(verdicts) != len(texts):
        raise HarnessError(f"task {type(task).__name__}: verify_all gave {len(verdicts)} verdicts for {len(texts)}")
    return verdicts


def _verdict_key(task: Task, problem: Problem, response: Ended, answer: str | None) -> str | None:
    """The response's verdict key; None if the task raises."""
    text, finish = response
    try:
        with contained():
            return task.verdict_key(problem, text, answer, finish=finish)
    except Exception:
        return None


def answers_of(
    task: Task, problem: Problem, texts: Sequence[str], finish: Sequence[str] | None = None
) -> list[str | None]:
    """The canonical answer of each text; None if it has none, or the extraction raises. Equal responses are read once.

    None for all if answers cost a run of each response: these are made only where they are kept (`ran_answers`).
    """
    if runs_answers(task):
        return [None] * len(texts)
    every = ended(texts, finish)
    distinct = list(dict.fromkeys(every))
    answer = dict(zip(distinct, _answers(task, problem, distinct), strict=True))
    return [answer[each] for each in every]


def _answers(task: Task, problem: Problem, responses: Sequence[Ended]) -> list[str | None]:
    texts, finish = _columns(responses)
    try:
        with contained():
            answers = list(task.answers(problem, texts, finish=finish)) if texts else []
    except Exception:
        if len(responses) == 1:
            return [None]
        return [answer for each in responses for answer in _answers(task, problem, [each])]
    if len(answers) != len(texts):
        raise HarnessError(f"task {type(task).__name__}: answers gave {len(answers)} for {len(texts)} responses")
    return answers


def runs_answers(task: Any) -> bool:
    """Whether the task's answers, with its present parameters, cost a run of each response."""
    return bool(getattr(task, "runs_answers", False))


def ran_answers(task: Part, problem: Problem, responses: Responses, root: Path) -> tuple[list[str | None], float]:
    """The answer of each response, and the CPU seconds that the answers cost, also where the memo had them.

    A response that could not be run through a fault of ours has no answer, and is run again next time. HarnessError if
    the task cannot run any.
    """
    built = task.built
    made_by = {name: value for name, value in task.described.items() if name != "grader"}
    kept, every = memo(root, "answers", made_by, problem), ended(responses.texts, responses.finish)

    def run(names: list[str]) -> list[Any]:
        finish, texts = zip(*(name.split("\0", 1) for name in names), strict=True)
        try:
            with contained():
                ran = list(built.run_answers(problem, list(texts), finish=finish))
        except HarnessError:
            raise
        except Exception as failure:
            raise HarnessError(f"task {task.spec!r}: run_answers {error_text(failure)}") from failure
        if len(ran) != len(texts):
            raise HarnessError(f"task {task.spec!r}: run_answers gave {len(ran)} answers for {len(texts)}")
        return [each and [None if each.answer is None else storable(each.answer), each.cpu_s] for each in ran]

    values = kept.filled([f"{finish}\0{text}" for text, finish in every], run)
    ran = {name: Ran(*(value or (None, 0.0))) for name, value in values.items()}
    return [ran[f"{finish}\0{text}"].answer for text, finish in every], sum(each.cpu_s for each in ran.values())


def _measured(task: Measured, problem: Problem, responses: Responses, out: Out) -> list[Verdict]:
    """The verdicts by measurements, which are kept under the measurer's identity: no threshold measures again."""
    measurer = task.measurer()
    kept = memo(out.root, "measure", dict(measurer.identity()), problem)
    texts = task.measurable(problem, list(dict.fromkeys(responses.texts)))

    def measure(some: list[str]) -> Sequence[Mapping[str, float]]:
        values = list(measurer.measure(some))
        if len(values) != len(some):
            who = type(measurer).__name__
            raise HarnessError(f"{who}: measure gave {len(values)} entries for {len(some)} responses")
        return [dict(each) for each in values]

    measured = kept.filled(texts, measure, task.measured_together)
    verdicts = []
    for text in responses.texts:
        try:
            with contained():
                verdicts.append(task.judge(problem, text, measured.get(text) or {}))
        except Exception as failure:
            verdicts.append(error(f"{type(failure).__name__}: {failure}"))
    return verdicts


@dataclass(frozen=True)
class Audits(Column):
    """The verdicts of the task's second, stricter grader: status and reason; null where it cannot judge."""

    kind: ClassVar[str] = "audits"
    verb: ClassVar[str] = "audit"
    noun: ClassVar[str] = "audits"

    task: Part
    responses: Column

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        """Ask it about each distinct response."""
        task = self.task.built
        for each in todo:
            responses = responses_of(each.given["responses"])
            said: dict[str, Verdict | None] = dict.fromkeys(responses.texts)
            for text in said if hasattr(task, "audit") else ():
                said[text] = task.audit(each.problem, text)
            verdicts = [said[text] for text in responses.texts]
            columns = {
                "status": pa.array([verdict and verdict.status for verdict in verdicts], pa.string()),
                "reason": pa.array([verdict and storable(verdict.reason) for verdict in verdicts], pa.string()),
            }
            out.keep(each, table(columns))


@dataclass(frozen=True)
class Chance(Column):
    """The chance level: how often the grader accepts a response that answers another problem; counts, no rows.

    The first m = min(N, 256) responses of each problem are graded against the references of k = min(others,
    `Task.chance_gradings` // m) other problems of the run, which are chosen with a seed made from the problem's id;
    problems with the same reference are left out. `results.rows.chance_level` turns the counts into one share.

    A grader that takes a response's last number has a chance level of about one in a hundred on GSM8K. With thousands
    of responses a problem, nearly every problem then looks solved at least once.
    """

    kind: ClassVar[str] = "chance"
    verb: ClassVar[str] = "chance"

    task: Part
    responses: Column
    n: int | None
    among: str  # the hash of all problems
    problems: Sequence[Problem] = field(compare=False, repr=False)

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        """Grade against other references, and keep the counts: correct gradings, and all gradings."""
        task = self.task.built
        for each in todo:
            responses = responses_of(each.given["responses"])
            responses = responses.first(min(self.n or len(responses), CHANCE_RESPONSES))
            # problems against whose references its m responses are graded
            own, m, others, hits = repr(each.problem.reference), len(responses), list[Problem](), 0
            if eligible := [other for other in self.problems if repr(other.reference) != own]:
                rng = np.random.default_rng(seed_of("chance", 0, each.problem))
                k = min(len(eligible), max(1, task.chance_gradings // max(1, m)))
                others = [eligible[place] for place in rng.choice(len(eligible), k, replace=False)]
            for other in others:
                verdicts, _ = graded(task, other, responses.texts, responses.finish)
                hits += sum(verdict.status == "correct" for verdict in verdicts)
            out.keep(each, table({}, [hits, m * len(others)]))


def disputes(first: Sequence[str], second: Sequence[str | None]) -> list[str]:
    """For each response "" or who alone calls it correct: "only the first" or "only the second" grader."""
    alone = {(True, False): "only the first", (False, True): "only the second"}
    pairs = zip(first, second, strict=True)
    return ["" if other is None else alone.get((one == "correct", other == "correct"), "") for one, other in pairs]
