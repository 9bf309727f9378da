"""`harness rl eval`: measure pass@k of trained models, sampled with a harness engine and kept in the store.

As in the paper (Tuyls et al. 2025, arXiv:2510.11686, appendix): each run's checkpoint with the highest dev pass@1, 256
responses to each question of the test split with vanilla parameters, unbiased pass@k, the mean over seeds. The file
holds raw values (N and c per question, the log-likelihoods); tables and figures are computed from these.

If a task has a strict grader besides its verifier, both grade: `c` counts by the verifier, `c_strict` by the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from harness.columns.column import Column, Question
from harness.columns.responses import responses_of
from harness.contracts import Engine
from harness.errors import HarnessError
from harness.jobs.options import RunConfig
from harness.jobs.plan import Plan, make_plan, prompt
from harness.jobs.price import SHORTER, Outlook, require_consent, sampling
from harness.jobs.run import ready
from harness.plugin_system.component import build, graded_as_the_paper
from harness.plugin_system.registry import load_registry
from harness.records import Floats
from harness.results.inert_text import without_folders
from harness.scoring.curves import Factor, factors
from harness.scoring.curves import curve as curve_of
from harness.scoring.metrics import budgets, random_pass_at_k
from harness.system.files import write_atomically
from harness.system.json_text import digest
from harness.system.progress import Progress
from harness_plugins.rl.run_files import read_run

from . import eval_intervals
from .evaluation_file import FILE, KIND, SCHEMA
from .requests import EvalRequest
from .training import Checkpoint, Trainer, TrainingRun
from .training_run import best_step, has_second_grader, naming_data_options

BASE = "base"

T = TypeVar("T")


@dataclass(frozen=True)
class Policy:
    """A model to evaluate: a run's checkpoint, or the initial model (`run` is then any run that started from it).

    checkpoint   None: the initial model
    folder       of the exported checkpoint; of the initial model its folder or hub id
    dev          dev pass@1 of the checkpoint; None if it is not known
    """

    run: TrainingRun
    checkpoint: Checkpoint | None
    folder: str
    dev: float | None = None

    @property
    def bonus(self) -> str:
        """The policy's name in tables: the spec of its run's bonus, or "base" for the initial model."""
        return BASE if self.checkpoint is None else self.run.bonus


def evaluate(request: EvalRequest, progress: Progress) -> dict[str, Any]:
    """Sample and grade what the store lacks, write the evaluation to `rl-eval.json`, and return it.

    "problems" has the problems' ids; "policies" has a dict per model, with its bonus, seed, step, and numbers of
    correct responses per problem: "c" by the verifier, "c_strict" by the strict grader if there is one. HarnessError if
    the runs differ in task, model or reward.
    """
    runs = _runs(request)
    trainers = {run.folder: _trainer(run) for run in runs}
    policies = [_chosen(request, run, trainers[run.folder], progress) for run in runs]
    if request.base:
        policies.insert(0, Policy(runs[0], None, runs[0].model))
    evaluated = [(policy, _plan(request, policy, progress)) for policy in policies]
    require_consent("rl eval", _outlook([plan for _, plan in evaluated]), progress, SHORTER)
    results = [_sampled(policy, plan) for policy, plan in evaluated]
    evaluation = {
        "kind": KIND,
        "schema": SCHEMA,
        "task": without_folders(runs[0].task),
        "split": request.split,
        "model": without_folders(runs[0].model),
        "reward": runs[0].reward,
        "n": request.n,
        "problems": [question.problem.id for question in evaluated[0][1].questions],
        "policies": results,
    }
    if request.likelihood:
        _add_likelihoods(request, evaluation, evaluated, progress)
    path = (request.out or request.store / "rl") / FILE
    write_atomically(path, (json.dumps(evaluation, indent=1) + "\n").encode())
    progress.say(f"evaluation: {path}")
    return evaluation


def _outlook(plans: Sequence[Plan]) -> Outlook:
    """Estimate the time for all policies from the time per response of the first policy that lacks responses."""
    lacking = [(plan, missing) for plan in plans if (missing := plan.store.missing(plan.responses, plan.questions))]
    if not lacking:
        return Outlook()
    plan, missing = lacking[0]
    one_policy = sampling(plan, missing, sum(map(plan.rows, missing)))
    times = sum(len(each) for _, each in lacking) / len(missing)
    return Outlook(one_policy.seconds * times, round(one_policy.responses * times), round(one_policy.tokens * times))


def _runs(request: EvalRequest) -> list[TrainingRun]:
    runs = [_graded(_trusted(request, read_run(folder.absolute()))) for folder in request.folders]
    for run in runs[1:]:
        for field in ("task", "model", "reward"):
            if getattr(run, field) != getattr(runs[0], field):
                raise HarnessError(
                    f"rl eval: {run.folder} has the {field} {getattr(run, field)!r}, {runs[0].folder} "
                    f"{getattr(runs[0], field)!r}: evaluate them apart"
                )
    return runs


def _trusted(request: EvalRequest, run: TrainingRun) -> TrainingRun:
    """The run with the plugin files and the trainer that the user names; HarnessError if its `run.json` names others.

    A folder may be a stranger's: what would run code (plugin files, a trainer with parameters) must be the user's word.
    """
    given = {path.name for path in request.plugin_files}
    wanted = [f"--plugin {path}" for path in run.plugin_files if path.name not in given]
    if ":" in run.trainer and request.trainer != run.trainer:
        wanted.append(f"--trainer {run.trainer}")
    if wanted:
        raise HarnessError(
            f"rl eval: {run.folder} was trained with {' '.join(wanted)}: give that too, if you trust where it is from"
        )
    return replace(run, plugin_files=tuple(request.plugin_files))


def _graded(run: TrainingRun) -> TrainingRun:
    """The run with the task's RL grading, also if an older version recorded the run without it."""
    return replace(run, task=graded_as_the_paper(load_registry(run.plugin_files), run.task))


def _trainer(run: TrainingRun) -> Trainer:
    trainer: Trainer = build(load_registry(run.plugin_files), "trainer", run.trainer)
    return trainer


def _chosen(request: EvalRequest, run: TrainingRun, trainer: Trainer, progress: Progress) -> Policy:
    """The run's checkpoint with the best dev pass@1, or at the requested step, exported as a Hugging Face folder."""
    saved = {checkpoint.step: checkpoint for checkpoint in trainer.saved(run)}
    if not saved:
        raise HarnessError(f"rl eval: {run.folder} has no complete checkpoint")
    best = best_step(run, list(saved))
    if request.step is None and best is None:
        raise HarnessError(f"rl eval: {run.folder} has no dev pass@1 to choose a checkpoint by: give --step")
    step = request.step if request.step is not None else best[0] if best else 0
    if step not in saved:
        raise HarnessError(
            f"rl eval: {run.folder} has no checkpoint at step {step} (it has {', '.join(map(str, saved))})"
        )
    _, dev = best_step(run, [step]) or (step, None)
    progress.say(f"{run.bonus}, seed {run.seed}: step {step}" + (f", dev pass@1 {dev:.3f}" if dev is not None else ""))
    return Policy(run, saved[step], str(trainer.export(run, saved[step])), dev)


def _plan(request: EvalRequest, policy: Policy, progress: Progress) -> Plan:
    """The plan of sampling from a policy; its seed is the evaluation's, not the run's."""
    run = policy.run
    data = request.data or run.data
    plugin_files = tuple(request.plugin_files)
    task = build(load_registry(plugin_files), "task", run.task, data=None)
    file = data.get(request.split, data.get(""))
    config = RunConfig(
        selectors=("uniform",),
        task=run.task,
        model=policy.folder,
        engine=request.engine,
        sampler="vanilla",
        data=Path(file) if file else None,
        split=task.rl[request.split],
        n=request.n,
        max_tokens=request.max_tokens or run.settings.max_response,
        seed=request.seed,
        store=request.store,
        plugin_files=plugin_files,
    )
    with naming_data_options([request.split], "rl eval"):
        plan = make_plan(config, progress)
    return replace(plan, questions=spaced(plan.questions, request.limit))


def spaced(problems: Sequence[T], limit: int | None) -> list[T]:
    """Return `limit` problems, evenly spaced from the first to the last, in their order (1: the first).

    All problems if `limit` is None or not smaller than their number.
    """
    if limit is None or limit >= len(problems):
        return list(problems)
    return [problems[place * (len(problems) - 1) // max(1, limit - 1)] for place in range(limit)]


def _sampled(policy: Policy, plan: Plan) -> dict[str, Any]:
    """Sample and grade what the store lacks; return the policy's dict of the evaluation."""
    audits = plan.audits if has_second_grader(plan.task) else None
    columns = [column for column in (plan.vectors, plan.verdicts, audits) if column]
    with plan.store.used():
        ready(plan, columns)
        return plan.maker.make(columns, plan.questions, partial(_result, policy, plan))


def _result(policy: Policy, plan: Plan) -> dict[str, Any]:
    assert plan.verdicts is not None
    verdicts = _statuses(plan, plan.verdicts)
    result = {
        "bonus": policy.bonus,
        "trainer": None if policy.checkpoint is None else without_folders(policy.run.trainer),
        "seed": None if policy.checkpoint is None else policy.run.seed,
        "step": None if policy.checkpoint is None else policy.checkpoint.step,
        "dev_pass_at_1": policy.dev,
        "pool": plan.responses.key,
        "c": [each.count("correct") for each in verdicts],
    }
    if plan.audits and has_second_grader(plan.task):
        result["c_strict"] = [each.count("correct") for each in _statuses(plan, plan.audits)]
    return {**result, "errors": sum(each.count("error") for each in verdicts)}


def _statuses(plan: Plan, graded: Column) -> list[list[str | None]]:
    """The verdicts of each problem."""
    return [plan.store.rows(graded, question)["status"].to_pylist() for question in plan.questions]


# Likelihood under the initial model.


def _add_likelihoods(
    request: EvalRequest, evaluation: dict[str, Any], evaluated: Sequence[tuple[Policy, Plan]], progress: Progress
) -> None:
    """Add to each policy the mean log-probability per token of each first response, under the initial model."""
    run, first_plan = evaluated[0][0].run, evaluated[0][1]
    engine: Engine = first_plan.part("engine", request.engine, model=run.model).built
    if not hasattr(engine, "score"):
        progress.say(f"likelihoods: engine {request.engine!r} cannot score given responses: left out")
        return
    with progress.stage("score", len(evaluated) * len(first_plan.questions), "responses") as stage:
        for (_, plan), result in zip(evaluated, evaluation["policies"], strict=True):
            result["likelihoods"] = [_likelihood(engine, plan, question) for question in plan.questions]
            stage.advance(len(plan.questions))


def _likelihood(engine: Any, plan: Plan, question: Question) -> float | None:
    response = responses_of(plan.store.rows(plan.responses, question)).first(1)
    tokens = int(response.lengths[0])
    if tokens == 0:
        return None
    return float(f"{float(engine.score(prompt(plan.task, engine, question.problem), response)[0]) / tokens:.6g}")


# Values for tables and figures.


@dataclass(frozen=True)
class Curve:
    """pass@k of one method at k = 1 ... n: mean over its seeds and standard error (None for one seed), both (n,)."""

    bonus: str
    seeds: int
    mean: Floats
    error: Floats | None


def graders(evaluation: Mapping[str, Any]) -> dict[str, str]:
    """Return an evaluation's graders, the stricter first: name -> the key of its counts in each of "policies"."""
    if all("c_strict" in policy for policy in evaluation["policies"]):
        return {"strict": "c_strict", "lenient": "c"}
    return {"verifier": "c"}


def curves(evaluation: Mapping[str, Any], grader: str | None = None) -> list[Curve]:
    """Return a curve per method (bonus, or "base"), in the order of the evaluation's policies.

    grader   a name from `graders`, whose counts are used; None: the strictest
    """
    return [
        _curve(bonus, np.array([pass_at_k(evaluation["n"], c) for c in each]))
        for bonus, each in _counts(evaluation, grader).items()
    ]


def _counts(evaluation: Mapping[str, Any], grader: str | None) -> dict[str, list[list[int]]]:
    """Each method's counts of correct responses by problem, a list per policy; `grader` as in `curves`."""
    keys = graders(evaluation)
    counted = keys[grader] if grader else next(iter(keys.values()))
    by_bonus: dict[str, list[list[int]]] = {}
    for policy in evaluation["policies"]:
        by_bonus.setdefault(policy["bonus"], []).append(policy[counted])
    return by_bonus


def _curve(bonus: str, each: Floats) -> Curve:
    error = each.std(axis=0, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else None
    return Curve(bonus, len(each), each.mean(axis=0), error)


def pass_at_k(n: int, c: Sequence[int]) -> Floats:
    """Return unbiased pass@k (Chen et al. 2021) at k = 1 ... n, (n,), the mean over problems.

    `c` has for each problem the number of correct responses among its n.
    """
    counts = np.array(c)
    return np.array([random_pass_at_k(np.full(len(counts), n), counts, k).mean() for k in range(1, n + 1)])


def fewer_samples(evaluation: Mapping[str, Any], grader: str | None = None) -> dict[str, dict[str, Factor]]:
    """Return method -> other method -> how many times fewer samples the first needs for the other's pass@n.

    The interval is over problems, of these trained models: other trainings would vary more. The paper's arrows are at
    n = 256. `grader` as in `curves`.
    """
    n, counts = evaluation["n"], _counts(evaluation, grader)
    seed = int(digest([n, counts], 8), 16)
    curve = {bonus: curve_of(range(1, n + 1), _shares(n, each), seed) for bonus, each in counts.items()}
    return {
        ahead: {behind: factors(curve[ahead], curve[behind], [n])[0] for behind in curve if behind != ahead}
        for ahead in curve
    }


def _shares(n: int, counts: Sequence[Sequence[int]]) -> Floats:
    """Unbiased pass@k of each problem at k = 1 ... n, the mean over a method's policies, (problems, n)."""
    c = np.array(counts)
    return np.stack([random_pass_at_k(np.full(c.shape, n), c, k).mean(axis=0) for k in range(1, n + 1)], axis=1)


def rows(evaluation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row per grader and method: pass@k, its standard error, and how it compares with each other method.

    pass_at_k, standard_error   str(k) -> value, for k = 1, 2, 4, ... and n
    pass_at_k_ci, gain_over, gain_over_ci   see `eval_intervals.columns`
    fewer_samples_than          other method -> `efficiency`, how many times fewer samples this method needs
    fewer_samples               the same with its interval: other method -> the fields of `curves.Factor`
    """
    return [row for grader in graders(evaluation) for row in _rows(evaluation, grader)]


def _rows(evaluation: Mapping[str, Any], grader: str) -> list[dict[str, Any]]:
    every = curves(evaluation, grader)
    ks = budgets(evaluation["n"])
    intervals = eval_intervals.columns(evaluation["n"], _counts(evaluation, grader), ks)
    rows = []
    fewer = fewer_samples(evaluation, grader)
    for curve in every:
        error = curve.error
        rows.append(
            {
                "task": evaluation["task"],
                "split": evaluation["split"],
                "reward": evaluation.get("reward"),
                "grader": grader,
                "bonus": curve.bonus,
                "seeds": curve.seeds,
                "problems": len(evaluation["problems"]),
                "n": evaluation["n"],
                **intervals[curve.bonus],
                "pass_at_k": {str(k): float(curve.mean[k - 1]) for k in ks},
                "standard_error": None if error is None else {str(k): float(error[k - 1]) for k in ks},
                "fewer_samples_than": {other: factor.times for other, factor in fewer[curve.bonus].items()},
                "fewer_samples": {other: asdict(factor) for other, factor in fewer[curve.bonus].items()},
            }
        )
    return rows
