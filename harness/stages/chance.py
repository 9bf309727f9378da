"""What correct verdicts are worth: how many stand on a fallback, and how many would come by chance.

The chance level is the share of verdicts that are correct where they should not be: a problem's responses graded as if
they answered other problems. Of each problem the first m = min(N, 256) responses are graded against the references of
k = min(others, `Task.chance_gradings` // m) other problems of the run, chosen by a seed that is made from the problem's
id; problems with the same reference are left out. The level is the mean over problems of each one's share of correct
gradings; its interval is over problems (`stats.difference_interval`), and there is none where no grading was correct.

A grader that takes a response's last number has a level of about one in a hundred on GSM8K: with thousands of responses
a problem, nearly every problem then looks solved at least once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.contracts import Task
from harness.records import Problem
from harness.store import shards
from harness.store.shards import Stage
from harness.system.progress import Progress

from .work import Work, component, graded, problem_seed

if TYPE_CHECKING:
    from harness.running.plan import Plan

FALLBACK = "fallback"
WARNS = 0.05  # share of correct verdicts by a fallback, above which tables warn
RESPONSES = 256  # of a problem, at most
ESTIMATOR = "1"

Asked = tuple[Problem, Sequence[Problem]]


# Gradings against other problems' references.


def stage_of(plan: Plan) -> Stage | None:
    """Where the plan's counts are, or will be: they depend on which problems there are; None for a task without."""
    gradings = getattr(plan.task, "chance_gradings", 0)
    if not gradings or plan.work.verdicts.inputs["given"]:
        return None
    problems = shards.digest([shards.shard_name(problem) for problem in plan.problems])
    own = {"problems": problems, "n": plan.work.n, "gradings": gradings, "estimator": ESTIMATOR}
    return plan.setting.store.stage("chance", {**plan.work.audits.inputs, **own}, ".json")


def measure(plan: Plan, progress: Progress) -> None:
    """Make the counts that are not in the store, wherever the executor likes."""
    stage = stage_of(plan)
    if stage is None:
        return
    stage.begin()
    missing = stage.missing(plan.problems)
    if missing:
        with progress.stage("chance", len(missing), "problems") as shown:
            asked = ((problem, others(plan, problem)) for problem in missing)
            for _ in plan.setting.executor.map(partial(grade, plan.work, stage), asked):
                shown.advance()


def others(plan: Plan, problem: Problem) -> list[Problem]:
    """The problems whose references are tried on a problem's responses."""
    n = shards.count_in(plan.work.pool.path(problem))
    m = max(1, min(n if plan.work.n is None else plan.work.n, RESPONSES))
    own = repr(problem.reference)
    eligible = [other for other in plan.problems if repr(other.reference) != own]
    rng = np.random.default_rng(problem_seed("chance", 0, problem))
    k = min(len(eligible), max(1, plan.task.chance_gradings // m))
    return [eligible[place] for place in rng.choice(len(eligible), k, replace=False)] if eligible else []


def grade(work: Work, stage: Stage, asked: Asked) -> None:
    """Grade a problem's responses against other problems' references; keep how many were correct, of how many."""
    problem, tried = asked
    task: Task = component("task", work.task or "", work.plugin_files, (("data", work.data),))
    pool = shards.read_responses(work.pool, problem).first(RESPONSES if work.n is None else min(work.n, RESPONSES))
    hits = 0
    for other in tried:
        verdicts, _ = graded(task, other, pool.texts, finish=pool.finish)
        hits += sum(verdict.status == "correct" for verdict in verdicts)
    counts = {"problem_id": shards.storable(problem.id), "correct": hits, "gradings": len(pool) * len(tried)}
    shards.write_record(stage.path(problem), counts)


def counts_in(stage: Stage | None, problem: Problem) -> list[int] | None:
    """[correct, gradings] of a problem; None where they were not made."""
    if stage is None or not stage.path(problem).exists():
        return None
    counts = shards.read_record(stage.path(problem))
    return [counts["correct"], counts["gradings"]]


# What a row says of them.


def figures(cells: Sequence[Mapping[str, Any]], seed: int) -> dict[str, Any]:
    """`routes`, `fallback_share` and `chance` of cells of different pools; None for what they do not hold."""
    entries = [entry for cell in cells for entry in cell["problems"]]
    return {**_of_routes(entries), "chance": level(_by_problem(entries), seed)}


def _of_routes(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not all("routes" in entry for entry in entries):
        return {"routes": None, "fallback_share": None}
    counts: Counter[str] = Counter()
    for entry in entries:
        counts.update(entry["routes"])
    total = counts.total()
    routes = dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
    return {"routes": routes, "fallback_share": counts[FALLBACK] / total if total else None}


def _by_problem(entries: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """(correct, gradings) of each problem that has some, over all its pools."""
    sums: dict[str, tuple[int, int]] = {}
    for entry in entries:
        correct, gradings = entry.get("chance") or (0, 0)
        before = sums.get(entry["id"], (0, 0))
        sums[entry["id"]] = before[0] + correct, before[1] + gradings
    return [counts for counts in sums.values() if counts[1]]


def level(counts: Sequence[tuple[int, int]], seed: int) -> dict[str, Any] | None:
    """The chance level from each problem's (correct, gradings); None where nothing was graded."""
    if not counts:
        return None
    from harness.scoring.stats import difference_interval

    correct, gradings = (sum(column) for column in zip(*counts, strict=True))
    shares = np.array([hits / tried for hits, tried in counts])
    ends = difference_interval(shares, seed) if correct else None
    return {
        "correct": correct,
        "gradings": gradings,
        "share": float(shares.mean()),
        "share_ci": [max(0.0, ends[0]), min(1.0, ends[1])] if ends else None,
    }


def remarks(row: Mapping[str, Any]) -> Iterator[str]:
    """What a table says of its verdicts: how many came by a fallback, and the chance level where it is known."""
    routes = row.get("routes") or {}
    if set(routes) - {"-"}:  # a task with one way to be correct names none
        share, hits = row["fallback_share"], routes.get(FALLBACK, 0)
        warning = f", over {100 * WARNS:.0f} %: read them before you trust this table" if share > WARNS else ""
        counts = f"{hits:,} of {sum(routes.values()):,} verdicts"
        yield f"correct by a fallback, not stated as asked: {counts}, {100 * share:.1f} %{warning}"
    if row.get("chance"):
        yield _level_line(row)


def _level_line(row: Mapping[str, Any]) -> str:
    chance, n = row["chance"], row["n"]
    correct = row["pass_at_k_random"].get("1")
    line = f"chance level: {level_text(chance)}"
    if correct is not None:
        line += f", {100 * correct:.2f} % for their own"
    if not chance["correct"]:
        return line
    by_luck = 1 - (1 - chance["share"]) ** n
    return f"{line}; at that level one of {n:,} responses is correct with a probability of {100 * by_luck:.0f} %"


def level_text(chance: Mapping[str, Any]) -> str:
    """The level with its interval and counts."""
    ends = chance["share_ci"]
    interval = f" [{100 * ends[0]:.2f}, {100 * ends[1]:.2f}]" if ends else ""
    hits = f"{chance['correct']:,} of {chance['gradings']:,} gradings against other problems' answers are correct"
    return f"{100 * chance['share']:.2f} %{interval}, {hits}"
