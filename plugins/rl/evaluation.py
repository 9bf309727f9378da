"""`harness rl eval`: pass@k of trained models, sampled with a harness engine and kept in the store; its file.

As in the paper (Tuyls et al. 2025, arXiv:2510.11686, appendix): each run's checkpoint with the highest dev pass@1, 256
responses to each question of the test split with vanilla parameters, unbiased pass@k, the mean over seeds. The file
holds raw values (N and c per question, the log-likelihoods); tables and figures are computed from these, below.

If a task has a strict grader besides its verifier, both grade: `c` counts by the verifier, `c_strict` by the other.

95 % intervals are of pass@k after training, and of its difference between two methods, over problems and seeds: other
problems and other trainings would give other values. With x (seeds, problems) of a method, the variance of its mean is
estimated as

    var over p of (mean over s) / problems  +  var over s of (mean over p) / seeds

and the interval is Student's t with Satterthwaite's degrees of freedom (few seeds have few). What varies with both is
in both terms, so the interval is rather too wide than too narrow. Two methods are paired by problem, and not by seed:
the first term is of their difference, the second of each. A method with one policy (the initial model, one seed) has
no second term: its interval is over problems only. Nothing is resampled. An interval is cut where values end (pass@k
at 0 and 1, a difference at -1 and 1), which loses no coverage; one as wide as all of that says nothing and is None.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypeVar

import numpy as np
from pydantic import Field
from scipy.stats import t
from typing_extensions import TypedDict

from harness.columns.column import Column, forget
from harness.columns.responses import responses_of
from harness.contracts import Engine
from harness.errors import HarnessError, Lacking
from harness.jobs.options import RunConfig
from harness.jobs.plan import Plan, make_plan, prompt
from harness.jobs.price import SHORTER, Outlook, Space, require_consent, sampling, space
from harness.jobs.run import ready
from harness.plugin_system.component import ENGINE, build
from harness.plugin_system.registry import load_registry
from harness.records import Floats
from harness.results import published
from harness.results.inert_text import without_folders
from harness.scoring.curves import Factor, factors
from harness.scoring.curves import curve as curve_of
from harness.scoring.metrics import budgets, random_pass_at_k
from harness.scoring.stats import LEVEL
from harness.system import json_text
from harness.system.files import write_atomically
from harness.system.progress import Progress
from harness_plugins.engines.vllm.engine import VLLM, environment, gpus_in_sight

from ..models.location import locate
from .checkpoints import best_step
from .commands import EvalRequest
from .preflight import SAMPLED, fetching, shown_size, size_of, to_sample
from .training import Trainer, TrainingRun, read_run
from .training_run import naming_data_options

KIND = "diversity-harness rl eval"
SCHEMA = 1
MOST = 100_000  # responses to a question: pass@k is computed for every k up to it
GROUPS = 8  # of problems, at least: work for as many engines, whatever executor there is
FILE = published.EVALUATION
BASE = "base"  # the name of the initial model
UNTRAINED = {"bonus": BASE, "trainer": None, "seed": None, "step": None, "dev_pass_at_1": None}

T = TypeVar("T")


def evaluate(request: EvalRequest, progress: Progress) -> dict[str, Any]:
    """Sample and grade what the store lacks, write the evaluation to `rl-eval.json`, and return it.

    "problems" has the problems' ids; "policies" has a dict per model, with its bonus, seed, step, and numbers of
    correct responses per problem: "c" by the verifier, "c_strict" by the strict grader if there is one. HarnessError if
    the runs differ in task, model or reward.
    """
    request, runs = _asked(request, progress)
    first = runs[0]
    chosen = [_chosen(request, run, progress) for run in runs]  # a missing checkpoint is told first
    policies = [(UNTRAINED, _plan(request, first, first.model, progress))] if request.base else []
    policies += [
        (about, _plan(request, run, str(folder), progress)) for run, (about, folder) in zip(runs, chosen, strict=True)
    ]
    plans = [plan for _, plan in policies]
    outlook = _outlook(plans)
    if outlook.responses or outlook.seconds:
        _say_room(request, first.model, plans[0].models_here, progress)
    require_consent("rl eval", outlook, progress, SHORTER)
    evaluation = {
        "kind": KIND,
        "schema": SCHEMA,
        "task": without_folders(first.task),
        "split": request.split,
        "model": without_folders(first.model),
        "reward": first.reward,
        "n": request.n,
        "problems": [question.problem.id for question in policies[0][1].questions],
        "policies": [about | _counted(plan) for about, plan in policies],
    }
    if request.likelihood:
        _add_likelihoods(request, evaluation, plans, first.model, progress)
    path = (request.out or request.store / "rl") / FILE
    write_atomically(path, (json.dumps(evaluation, indent=1) + "\n").encode())
    progress.say(f"evaluation: {path}")
    return evaluation


def rehearse(request: EvalRequest, progress: Progress) -> list[dict[str, Any]]:
    """Return a row per policy: its checkpoint, and how many responses the store has and lacks; nothing is written.

    GPUs, memory, disk and time are said, the time from a short probe where the model is on this disk. Where libraries
    or data are lacking, counts are None. HarnessError for what `evaluate` would refuse.
    """
    request, runs = _asked(request, progress)
    first = runs[0]
    chosen = [(UNTRAINED, first, first.model)] if request.base else []
    for run in runs:
        about, folder = _chosen(request, run, progress, "exported")
        chosen.append((about, run, str(folder) if folder else ""))
    rows, plans, unplanned = list[dict[str, Any]](), list[Plan](), 0
    sample: Plan | None = None
    for about, run, model in chosen:
        row: dict[str, Any] = {**about, "model": model or "to be exported", "there": None, "to_make": None}
        try:
            plan = _plan(request, run, model or first.model, progress)
        except Lacking as failure:
            progress.say(f"not planned yet: {failure}")
        else:
            total, sample = request.n * len(plan.questions), plan
            if model:
                plans.append(plan)
            missing = plan.store.missing(plan.responses, plan.questions) if model else plan.questions
            unplanned += not model
            row |= {"there": total - request.n * len(missing), "to_make": request.n * len(missing)}
        rows.append(row)
    here = sample.models_here if sample else True
    if any(row["to_make"] != 0 for row in rows):
        _say_room(request, first.model, here, progress)
    if sample:
        probes = not size_of(locate(first.model)).to_fetch
        work = _outlook(plans, [sample] * unplanned, probes)
        progress.say(f"time: {str(work) or 'none, all is sampled'}")
        needed = sum((space(plan) for plan in plans), Space()) + sum([space(sample)] * unplanned, Space())
        progress.say(needed.told(sample.store.root) or "disk: nothing is to be stored")
    if waiting := sum(row["model"] == "to be exported" for row in rows):
        size = size_of(locate(first.model))
        each = f"{shown_size(SAMPLED * size.parameters)} each{size.known}" if size.parameters else "sizes not known"
        progress.say(f"disk: {waiting} checkpoints are to be exported beside themselves, {each}")
    return rows


def _asked(request: EvalRequest, progress: Progress) -> tuple[EvalRequest, list[TrainingRun]]:
    """The request with its engine, and its runs; HarnessError if they differ in task, model or reward."""
    runs = [_trusted(request, read_run(folder.absolute())) for folder in request.folders]
    first = runs[0]
    for run in runs[1:]:
        for field in ("task", "model", "reward"):
            if getattr(run, field) != getattr(first, field):
                raise HarnessError(
                    f"rl eval: {run.folder} has the {field} {getattr(run, field)!r}, {first.folder} "
                    f"{getattr(first, field)!r}: evaluate them apart"
                )
    return replace(request, engine=request.engine or _default_engine(progress)), runs


def _say_room(request: EvalRequest, model: str, here: bool, progress: Progress) -> None:
    """Say what sampling needs of this machine, if models run `here`; HarnessError if that cannot be."""
    size = size_of(locate(model))
    if not (request.base or request.likelihood):  # then the initial model is not loaded
        size = replace(size, to_fetch=0)
    engine = build(load_registry(request.plugin_files), "engine", request.engine or ENGINE, model=model)
    for remark in to_sample(engine, size) if here else fetching("rl eval", size):
        progress.say(remark)


def _outlook(plans: Sequence[Plan], whole: Sequence[Plan] = (), probes: bool = True) -> Outlook:
    """Estimate the time for all policies from the time per response of the first policy that lacks responses.

    whole   plans of policies that lack all of theirs, whose model cannot be sampled from yet
    probes  if it is false, the time is not known
    """
    lacking = [(plan, missing) for plan in plans if (missing := plan.store.missing(plan.responses, plan.questions))]
    rows = sum(sum(map(plan.rows, missing)) for plan, missing in lacking)
    rows += sum(sum(map(plan.rows, plan.questions)) for plan in whole)
    if not lacking or not probes:
        longest = max((plan.size[1] for plan in (*plans, *whole)), default=0)
        return Outlook(0, rows, rows * longest)
    plan, missing = lacking[0]
    one_policy = sampling(plan, missing, sum(map(plan.rows, missing)))
    times = rows / sum(map(plan.rows, missing))
    return Outlook(one_policy.seconds * times, round(one_policy.responses * times), round(one_policy.tokens * times))


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


def _chosen(
    request: EvalRequest, run: TrainingRun, progress: Progress, export: Literal["export", "exported"] = "export"
) -> tuple[dict[str, Any], Path | None]:
    """What the evaluation says of a run's checkpoint, the requested or the best by dev pass@1; its exported folder.

    export  the trainer's method that gives the folder; of a trainer without `exported` it is not known
    """
    trainer: Trainer = run.part("trainer")
    saved = {checkpoint.step: checkpoint for checkpoint in trainer.saved(run)}
    if not saved:
        raise HarnessError(f"rl eval: {run.folder} has no complete checkpoint")
    if request.step is not None and request.step not in saved:
        steps = ", ".join(map(str, saved))
        raise HarnessError(f"rl eval: {run.folder} has no checkpoint at step {request.step} (it has {steps})")
    step, dev = best_step(run, list(saved) if request.step is None else [request.step]) or (request.step, None)
    if step is None:
        raise HarnessError(f"rl eval: {run.folder} has no dev pass@1 to choose a checkpoint by: give --step")
    progress.say(f"{run.bonus}, seed {run.seed}: step {step}" + (f", dev pass@1 {dev:.3f}" if dev is not None else ""))
    about = {"bonus": run.bonus, "trainer": without_folders(run.trainer), "seed": run.seed, "step": step}
    folder: Path | None = getattr(trainer, export, lambda run, checkpoint: None)(run, saved[step])
    return about | {"dev_pass_at_1": dev}, folder


def _default_engine(progress: Progress) -> str:
    """vLLM, where this machine has a GPU that it can use; else transformers, with a line if there is a GPU."""
    if not gpus_in_sight():
        return ENGINE
    try:
        if environment(VLLM.find(None, find_spec)).device == "cuda":
            return "vllm"
        reason = "the installed one is for CPUs"
    except HarnessError as failure:
        reason = str(failure)
    progress.say(f"rl eval: {ENGINE} samples, not vLLM ({reason})")
    return ENGINE


def _plan(request: EvalRequest, run: TrainingRun, model: str, progress: Progress) -> Plan:
    """The plan of sampling from a model that a run began or ended with; its seed is the evaluation's, not the run's."""
    data = request.data or run.data
    file = data.get(request.split, data.get(""))
    config = RunConfig(
        selectors=("uniform",),
        task=run.task,
        model=model,
        engine=request.engine or ENGINE,
        sampler="vanilla",
        executor=request.executor,
        data=Path(file) if file else None,
        split=run.part("task", data=None).rl[request.split],
        n=request.n,
        max_tokens=request.max_tokens or run.settings.max_response,
        seed=request.seed,
        store=request.store,
        plugin_files=tuple(request.plugin_files),
    )
    with naming_data_options([request.split], "rl eval"):
        plan = make_plan(config, progress)
    return replace(plan, questions=spaced(plan.questions, request.limit))


def spaced(problems: Sequence[T], limit: int | None) -> list[T]:
    """Return `limit` problems, evenly spaced from the first to the last, in their order; all if there are no more."""
    if limit is None or limit >= len(problems):
        return list(problems)
    return [problems[place * (len(problems) - 1) // max(1, limit - 1)] for place in range(limit)]


def _counted(plan: Plan) -> dict[str, Any]:
    """Sample and grade what the store lacks; return the counts of verdicts by problem. The model is then unloaded."""
    audits = plan.audits if hasattr(plan.task, "audit") else None

    def counts(graded: Column | None, status: str) -> list[int]:
        assert graded is not None
        return [plan.store.rows(graded, each)["status"].to_pylist().count(status) for each in plan.questions]

    def counted() -> dict[str, Any]:
        strict = {"c_strict": counts(audits, "correct")} if audits else {}
        errors = sum(counts(plan.verdicts, "error"))
        return {"pool": plan.responses.key, "c": counts(plan.verdicts, "correct"), **strict, "errors": errors}

    columns = [column for column in (plan.vectors, plan.verdicts, audits) if column]
    with plan.store.used():
        ready(plan, columns)
        counts_by_problem = plan.maker.make(columns, plan.questions, counted, groups=GROUPS)
    _unload(plan.engine.built)
    return counts_by_problem


def _unload(engine: Engine) -> None:
    """Free the memory of an engine of this process: the next policy's needs it."""
    if hasattr(engine, "close"):
        engine.close()
    forget()


def _add_likelihoods(
    request: EvalRequest, evaluation: dict[str, Any], plans: Sequence[Plan], model: str, progress: Progress
) -> None:
    """Add to each policy the mean log-probability per token of each first response, under the initial model."""
    engine: Engine = plans[0].part("engine", request.engine or ENGINE, model=model).built
    if not hasattr(engine, "score"):
        progress.say(f"likelihoods: engine {request.engine!r} cannot score given responses: left out")
        return
    with progress.stage("score", len(plans) * len(plans[0].questions), "responses") as stage:
        for plan, result in zip(plans, evaluation["policies"], strict=True):
            result["likelihoods"] = values = []
            for question in plan.questions:
                response = responses_of(plan.store.rows(plan.responses, question)).first(1)
                tokens = int(response.lengths[0])
                total = engine.score(prompt(plan.task, engine, question.problem), response)[0] if tokens else 0.0
                values.append(float(f"{float(total) / tokens:.6g}") if tokens else None)
            stage.advance(len(plan.questions))


# The file. It may be a stranger's, or edited.


class PolicyFile(TypedDict):
    """What an evaluation's file must say of a policy: its name, and how many responses to each problem are correct."""

    bonus: str
    seed: NotRequired[int | None]
    c: list[int]
    c_strict: NotRequired[list[int]]
    likelihoods: NotRequired[list[float | None]]


class EvaluationFile(TypedDict):
    """What an evaluation's file must say: see `evaluate`."""

    kind: Literal["diversity-harness rl eval"]
    schema: Literal[1]
    task: str
    split: str
    model: str
    reward: NotRequired[str]
    n: Annotated[int, Field(ge=1, le=MOST)]
    problems: Annotated[list[str], Field(min_length=1)]
    policies: Annotated[list[PolicyFile], Field(min_length=1)]


def read(path: Path) -> dict[str, Any]:
    """Read an evaluation from its file, or from a folder that holds the file."""
    file, again = path / FILE if path.is_dir() else path, "write it again with `harness rl eval`"
    if not file.exists():
        raise HarnessError(f"rl eval: {file} is not there: `harness rl eval RUNS --out FOLDER` writes it")
    evaluation = json_text.shaped(json_text.read(file, "rl eval:", again), EvaluationFile, f"rl eval: {file}", again)
    for place, policy in enumerate(evaluation["policies"]):
        for counts in (policy["c"], policy.get("c_strict", policy["c"])):
            if len(counts) != len(evaluation["problems"]) or not all(0 <= c <= evaluation["n"] for c in counts):
                raise HarnessError(
                    f"rl eval: {file}: policies.{place} must count 0 to {evaluation['n']} correct responses of each of "
                    f"the {len(evaluation['problems'])} problems; {again}"
                )
    return dict(evaluation)


# Values for tables and figures.


@dataclass(frozen=True)
class Curve:
    """Unbiased pass@k (Chen et al. 2021) of one method's policies at k = 1 ... n: shares (policies, problems, n)."""

    bonus: str
    shares: Floats

    @property
    def seeds(self) -> int:
        return len(self.shares)

    @property
    def mean(self) -> Floats:
        """The mean over seeds and problems, (n,)."""
        return self.shares.mean(1).mean(0)

    @property
    def error(self) -> Floats | None:
        """The standard error over seeds, (n,); None for one seed."""
        return self.shares.mean(1).std(axis=0, ddof=1) / np.sqrt(self.seeds) if self.seeds > 1 else None


def graders(evaluation: Mapping[str, Any]) -> dict[str, str]:
    """Return an evaluation's graders, the stricter first: name -> the key of its counts in each of "policies"."""
    if all("c_strict" in policy for policy in evaluation["policies"]):
        return {"strict": "c_strict", "lenient": "c"}
    return {"verifier": "c"}


def curves(evaluation: Mapping[str, Any], grader: str | None = None) -> list[Curve]:
    """Return a curve per method, in the policies' order, by the counts of `grader`; None: the strictest."""
    n, counts = evaluation["n"], _counts(evaluation, grader)
    every = {method: np.array(each) for method, each in counts.items()}
    ks = range(1, n + 1)
    return [
        Curve(method, np.stack([random_pass_at_k(np.full(c.shape, n), c, k) for k in ks], axis=2))
        for method, c in every.items()
    ]


def _counts(evaluation: Mapping[str, Any], grader: str | None) -> dict[str, list[list[int]]]:
    """Each method's counts of correct responses by problem, a list per policy."""
    keys = graders(evaluation)
    counted = keys[grader] if grader else next(iter(keys.values()))
    counts: dict[str, list[list[int]]] = {}
    for policy in evaluation["policies"]:
        counts.setdefault(policy["bonus"], []).append(policy[counted])
    return counts


def fewer_samples(evaluation: Mapping[str, Any], grader: str | None = None) -> dict[str, dict[str, Factor]]:
    """Return method -> other method -> how many times fewer samples the first needs for the other's pass@n.

    The interval is over problems, of these trained models: other trainings would vary more. The paper's arrows are at
    n = 256. `grader` as in `curves`.
    """
    n = evaluation["n"]
    seed = int(json_text.digest([n, _counts(evaluation, grader)], 8), 16)
    every = {curve.bonus: curve_of(range(1, n + 1), curve.shares.mean(0), seed) for curve in curves(evaluation, grader)}
    return {
        ahead: {behind: factors(every[ahead], every[behind], [n])[0] for behind in every if behind != ahead}
        for ahead in every
    }


def rows(evaluation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row per grader and method: pass@k, its standard error, and how it compares with each other method.

    pass_at_k, standard_error   str(k) -> value, for k = 1, 2, 4, ... and n
    pass_at_k_ci                its interval, [low, high]; None where it is not known (`intervals`)
    gain_over, gain_over_ci     other method -> its pass@k subtracted from this one's, and the interval of that
    fewer_samples               other method -> how many times fewer samples this method needs: `curves.Factor`
    """
    n, ks = evaluation["n"], budgets(evaluation["n"])
    about = {name: evaluation.get(name) for name in ("task", "split", "reward")}

    def by_k(values: Any) -> dict[str, Any]:
        return {str(k): value for k, value in zip(ks, values, strict=True)}

    rows = []
    for grader in graders(evaluation):
        fewer, every, at = fewer_samples(evaluation, grader), curves(evaluation, grader), [k - 1 for k in ks]
        for curve in every:
            own, error = curve.shares[:, :, at], curve.error
            others = {other.bonus: other.shares[:, :, at] for other in every if other is not curve}
            gains = {method: (own.mean((0, 1)) - other.mean((0, 1))).tolist() for method, other in others.items()}
            rows.append(
                {
                    **about,
                    "grader": grader,
                    "bonus": curve.bonus,
                    "seeds": curve.seeds,
                    "problems": len(evaluation["problems"]),
                    "n": n,
                    "pass_at_k_ci": by_k(intervals(own)),
                    "gain_over": {method: by_k(gain) for method, gain in gains.items()},
                    "gain_over_ci": {method: by_k(intervals(own, other)) for method, other in others.items()},
                    "pass_at_k": by_k(curve.mean[at].tolist()),
                    "standard_error": None if error is None else by_k(error[at].tolist()),
                    "fewer_samples": {other: asdict(factor) for other, factor in fewer[curve.bonus].items()},
                }
            )
    return rows


def intervals(own: Floats, other: Floats | None = None) -> list[list[float] | None]:
    """Return [low, high] of the mean of `own`, less that of `other`, for each column.

    own, other  (seeds, problems, columns), of the same problems; the number of seeds may differ

    It is cut to what is possible. None for fewer than two problems, where nothing varies, and where it would be as wide
    as all that is possible: not known.
    """
    sides = [own] if other is None else [own, other]
    least = 0 if other is None else -1
    problems = own.shape[1]
    if problems < 2:
        return [None] * own.shape[2]
    paired = own.mean(0) - (0 if other is None else other.mean(0))  # (problems, columns)
    terms = [(paired.var(0, ddof=1) / problems, problems - 1)]
    terms += [(side.mean(1).var(0, ddof=1) / len(side), len(side) - 1) for side in sides if len(side) > 1]
    variance = np.sum([term for term, _ in terms], axis=0)
    shares = [(term / np.where(variance > 0, variance, 1)) ** 2 / df for term, df in terms]
    half = t.ppf((1 + LEVEL) / 2, 1 / np.sum(shares, axis=0).clip(1e-9)) * np.sqrt(variance)
    return [
        [float(f"{max(least, mean - h):.6g}"), float(f"{min(1, mean + h):.6g}")] if 1e-12 < 2 * h < 1 - least else None
        for mean, h in zip(paired.mean(0), half, strict=True)
    ]
