"""Grade by a second, stricter grader, and list where the two disagree or the first one had trouble.

A response is disputed if one grader calls it correct and the other does not. Trouble is a check that ran into a limit,
an answer that could not be parsed, or an error of the verifier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from harness.plugin_system.finish_argument import keyword
from harness.records import Problem, Verdict
from harness.store import shards
from harness.store.json_files import read_record
from harness.task import Audited, Task

from .verify import Ended, ended
from .work import Work

TROUBLE = ("timeout", "stalled", "memory", "unparsed")


def audit_problems(work: Work, problems: Sequence[Problem]) -> None:
    """Grade some problems' responses by the task's second grader, and write its verdicts into the store.

    The verdict is null where the grader cannot judge a response, or the task has no second grader.
    """
    task = work.build_task()
    for problem in problems:
        pool = shards.read_responses(work.pool.path(problem))
        responses = ended(task, pool.texts, pool.finish)
        verdicts = {each: _second_verdict(task, problem, each) for each in dict.fromkeys(responses)}
        shards.write_audit(work.audits.path(problem), problem, [verdicts[each] for each in responses])


def _second_verdict(task: Task, problem: Problem, response: Ended) -> Verdict | None:
    text, finish = response
    return task.audit(problem, text, **keyword(task, "audit", finish)) if isinstance(task, Audited) else None


def summary(work: Work, problems: Sequence[Problem]) -> dict[str, Any]:
    """Count over the problems: verdicts, what was audited, disputed (either way) and in trouble, routes, and reasons.

    Each problem must be graded; one that has not been audited adds nothing to what was audited or disputed.

    correct_here_only, correct_there_only   the disputed responses that only the first, or only the second, accepts
    routes                                  route -> number of verdicts; "-" if the grader has only one
    reasons                                 the 20 most frequent reasons of verdicts other than "correct" -> number
    """
    counts: Counter[str] = Counter()
    routes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for problem in problems:
        verdicts, _ = shards.read_full_verdicts(work.verdicts.path(problem))
        second = _second_verdicts(work, problem, len(verdicts))
        counts["responses"] += len(verdicts)
        counts["audited"] += sum(status is not None for status, _ in second)
        for verdict, (status, _) in zip(verdicts, second, strict=True):
            counts[verdict.status] += 1
            counts[trouble(verdict) or "no trouble"] += 1
            counts[_dispute(verdict, status) or "undisputed"] += 1
            routes[verdict.route or "-"] += 1
            if verdict.status != "correct":
                reasons[verdict.reason or "-"] += 1
    return {
        "problems": len(problems),
        "responses": counts["responses"],
        "correct": counts["correct"],
        "wrong": counts["wrong"],
        "errors": counts["error"],
        "audited": counts["audited"],
        "disputed": counts["only the first"] + counts["only the second"],
        "correct_here_only": counts["only the first"],
        "correct_there_only": counts["only the second"],
        **{name: counts[name] for name in TROUBLE},
        "routes": dict(routes.most_common()),
        "reasons": dict(reasons.most_common(20)),
    }


def disputed(work: Work, problem: Problem, n: int) -> int | None:
    """How many of a problem's first n verdicts the second grader disputes; None if the store holds no audit of it."""
    if not work.audits.path(problem).exists():
        return None
    verdicts, _ = shards.read_full_verdicts(work.verdicts.path(problem))
    second = _second_verdicts(work, problem, len(verdicts))
    pairs = list(zip(verdicts, second, strict=True))[:n]
    return sum(_dispute(verdict, status) is not None for verdict, (status, _) in pairs)


def second_correct(work: Work, problem: Problem) -> int:
    """How many of a problem's responses the second grader calls correct. Needs an audit in the store."""
    entries = read_record(work.audits.path(problem))["said"]
    return sum(entry is not None and entry[0] == "correct" for entry in entries)


def listing(work: Work, problems: Sequence[Problem]) -> Iterator[dict[str, Any]]:
    """Yield an entry for each response that is disputed, in trouble or an error, in the problems' order.

    The entry's `why` is "disputed", else the trouble (see `trouble`), else "error".
    """
    for problem in problems:
        verdicts, answers = shards.read_full_verdicts(work.verdicts.path(problem))
        second = _second_verdicts(work, problem, len(verdicts))
        for index, (verdict, answer, (status, reason)) in enumerate(zip(verdicts, answers, second, strict=True)):
            why = trouble(verdict) or ("error" if verdict.status == "error" else None)
            if _dispute(verdict, status):
                why = "disputed"
            if why:
                yield {
                    "problem_id": problem.id,
                    "index": index,
                    "why": why,
                    "answer": answer,
                    "reference": problem.reference if isinstance(problem.reference, (str, int, float)) else None,
                    "verdict": verdict.status,
                    "reason": verdict.reason,
                    "route": verdict.route,
                    "second": status,
                    "second_reason": reason,
                }


def trouble(verdict: Verdict) -> str | None:
    """The limit that a check ran into ("timeout", "stalled", "memory"), or "unparsed"; None if there was no trouble."""
    return next((name for name in TROUBLE if name in verdict.reason), None)


def _dispute(verdict: Verdict, second: str | None) -> str | None:
    first_correct, second_correct = verdict.status == "correct", second == "correct"
    if second is None or first_correct == second_correct:
        return None
    return "only the first" if first_correct else "only the second"


def _second_verdicts(work: Work, problem: Problem, n: int) -> list[tuple[str | None, str]]:
    """The second grader's status and reason for each response; (None, "") if it was not asked or gave no verdict."""
    path = work.audits.path(problem)
    if not path.exists():
        return [(None, "")] * n
    entries = read_record(path)["said"]
    shards.require_rows(path, len(entries), n)
    return [tuple(entry) if entry else (None, "") for entry in entries]
