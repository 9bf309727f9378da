"""What `harness pool import|inspect|show|export|audit|hardest` do, and what they print."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.columns.column import Column, Question
from harness.columns.responses import names_of, responses_of
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
from harness.results.rows import chance_level, chance_text
from harness.system.console import Heading, console, put, short, word_table
from harness.system.files import write_atomically
from harness.system.json_text import canonical_json
from harness.system.progress import Progress

TROUBLE = ("timeout", "stalled", "memory", "unparsed")  # in a reason: a limit, or no answer that could be read
COUNTED = ("responses", "correct", "wrong", "errors", "audited", "disputed", "correct_here_only", "correct_there_only")
NAMES = {"error": "errors", "only the first": "correct_here_only", "only the second": "correct_there_only"}
EXCERPT = 200  # characters of a line


# Without grading.


def import_file(config: RunConfig) -> dict[str, Any]:
    """Import the config's pool file into its store; return its summary (`inspect`), where "pool" is its key there."""
    plan = make_plan(config, Progress(), with_verdicts=False)
    given = [plan.verdicts] if isinstance(plan.verdicts, GivenVerdicts) else []
    with plan.store.used():
        keep_problems(plan)
        plan.maker.make([plan.responses, *given], plan.questions)
    return inspect(plan.responses.key, config.store)


def _names(pool: StoredPool, problem: Problem) -> list[str]:
    """What the file that brought the pool in calls each response; empty if it names none."""
    return names_of(pool.rows("responses", pool.questions[problem.id], {}))


def _graded_rows(pool: StoredPool) -> Iterator[tuple[Problem, Responses, list[dict[str, Any]]]]:
    """A stored pool's problems with their responses and the newest verdicts on each, all None without."""
    none = dict.fromkeys(("status", "reason", "route", "answer"))
    for question in pool.questions.values():
        responses = responses_of(pool.rows("responses", question, {}))
        verdicts = pool.rows("verdicts", question, {"responses": None})
        yield question.problem, responses, verdicts.to_pylist() if verdicts else [dict(none) for _ in responses.texts]


def _marks(rows: list[dict[str, Any]]) -> list[bool]:
    """Which responses are correct; [] without verdicts."""
    return [row["status"] == "correct" for row in rows if row["status"]]


def inspect(pool: str, root: Path, plugin_files: Sequence[Path] = ()) -> dict[str, Any]:
    """Return the summary of a pool: its numbers of problems and responses, lengths, and pass@1 if it has verdicts.

    pool   a pool file, or the key (or its beginning) of a pool in the store `root`, whose newest verdicts count
    """
    every: Iterable[tuple[Responses, Sequence[bool]]]
    if Path(pool).exists():
        records = read_pool(Path(pool), layouts=Layouts(load_registry(plugin_files)))
        every = ((record.as_responses(), record.correct or ()) for record in records)
    else:
        stored = stored_pool(root, pool)
        pool, every = stored.key, ((responses, _marks(rows)) for _, responses, rows in _graded_rows(stored))
    counts, scores = [], dict[str, None]()
    for responses, marks in every:
        scores |= dict.fromkeys(responses.scores)
        length, cut = float(np.sum(responses.lengths)), responses.finish.count("length")
        counts.append((len(responses), len(set(responses.texts)), length, cut, len(marks), sum(marks), any(marks)))
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

    Each has `index`, `name` where the pool names it, `verdict` ("correct", "wrong", "error"), `reason`, `route`,
    `answer` (all None without a verdict; the newest grading counts) and `text`. HarnessError for a file, and for a
    problem or verdicts that the pool lacks.

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
        guess = did_you_mean(problem_id, stored.questions, "there")
        raise HarnessError(f"pool show: pool {stored.key} has no problem {problem_id!r} {guess}")
    problems = []
    for problem, responses, rows in _graded_rows(stored):
        names = _names(stored, problem)
        listed = [
            {
                "index": index,
                **({"name": names[index]} if names else {}),
                "verdict": row.pop("status"),
                **row,
                "text": text,
            }
            for index, (text, row) in enumerate(zip(responses.texts, rows, strict=True))
            if problem_id in (None, problem.id) and (not statuses or row["status"] in statuses)
        ]
        problems += [{"problem_id": problem.id, "prompt": problem.prompt, "responses": listed}] if listed else []
    return {"pool": stored.key, "graded": graded, "problems": problems}


def export(key: str, out: Path, root: Path) -> str:
    """Write a pool of the store as JSONL, with verdicts if it is graded; return a sentence about what was written."""
    pool = stored_pool(root, key)
    kind = (pool.about.get("engine") or {}).get("logprob_kind") or "sum, temperature 1, unfiltered"  # else our own
    lines = []
    for problem, responses, rows in _graded_rows(pool):
        line: dict[str, Any] = {"problem_id": problem.id, "prompt": problem.prompt, "responses": list(responses.texts)}
        if not np.isnan(responses.logprobs).any():
            line |= {"logprobs": responses.logprobs.tolist(), "logprob_kind": kind}
        if names := _names(pool, problem):
            line["names"] = names
        if "length" in responses.finish:  # without it every response counts as complete, and is graded so
            line["finish"] = list(responses.finish)
        if responses.scores:
            columns = {name: np.asarray(values, float).tolist() for name, values in responses.scores.items()}
            line["scores"] = {name: [None if x != x else x for x in values] for name, values in columns.items()}
        if correct := _marks(rows):
            line["correct"] = correct
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    write_atomically(out, "".join(lines).encode("utf-8", "surrogatepass"))
    return f"{out}: {len(lines)} problems" + (", with verdicts" if pool.column("verdicts") else "")


# By a task's grader.


def audit(config: RunConfig, progress: Progress) -> dict[str, Any]:
    """Grade a pool, a file or one of the store, with the task's grader and its second one.

    Return its key, counts of verdicts, of their `routes` and `reasons` (the 20 most frequent), the `chance` level
    (None: not measured), and `listed`: each response that needs a look, since the graders dispute it (only one calls it
    correct), a check ran into a limit, the answer could not be parsed, or grading it failed.
    """
    if config.pool and config.pool.exists() and not config.task:
        raise HarnessError(f"pool {config.pool}: say which --task grades it")
    plan = _graded(config, progress)
    assert plan.verdicts
    assert plan.audits
    counts, routes, reasons, listed = Counter[str](), Counter[str](), Counter[str](), []
    for question in plan.questions:
        problem = question.problem
        reference = problem.reference if isinstance(problem.reference, str | int | float) else None
        verdicts = plan.store.rows(plan.verdicts, question).to_pylist()
        seconds = plan.store.rows(plan.audits, question).to_pylist()
        disputed = disputes(*([each["status"] for each in given] for given in (verdicts, seconds)))
        for index, (verdict, second, dispute) in enumerate(zip(verdicts, seconds, disputed, strict=True)):
            status, reason, route = verdict["status"], verdict["reason"] or "", verdict["route"] or ""
            trouble = next((name for name in TROUBLE if name in reason), "")
            counts.update(NAMES.get(each, each) for each in ("responses", status, trouble, dispute))
            counts.update(audited=second["status"] is not None, disputed=bool(dispute))
            routes[route or "-"] += 1
            if status != "correct":
                reasons[reason or "-"] += 1
            if why := "disputed" if dispute else trouble or ("error" if status == "error" else ""):
                entry = {"problem_id": problem.id, "index": index, "why": why, "answer": verdict["answer"]}
                entry |= {"reference": reference, "verdict": status, "reason": reason, "route": route}
                listed.append(entry | {"second": second["status"], "second_reason": second["reason"] or ""})
    gradings = [about(plan.store.rows(plan.chance, question)) for question in plan.questions if plan.chance]
    return {
        "pool": plan.responses.key,
        "problems": len(plan.questions),
        **{name: counts[name] for name in (*COUNTED, *TROUBLE)},
        "routes": dict(routes.most_common()),
        "reasons": dict(reasons.most_common(20)),
        "chance": chance_level([(hits, tried) for hits, tried in gradings if tried], seed=0),
        "listed": listed,
    }


def hardest(config: RunConfig, count: int, out: Path) -> dict[str, Any]:
    """Write the hardest problems that a graded pool solves at least once; return a summary.

    Hardness is a reference model's: the share of its responses that are correct, pass@1 = c / n. Problems with c = 0
    are left out, since nothing shows that they can be solved (Tuyls et al. 2025, arXiv:2510.11686, appendix on
    token-level exploration: 1,024 responses of GPT-4o mini to each question of MATH's test split, the 200 with the
    lowest pass@1 above 0). Ties keep the order of the pool.

        {"problem_id": "algebra/test-17", "n": 1024, "correct": 3}      one line a problem, the hardest first

    `config.pool`: a file, graded by its own verdicts or by the task, or the key of a pool in the store. HarnessError if
    fewer problems have a correct response.
    """
    plan = _graded(config, Progress())
    assert plan.verdicts
    solved = []
    for question in plan.questions:
        statuses = plan.store.rows(plan.verdicts, question)["status"].to_pylist()[: plan.n]
        if correct := statuses.count("correct"):
            solved.append({"problem_id": question.problem.id, "n": len(statuses), "correct": correct})
    if len(solved) < count:
        raise HarnessError(
            f"pool hardest: {len(solved)} of {len(plan.questions)} problems have a correct response, --count asks for "
            f"{count}: ask for fewer, or give a pool with more responses a problem"
        )
    chosen = sorted(solved, key=lambda line: line["correct"] / line["n"])[:count]
    write_atomically(out, "".join(f"{canonical_json(line)}\n" for line in chosen).encode("utf-8", "surrogatepass"))
    return {
        "pool": plan.responses.key,
        "problems": len(plan.questions),
        "solvable": len(solved),
        "written": len(chosen),
        "pass_at_1_lowest": chosen[0]["correct"] / chosen[0]["n"],
        "pass_at_1_highest": chosen[-1]["correct"] / chosen[-1]["n"],
        "file": str(out),
    }


def _graded(config: RunConfig, progress: Progress) -> Plan:
    """The plan of a pool, a file or one of the store, every response of which has its verdict (and its audit)."""
    assert config.pool
    plan = make_plan(config, progress) if config.pool.exists() else _stored_plan(config, progress)
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


def _stored_plan(config: RunConfig, progress: Progress) -> Plan:
    """The plan of grading a pool of the store: its task's problems that have responses there."""
    pool = stored_pool(config.store, str(config.pool))
    name, at = config.task or pool.about.get("task"), pool.column("responses")
    if not name:
        raise HarnessError(f"pool {pool.key}: brought its own verdicts, and no --task says how to grade it")
    context = make_context(replace(config, task=name, pool=None, ids=None), progress)
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
    assert at
    assert context.part_of_task
    responses = StoredResponses(at)
    verdicts = Verdicts(context.part_of_task, responses)
    return Plan(**vars(context), questions=questions, responses=responses, verdicts=verdicts)


# What is printed.


def put_summary(value: Mapping[str, Any]) -> None:
    """Print the entries of a summary, one line each."""
    rows = []
    for key, entry in value.items():
        listed = ", ".join(map(str, entry)) if isinstance(entry, list) else str(entry)
        shown = f"{entry:.4g}" if isinstance(entry, float) else "-" if entry is None else listed
        rows.append([key.replace("_", " "), shown])
    table, _ = word_table([Heading(""), Heading("", prose=True)], rows, console().width)
    table.show_header = False
    put(table)


def put_inspected(value: Mapping[str, Any]) -> None:
    """Print what `inspect` returned, with names that say what is a share, and of a file whose verdicts count."""
    is_file = Path(value["pool"]).exists()
    names = {"distinct": "distinct (share)", "cut_at_max_tokens": "cut at max tokens (share)"}
    names |= {"graded": "verdicts in the file"} if is_file else {}
    put_summary({names.get(key, key): entry for key, entry in value.items()})
    if is_file and not value["graded"]:
        put("verdicts of a run are in its store: `harness pool inspect KEY`, `harness pool show KEY`")


def put_responses(value: Mapping[str, Any], listed: int, full: bool) -> None:
    """Print the first `listed` responses; not `full`: of each two lines, and the last two, which state the answer."""
    left = listed
    for problem in value["problems"]:
        shown = problem["responses"][:left]
        if shown:
            put(f"{problem['problem_id']}: {short(problem['prompt'].strip().partition(chr(10))[0], 100)}")
        for each in shown:
            why = ", ".join(filter(None, (each["route"], each["reason"])))
            answer = "" if each["answer"] is None else f", answer: {short(each['answer'])}"
            name = f"{each['name']} " if each.get("name") else ""
            put(f"  {each['index']} {name}{each['verdict'] or 'not graded'}{f' ({why})' if why else ''}{answer}")
            lines = each["text"].strip().splitlines() or ["(empty)"]
            if not full:
                lines = [line if len(line) <= EXCERPT else f"{line[:EXCERPT]}..." for line in lines]
                lines = lines if len(lines) <= 4 else [*lines[:2], "...", *lines[-2:]]
            put("\n".join(f"      {line}" for line in lines))
        left -= len(shown)
    total = sum(len(problem["responses"]) for problem in value["problems"])
    if total > listed:
        put(f"{total - listed} more: --listed N, or --json for all")
    elif not total:
        put("no such response")


def put_audit(value: Mapping[str, Any], listed: int) -> None:
    """Print what `audit` returned: the counts, and the first `listed` of the responses that need a look."""
    counts = {name: entry for name, entry in value.items() if name not in ("routes", "reasons", "chance", "listed")}
    put_summary(counts | ({"chance level": chance_text(value["chance"])} if value["chance"] else {}))
    for name in ("routes", "reasons"):
        if value[name]:
            put(f"{name}: {', '.join(f'{key}: {count}' for key, count in value[name].items())}")
    if not value["listed"]:
        return
    heads = {"problem": 9, "index": 9, "why": 8, "answer": 7, "reference": 7, "verdict": 6, "route": 4, "second": 5}
    rows = []
    for entry in value["listed"][:listed]:
        verdict = f"{entry['verdict']} ({entry['reason']})" if entry["reason"] else entry["verdict"]
        second = f"{entry['second'] or '-'} {entry['second_reason']}"
        cells = entry | {"problem": entry["problem_id"], "verdict": verdict, "second": second}
        rows.append([short(cells[head]) for head in heads])
    put(word_table([Heading(head, kept, prose=kept < 9) for head, kept in heads.items()], rows, console().width)[0])
    if len(value["listed"]) > listed:
        put(f"{len(value['listed']) - listed} more: --listed N, or --json for all")
