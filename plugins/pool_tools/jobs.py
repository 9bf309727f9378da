"""`harness pool import|inspect|show|export|audit|hardest`: bring pools in, look at them, grade them, take them out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.columns.column import Column, Question
from harness.columns.responses import responses_of
from harness.columns.store import about
from harness.columns.stored import StoredPool, StoredResponses, stored_pool
from harness.columns.verdicts import GivenVerdicts, Verdicts, disputes
from harness.errors import HarnessError, did_you_mean
from harness.jobs.options import RunConfig
from harness.jobs.plan import Plan, make_context, make_plan
from harness.jobs.price import preflight, require_consent
from harness.jobs.run import keep_problems
from harness.plugin_system.registry import load_registry
from harness.pools.reading import Layouts, read_pool
from harness.records import Problem, Responses
from harness.results.rows import chance_level
from harness.system.files import write_atomically
from harness.system.json_text import canonical_json
from harness.system.progress import Progress

TROUBLE = (
    "timeout",
    "stalled",
    "memory",
    "unparsed",
)  # in a verdict's reason: a limit, or no answer that could be read


# Without grading.


def import_file(config: RunConfig, progress: Progress) -> dict[str, Any]:
    """Import the config's pool file into its store; return its summary (`inspect`), where "pool" is its key there."""
    plan = make_plan(config, progress, with_verdicts=False)
    given = [plan.verdicts] if isinstance(plan.verdicts, GivenVerdicts) else []
    with plan.store.used():
        keep_problems(plan)
        plan.maker.make([plan.responses, *given], plan.questions)
    return inspect(plan.responses.key, config.store)


def _graded_rows(pool: StoredPool) -> Iterator[tuple[Problem, Responses, Any]]:
    """A stored pool's problems with their responses, and the rows of the newest verdicts (None if not graded)."""
    for question in pool.questions.values():
        responses = responses_of(pool.rows("responses", question, {}))
        yield question.problem, responses, pool.rows("verdicts", question, {"responses": None})


def _correct(verdicts: Any) -> list[bool] | None:
    return None if verdicts is None else [status == "correct" for status in verdicts["status"].to_pylist()]


def inspect(pool: str, root: Path, plugin_files: Sequence[Path] = ()) -> dict[str, Any]:
    """Return the summary of a pool: its numbers of problems and responses, lengths, and pass@1 if it has verdicts.

    pool   a pool file, or the key (or its beginning) of a pool in the store `root`, whose newest verdicts count
    """
    if Path(pool).exists():
        layouts = Layouts(load_registry(plugin_files))
        return _summary(pool, ((r.as_responses(), r.correct) for r in read_pool(Path(pool), layouts=layouts)))
    stored = stored_pool(root, pool)
    return _summary(stored.key, ((responses, _correct(verdicts)) for _, responses, verdicts in _graded_rows(stored)))


def _summary(pool: str, every: Iterable[tuple[Responses, Sequence[bool] | None]]) -> dict[str, Any]:
    counts, scores = [], dict[str, None]()
    for responses, given in every:
        scores |= dict.fromkeys(responses.scores)
        size, correct = len(responses), given or ()
        made = size, len(set(responses.texts)), float(np.sum(responses.lengths)), responses.finish.count("length")
        counts.append((*made, len(correct), sum(correct), any(correct)))
    sizes = [size for size, *_ in counts]
    if not sum(sizes):
        raise HarnessError(f"pool {pool}: holds no responses yet")
    total, distinct, length, cut, graded, right, solved = map(sum, zip(*counts, strict=True))
    return {
        "pool": pool,
        "problems": len(sizes),
        "responses": total,
        "n": sizes[0] if len(set(sizes)) == 1 else [min(sizes), max(sizes)],
        "distinct": distinct / total,
        "mean_length": length / total,
        "cut_at_max_tokens": cut / total,
        "graded": graded,
        "solvable": solved if graded else None,
        "pass_at_1": right / graded if graded else None,
        **({"scores": list(scores)} if scores else {}),
    }


def show(pool: str, root: Path, problem_id: str | None = None, statuses: Collection[str] = ()) -> dict[str, Any]:
    """Return the responses of a pool of the store, by its key or the key's beginning.

    Each has `index`, `verdict` ("correct", "wrong", "error"), `reason`, `route`, `answer` (all None without a verdict;
    the newest grading counts) and `text`. HarnessError for a file, and for a problem or verdicts that the pool lacks.

    statuses    only responses with these verdicts; none: all. Problems without a response to show are left out
    """
    if Path(pool).is_file():
        raise HarnessError(
            f"pool show: {pool} is a file: give its key in the store, which the last line of `harness run --pool` says"
        )
    stored = stored_pool(root, pool)
    graded = stored.column("verdicts") is not None
    if statuses and not graded:
        raise HarnessError(f"pool show: pool {stored.key} has no verdicts: grade it by `harness pool audit`")
    if problem_id is not None and problem_id not in stored.questions:
        guess = did_you_mean(problem_id, list(stored.questions)).replace("installed", "there")
        raise HarnessError(f"pool show: pool {stored.key} has no problem {problem_id!r} {guess}")
    problems = []
    for problem, responses, verdicts in _graded_rows(stored):
        if problem_id not in (None, problem.id):
            continue
        rows = (
            verdicts.to_pylist()
            if verdicts
            else [dict.fromkeys(("status", "reason", "route", "answer"))] * len(responses)
        )
        listed = [
            {"index": index, "verdict": row.pop("status"), **row, "text": text}
            for index, (text, row) in enumerate(zip(responses.texts, map(dict, rows), strict=True))
            if not statuses or row["status"] in statuses
        ]
        problems += [{"problem_id": problem.id, "prompt": problem.prompt, "responses": listed}] if listed else []
    return {"pool": stored.key, "graded": graded, "problems": problems}


def export(key: str, out: Path, root: Path) -> str:
    """Write a pool of the store as JSONL, with verdicts if it is graded; return a sentence about what was written."""
    pool = stored_pool(root, key)
    engine = pool.about.get("engine")
    kind = (engine or {}).get("logprob_kind") or "sum, temperature 1, unfiltered"  # as its engine says, else our own
    lines = []
    for problem, responses, verdicts in _graded_rows(pool):
        line: dict[str, Any] = {"problem_id": problem.id, "prompt": problem.prompt, "responses": list(responses.texts)}
        if not np.isnan(responses.logprobs).any():
            line |= {"logprobs": responses.logprobs.tolist(), "logprob_kind": kind}
        if "length" in responses.finish:  # without it every response counts as complete, and is graded so
            line["finish"] = list(responses.finish)
        if responses.scores:
            line["scores"] = {
                name: [None if np.isnan(value) else float(value) for value in values]
                for name, values in responses.scores.items()
            }
        correct = _correct(verdicts)
        lines.append(json.dumps(line | ({"correct": correct} if correct else {}), ensure_ascii=False))
    write_atomically(out, ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
    return f"{out}: {len(lines)} problems" + (", with verdicts" if pool.column("verdicts") else "")


# By a task's grader.


def audit(config: RunConfig, progress: Progress) -> dict[str, Any]:
    """Grade a pool with the task's grader and its second one; return counts, and every response that needs a look.

    A response is disputed if one grader calls it correct and the other does not. Trouble is a check that ran into a
    limit, or an answer that could not be parsed.

    pool     the pool's key          chance   the chance level (None: not measured)
    routes   route -> number of verdicts; "-" if the grader has only one
    reasons  the 20 most frequent reasons of verdicts other than "correct" -> number
    listed   what is disputed, in trouble or an error (`why`); the other entries are counts

    `config.pool`: a file (HarnessError if no task is given), or the key of a pool in the store.
    """
    assert config.pool is not None
    if config.pool.exists() and not config.task:
        raise HarnessError(f"pool {config.pool}: say which --task grades it")
    plan = _graded(config, progress)
    assert plan.verdicts is not None
    assert plan.audits is not None
    counts, routes, reasons, listed = Counter[str](), Counter[str](), Counter[str](), []
    for question in plan.questions:
        reference = question.problem.reference
        verdicts = plan.store.rows(plan.verdicts, question).to_pylist()
        seconds = plan.store.rows(plan.audits, question).to_pylist()
        disputed = disputes(*([each["status"] for each in given] for given in (verdicts, seconds)))
        for index, (verdict, second, dispute) in enumerate(zip(verdicts, seconds, disputed, strict=True)):
            status, reason, route = verdict["status"], verdict["reason"] or "", verdict["route"] or ""
            trouble = next((name for name in TROUBLE if name in reason), "")
            counts.update(["responses", status, trouble, dispute])
            counts["audited"] += second["status"] is not None
            routes[route or "-"] += 1
            if status != "correct":
                reasons[reason or "-"] += 1
            if why := "disputed" if dispute else trouble or ("error" if status == "error" else ""):
                about_it = {"problem_id": question.problem.id, "index": index, "why": why, "answer": verdict["answer"]}
                about_it["reference"] = reference if isinstance(reference, str | int | float) else None
                about_it |= {"verdict": status, "reason": reason, "route": route}
                listed.append(about_it | {"second": second["status"], "second_reason": second["reason"] or ""})
    here, there = counts["only the first"], counts["only the second"]
    gradings = [about(plan.store.rows(plan.chance, question)) for question in plan.questions if plan.chance]
    return {
        "pool": plan.responses.key,
        "problems": len(plan.questions),
        "responses": counts["responses"],
        "correct": counts["correct"],
        "wrong": counts["wrong"],
        "errors": counts["error"],
        "audited": counts["audited"],
        "disputed": here + there,
        "correct_here_only": here,
        "correct_there_only": there,
        **{name: counts[name] for name in TROUBLE},
        "routes": dict(routes.most_common()),
        "reasons": dict(reasons.most_common(20)),
        "chance": chance_level([(hits, tried) for hits, tried in gradings if tried], seed=0),
        "listed": listed,
    }


@dataclass(frozen=True)
class Solved:
    """How many of a problem's n responses are correct."""

    problem_id: str
    n: int
    correct: int


def hardest(config: RunConfig, count: int, out: Path, progress: Progress) -> dict[str, Any]:
    """Write the hardest problems that a graded pool solves at least once; return a summary.

    Hardness is a reference model's: the share of its responses that are correct, pass@1 = c / n. Problems with c = 0
    are left out, since nothing shows that they can be solved (Tuyls et al. 2025, arXiv:2510.11686, appendix on
    token-level exploration: 1,024 responses of GPT-4o mini to each question of MATH's test split, the 200 with the
    lowest pass@1 above 0).

        {"problem_id": "algebra/test-17", "n": 1024, "correct": 3}      one line a problem, the hardest first

    `config.pool`: a file, graded by its own verdicts or by the task, or the key of a pool in the store.
    """
    plan = _graded(config, progress)
    assert plan.verdicts is not None
    counts = []
    for question in plan.questions:
        status = plan.store.rows(plan.verdicts, question)["status"].to_pylist()[: plan.n]
        counts.append(Solved(question.problem.id, len(status), status.count("correct")))
    chosen = chosen_hardest(counts, count)
    lines = (canonical_json(asdict(solved)) + "\n" for solved in chosen)
    write_atomically(out, "".join(lines).encode("utf-8", "surrogatepass"))
    return {
        "pool": plan.responses.key,
        "problems": len(counts),
        "solvable": sum(solved.correct > 0 for solved in counts),
        "written": len(chosen),
        "pass_at_1_lowest": chosen[0].correct / chosen[0].n,
        "pass_at_1_highest": chosen[-1].correct / chosen[-1].n,
        "file": str(out),
    }


def chosen_hardest(counts: Sequence[Solved], count: int) -> list[Solved]:
    """The `count` problems with the lowest share of correct responses above 0, hardest first; ties keep their order.

    HarnessError if `count` is below 1, or fewer than `count` have a correct response.
    """
    solvable = [solved for solved in counts if solved.correct]
    if count < 1:
        raise HarnessError(f"pool hardest: --count must be at least 1, got {count}")
    if len(solvable) < count:
        raise HarnessError(
            f"pool hardest: {len(solvable)} of {len(counts)} problems have a correct response, --count asks for "
            f"{count}: ask for fewer, or give a pool with more responses a problem"
        )
    return sorted(solvable, key=lambda solved: solved.correct / solved.n)[:count]


def _graded(config: RunConfig, progress: Progress) -> Plan:
    """The plan of a pool, a file or one of the store, every response of which has its verdict (and its audit)."""
    assert config.pool is not None
    if config.pool.exists():
        plan = make_plan(config, progress)
    else:
        plan = _stored_plan(stored_pool(config.store, str(config.pool)), config, progress)
    checked = (plan.audits, plan.chance) if config.audit else ()
    columns: list[Column] = [column for column in (plan.verdicts, *checked) if column]
    with plan.store.used():
        keep_problems(plan)
        grades = isinstance(plan.verdicts, Verdicts) and plan.store.missing(plan.verdicts, plan.questions)
        if grades and (remark := plan.task.check(unsafe_exec=config.unsafe_exec)):
            progress.say(remark)
        require_consent("pool audit", preflight(plan).outlook, progress, "--split makes it shorter")
        plan.maker.make(columns, plan.questions)
    return plan


def _stored_plan(pool: StoredPool, config: RunConfig, progress: Progress) -> Plan:
    """The plan of grading a pool of the store: its task's problems that have responses there."""
    name = config.task or pool.about.get("task")
    if not name:
        raise HarnessError(f"pool {pool.key}: brought its own verdicts, and no --task says how to grade it")
    context = make_context(replace(config, task=name, pool=None, ids=None), progress)
    assert context.part_of_task is not None
    by_id: dict[str, Problem] = {}
    fault = None  # why a split cannot be read here
    for split in [config.split] if config.split else context.task.splits:
        try:
            by_id |= {problem.id: problem for problem in context.task.problems(split)}
        except HarnessError as failure:
            fault = fault or failure
    questions = []
    for problem_id, stored in pool.questions.items():
        problem = by_id.get(problem_id)
        if problem and stored.problem.prompt in ("", problem.prompt):  # "": it was pulled without texts
            questions.append(Question(problem))
            vars(questions[-1])["asked"] = stored.asked
    if fault and len(questions) < len(pool.questions):
        raise HarnessError(f"{fault}; of a --data file say the --split") from fault
    if not questions:
        raise HarnessError(f"pool {pool.key}: none of its problems is task {name!r}'s: say --task")
    at = pool.column("responses")
    assert at is not None
    responses = StoredResponses(at)
    verdicts = Verdicts(context.part_of_task, responses)
    return Plan(**vars(context), questions=questions, responses=responses, verdicts=verdicts)
