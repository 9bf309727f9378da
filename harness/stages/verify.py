"""Verify: grade a problem's responses and extract their answers. Runs in this process or in a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from harness.errors import HarnessError, contained
from harness.plugin_system import finish_argument
from harness.records import Problem, Responses, Verdict, error
from harness.store import shards
from harness.store.keys import digest, text_hash
from harness.task import Measured, Task

from .answers import ran_answers, runs_answers
from .work import Work

Ended: TypeAlias = tuple[str, str]  # a response and how it ended: "stop", "length", or "" if not known or not read


def grade_problems(work: Work, problems: Sequence[Problem]) -> None:
    """Grade some problems' responses and extract their answers; write verdicts and answers into the store.

    Verdicts that were not made from measurements are also written to `work.graded`, which all pools share.
    """
    task = work.build_task()
    for problem in problems:
        _grade(work, task, problem)


def _grade(work: Work, task: Task, problem: Problem) -> None:
    responses = shards.read_responses(work.pool.path(problem))
    if work.measured:
        measurements = shards.read_measurements(work.measured.path(problem))
        verdicts, answers = judged(task, problem, responses, measurements)
    else:
        known = shards.read_graded(work.graded.path(problem))
        before = len(known)
        verdicts, answers = graded(task, problem, responses.texts, known, responses.finish)
        if len(known) > before:
            shards.write_graded(work.graded.path(problem), known)
    cpu_s = None
    if work.answers:
        answers, cpu_s = ran_answers(task, work.answers, problem, responses.texts, responses.finish)
    shards.write_verdicts(work.verdicts.path(problem), verdicts, answers, task.conditions(), cpu_s)


def judged(
    task: Task, problem: Problem, responses: Responses, measurements: Mapping[str, Mapping[str, float]]
) -> tuple[list[Verdict], list[str | None]]:
    """The verdict on each response, from its measurements, and its canonical answer; `error` if judging raises.

    measurements  `text_hash` of a response -> its measurements; a response that is not in it has {}
    """
    assert isinstance(task, Measured)
    verdicts: list[Verdict] = []
    for text in responses.texts:
        try:
            with contained():
                verdicts.append(task.judge(problem, text, measurements.get(text_hash(text), {})))
        except Exception as failure:
            verdicts.append(error(f"{type(failure).__name__}: {failure}"))
    return verdicts, answers_of(task, problem, responses.texts, responses.finish)


def graded(
    task: Task,
    problem: Problem,
    texts: Sequence[str],
    known: dict[str, Verdict] | None = None,
    finish: Sequence[str] | None = None,
) -> tuple[list[Verdict], list[str | None]]:
    """The verdict on each text, and its canonical answer; `error`, never `wrong`, if the verifier raises.

    Only a HarnessError of the verifier passes through: it is a fault that the user can fix.

    Of responses that are equal or have equal verdict keys one is graded, or none if `known` (hash of a verdict key ->
    verdict) has the verdict. New verdicts with a key are added to `known`, but not errors, which say nothing of the
    response. `finish`: how each response ended, for a task that reads it; None if not known.
    """
    known = {} if known is None else known
    every = ended(task, texts, finish)
    distinct = _Distinct(task, problem, every, known)
    return [distinct.verdict(response) for response in every], [distinct.answers[response] for response in every]


class _Distinct:
    """The distinct responses of one problem: their answers, and a verdict for each verdict key."""

    def __init__(self, task: Task, problem: Problem, every: Sequence[Ended], known: dict[str, Verdict]) -> None:
        distinct = list(dict.fromkeys(every))
        self.known = known
        self.answers = dict(zip(distinct, answers_of(task, problem, *columns(distinct)), strict=True))
        self.hashes = {each: _key_hash(task, problem, each, self.answers[each]) for each in distinct}
        self.first: dict[str, Ended] = {}  # key -> the response that is graded for all with that key
        for response, hashed in self.hashes.items():
            if hashed and hashed not in known:
                self.first.setdefault(hashed, response)
        todo = [each for each, hashed in self.hashes.items() if not hashed or self.first.get(hashed) == each]
        self.fresh = dict(zip(todo, _verdicts(task, problem, todo), strict=True))
        known.update(
            {key: self.fresh[first] for key, first in self.first.items() if self.fresh[first].status != "error"}
        )

    def verdict(self, response: Ended) -> Verdict:
        """The verdict on a response: its own, or that of another with the same key."""
        hashed = self.hashes[response]
        if hashed in self.known:
            return self.known[hashed]
        return self.fresh[self.first[hashed] if hashed else response]


def ended(task: Task, texts: Sequence[str], finish: Sequence[str] | None) -> list[Ended]:
    """Pair each text with how it ended: "stop", "length", or "" if that is not known or the task does not read it."""
    reads = finish if finish is not None and finish_argument.reads_finish(task) else [""] * len(texts)
    return list(zip(texts, reads, strict=True))


def columns(responses: Sequence[Ended]) -> tuple[list[str], list[str]]:
    """The texts, and how each ended, as two lists."""
    return [text for text, _ in responses], [finish for _, finish in responses]


def _verdicts(task: Task, problem: Problem, responses: Sequence[Ended]) -> list[Verdict]:
    texts, finish = columns(responses)
    try:
        with contained():
            verdicts = finish_argument.verify_all(task, problem, texts, finish) if texts else []
    except HarnessError:  # a fault that the user can fix: better no verdicts than an error for every response
        raise
    except Exception:
        verdicts = [_verdict(task, problem, response) for response in responses]
    if len(verdicts) != len(texts):
        raise HarnessError(f"task {type(task).__name__}: verify_all gave {len(verdicts)} verdicts for {len(texts)}")
    return verdicts


def _verdict(task: Task, problem: Problem, response: Ended) -> Verdict:
    text, finish = response
    try:
        with contained():
            return task.verify(problem, text, **finish_argument.keyword(task, "verify", finish))
    except HarnessError:
        raise
    except Exception as failure:
        return error(f"{type(failure).__name__}: {failure}")


def _key_hash(task: Task, problem: Problem, response: Ended, answer: str | None) -> str | None:
    text, finish = response
    try:
        with contained():
            key = task.verdict_key(problem, text, answer, **finish_argument.keyword(task, "verdict_key", finish))
    except Exception:
        return None
    return None if key is None else digest(key, 32)


def answers_of(
    task: Task, problem: Problem, texts: Sequence[str], finish: Sequence[str] | None = None
) -> list[str | None]:
    """The canonical answer of each text; None if it has none, or the extraction raises. `finish` as in `graded`.

    None for all if answers cost a run of each response: these are made only where they are kept (`ran_answers`).
    """
    if runs_answers(task):
        return [None] * len(texts)
    each = ended(task, texts, finish)
    try:
        with contained():
            answers = finish_argument.answers(task, problem, *columns(each))
    except Exception:
        answers = []
    if len(answers) == len(texts):
        return answers
    return [answer_or_none(task, problem, text, end) for text, end in each]


def answer_or_none(task: Task, problem: Problem, text: str, finish: str = "") -> str | None:
    """The canonical answer of one response; None if there is none or the extraction raises."""
    try:
        with contained():
            return task.answer(problem, text, **finish_argument.keyword(task, "answer", finish))
    except Exception:
        return None
