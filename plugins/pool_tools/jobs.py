"""`harness pool import|inspect|export|audit|hardest`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.contracts import Task
from harness.errors import HarnessError
from harness.jobs.options import RunConfig
from harness.jobs.plan import Plan, make_context, make_plan
from harness.jobs.price import preflight, require_consent
from harness.plugin_system.registry import load_registry
from harness.pools.reading import Layouts, read_pool
from harness.records import Floats, Problem, Responses
from harness.results.rows import chance_level
from harness.running import importing, pipeline
from harness.stages import audit as audits
from harness.stages import chance
from harness.store import shards
from harness.store.json_files import read_manifest
from harness.store.lookup import graded_folder, stored_pool
from harness.store.stage import Stage
from harness.system.files import write_atomically
from harness.system.progress import Progress

from . import hardness


def import_file(config: RunConfig, progress: Progress) -> dict[str, Any]:
    """Import the config's pool file into its store; return its summary (`inspect`), where "pool" is its key there."""
    context = make_context(config, progress)
    pool = importing.imported_pool(context)
    given = importing.verdicts_given(context, pool, needed=False)
    importing.bring_in(pool, context.work(pool.task, pool.stage, given=given), progress)
    return inspect(pool.stage.key, config.store)


def audit(config: RunConfig, progress: Progress) -> dict[str, Any]:
    """Grade a pool with the task's grader and its second one; return counts, and every response that needs a look.

    In the dict returned "pool" is the pool's key, "chance" the chance level (None: not measured), "listed" what needs a
    look: responses that are disputed, in trouble or errors. The other entries are counts.

    `config.pool`: a file (HarnessError if no task is given), or the key of a pool in the store.
    """
    assert config.pool is not None
    if config.pool.exists() and not config.task:
        raise HarnessError(f"pool {config.pool}: say which --task grades it")
    plan = _graded(config, progress)
    plan.work.audits.begin()
    pipeline.audit(plan, progress)
    listed = list(audits.listing(plan.work, plan.problems))
    stage = chance.stage_of(plan.context.store, plan.work, plan.task, plan.problems)
    counts = [counts for problem in plan.problems if (counts := chance.counts_in(stage, problem))]
    level = chance_level([(correct, gradings) for correct, gradings in counts if gradings], seed=0)
    summary = audits.summary(plan.work, plan.problems)
    return {"pool": plan.work.pool.key, **summary, "chance": level, "listed": listed}


def hardest(config: RunConfig, count: int, out: Path, progress: Progress) -> dict[str, Any]:
    """Write the hardest problems that a graded pool solves at least once (`hardness.hardest`); return a summary.

    A line of the file `out` holds a problem's id, its number of responses n and how many of them are correct.

    `config.pool`: a file, graded by its own verdicts or by the task, or the key of a pool in the store.
    """
    plan = _graded(config, progress)
    counts = []
    for problem in plan.problems:
        verdicts = shards.read_verdicts(plan.work.verdicts.path(problem))[: plan.work.n]
        counts.append(hardness.Solved(problem.id, len(verdicts), verdicts.count("correct")))
    chosen = hardness.hardest(counts, count)
    hardness.write(out, chosen)
    shares = [solved.correct / solved.n for solved in chosen]
    return {
        "pool": plan.work.pool.key,
        "problems": len(counts),
        "solvable": sum(solved.correct > 0 for solved in counts),
        "written": len(chosen),
        "pass_at_1_lowest": shares[0],
        "pass_at_1_highest": shares[-1],
        "file": str(out),
    }


def _graded(config: RunConfig, progress: Progress) -> Plan:
    """The plan of a pool, a file or one of the store, every response of which has its verdict."""
    assert config.pool is not None
    if config.pool.exists():
        plan = make_plan(config, progress)
    else:
        plan = _stored_plan(stored_pool(config.store, str(config.pool)), config, progress)
    if plan.imported:
        importing.bring_in(plan.imported, plan.work, progress)
    for stage in filter(None, (plan.work.verdicts, plan.work.graded, plan.work.answers)):
        stage.begin()
    plan.check_grader()
    require_consent("pool audit", preflight(plan).outlook, progress, "--split makes it shorter")
    pipeline.verify(plan, progress)
    return plan


def _stored_plan(folder: Path, config: RunConfig, progress: Progress) -> Plan:
    """The plan of grading a pool of the store: its task's problems that have a shard there."""
    inputs = read_manifest(folder)
    made_for = inputs["task"]
    name, revision = (made_for["name"], made_for["revision"]) if isinstance(made_for, dict) else (made_for, None)
    if not (config.task or name):
        raise HarnessError(f"pool {folder.name}: brought its own verdicts, and no --task says how to grade it")
    context = make_context(replace(config, task=config.task or name, pool=None, ids=None), progress)
    assert context.task is not None
    if revision and revision != context.task.revision:
        raise HarnessError(
            f"pool {folder.name}: was made from revision {revision} of {name}'s data, this is {context.task.revision}: "
            "say the --data that it was made with"
        )
    stage = Stage(folder, folder.name, ".parquet", inputs)
    by_id, fault = _problems(context.task, [config.split] if config.split else context.task.splits)
    problems = [problem for problem in by_id.values() if stage.path(problem).exists()]
    if fault and len(problems) < len(list(folder.glob("*.parquet"))):
        raise HarnessError(f"{fault}; of a --data file say the --split") from fault
    if not problems:
        raise HarnessError(f"pool {folder.name}: none of its problems is task {context.config.task!r}'s: say --task")
    return Plan(context, context.task, problems, context.work(context.task, stage))


def _problems(task: Task, splits: Sequence[str]) -> tuple[dict[str, Problem], HarnessError | None]:
    """The problems of those of the splits that can be read here, by id; why another could not."""
    by_id: dict[str, Problem] = {}
    fault = None
    for split in splits:
        try:
            by_id |= {problem.id: problem for problem in task.problems(split)}
        except HarnessError as failure:
            fault = fault or failure
    return by_id, fault


def inspect(pool: str, root: Path, plugin_files: Sequence[Path] = ()) -> dict[str, Any]:
    """Return the summary of a pool: its numbers of problems and responses, lengths, and pass@1 if it has verdicts.

    pool   a pool file, or the key (or its beginning) of a pool in the store `root`

    What only verdicts tell is None without them; of a pool in the store, those that are there count.
    """
    if Path(pool).exists():
        layouts = Layouts(load_registry(plugin_files))
        records = ((r.as_responses(), r.correct) for r in read_pool(Path(pool), layouts=layouts))
        return {"pool": pool, **_summary(records)}
    folder = stored_pool(root, pool)
    graded = graded_folder(root, folder.name)
    stored = ((shards.read_responses(path), _correct_in(graded, path)) for path in sorted(folder.glob("*.parquet")))
    return {"pool": folder.name, **_summary(stored)}


def export(key: str, out: Path, root: Path) -> str:
    """Write a pool of the store `root` as JSONL, one line per problem; return a sentence that says what was written.

    Lines are in the order of the problems' shards, and hold verdicts if the pool is graded.

    key   the pool's key, or its beginning
    """
    folder = stored_pool(root, key)
    graded = graded_folder(root, folder.name)
    lines = []
    files = sorted(folder.glob("*.parquet"))
    for path in files:
        responses, about = shards.read_responses(path), shards.read_about(path)
        line: dict[str, Any] = {**about, "responses": list(responses.texts)}
        if not np.isnan(responses.logprobs).any():
            line |= {"logprobs": responses.logprobs.tolist(), "logprob_kind": _logprob_kind(folder)}
        if "length" in responses.finish:  # without it every response counts as complete, and is graded so
            line["finish"] = list(responses.finish)
        if responses.scores:
            line["scores"] = {name: _or_null(values) for name, values in responses.scores.items()}
        correct = _correct_in(graded, path)
        lines.append(json.dumps(line | ({"correct": correct} if correct else {}), ensure_ascii=False))
    write_atomically(out, ("\n".join(lines) + "\n").encode())
    return f"{out}: {len(files)} problems" + (", with verdicts" if graded else "")


def _or_null(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def _logprob_kind(folder: Path) -> str:
    """What the pool's log-probabilities are of: as its engine said, else our own kind."""
    engine = read_manifest(folder).get("engine")
    named = engine.get("logprob_kind") if isinstance(engine, dict) else None
    return named or "sum, temperature 1, unfiltered"


def _correct_in(graded: Path | None, shard: Path) -> list[bool] | None:
    path = graded / shard.name if graded else None
    return [verdict == "correct" for verdict in shards.read_verdicts(path)] if path and path.exists() else None


def _summary(pools: Iterable[tuple[Responses, Sequence[bool] | None]]) -> dict[str, Any]:
    sizes, distinct, lengths, cut, solved, right, graded = [], 0, 0.0, 0, 0, 0, 0
    scores: dict[str, None] = {}
    for responses, correct in pools:
        scores |= dict.fromkeys(responses.scores)
        sizes.append(len(responses))
        distinct += len(set(responses.texts))
        lengths += float(np.sum(responses.lengths))
        cut += list(responses.finish).count("length")
        if correct is not None:
            graded += len(correct)
            right += sum(correct)
            solved += any(correct)
    total = sum(sizes)
    if not total:
        raise HarnessError("pool: holds no responses yet")
    return {
        "problems": len(sizes),
        "responses": total,
        "n": sizes[0] if len(set(sizes)) == 1 else [min(sizes), max(sizes)],
        "distinct": distinct / total,
        "mean_length": lengths / total,
        "cut_at_max_tokens": cut / total,
        "graded": graded,
        "solvable": solved if graded else None,
        "pass_at_1": right / graded if graded else None,
        **({"scores": list(scores)} if scores else {}),
    }
