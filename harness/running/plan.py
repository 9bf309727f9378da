"""From a config to a plan: every component built, every key computed, everything that can fail cheaply checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.contracts import Embedder, Engine, Task
from harness.errors import HarnessError, did_you_mean
from harness.plugin_system import licences
from harness.plugin_system.component import Spec, parameters, parse_spec
from harness.plugin_system.licences import Weights
from harness.pools.given import GivenVectors, file_digest
from harness.records import Message, Problem, Sampler
from harness.stages.sample import Drawing, Group, Models, identity
from harness.stages.work import Work
from harness.store import missing_rows, shards
from harness.store.shards import digest
from harness.system.progress import Progress
from harness.upkeep import older_pools as older
from harness.upkeep.older_pools import Older

from . import hardest
from .config import RunConfig
from .context import Setting, make_setting
from .importing import import_pool, import_responses

STEERED = 16  # rows that a problem counts for under a sampler that steers, which looks at many tokens a step


@dataclass(frozen=True)
class Sampling:
    """How the pool is drawn."""

    engine: Engine
    sampler: Sampler
    n: int
    max_tokens: int

    def problems_per_call(self, rows: int) -> int:
        """How many problems the engine takes best at once, each with so many rows.

        A sampler that steers draws a problem's rows one after another: only many problems make a batch.
        """
        return self.engine.problems_per_call(min(rows, STEERED) if self.steered else rows)

    @property
    def steered(self) -> bool:
        """Whether the sampler steers decoding itself."""
        return bool(getattr(self.sampler, "steers", False))


@dataclass(frozen=True)
class Plan:
    """All that the stages work on. Stages are keyed; a shard that is there is not made again.

    work        what every worker needs; `work.embeddings` is None where there are no vectors
    labels      what tables show: task, split, model, engine, sampler, embedder
    sampling    None where the responses exist already
    engine      the engine whose hidden states are the vectors; None where none is needed
    embedder    None where vectors are given or not needed
    weights     what each stage stands on: "pool", "embedding", "verdict"
    older       pools of an older version whose responses are taken over
    """

    setting: Setting
    task: Task
    problems: Sequence[Problem]
    work: Work
    labels: Mapping[str, str]
    sampling: Sampling | None = None
    engine: Engine | None = None
    embedder: Embedder | None = None
    given: GivenVectors | None = None
    weights: Mapping[str, Sequence[Weights]] = field(default_factory=dict)
    older: Sequence[Older] = ()

    @property
    def config(self) -> RunConfig:
        """What was asked for."""
        return self.setting.config

    def prompts(self, problems: Sequence[Problem]) -> list[list[Message]]:
        """The problems as chats; as one plain text each for a model without a chat template."""
        engine = self.sampling.engine if self.sampling else self.engine
        return [prompt(self.task, engine, problem) for problem in problems]

    @property
    def drawing(self) -> Drawing:
        """What a worker needs to draw and to embed."""
        config, sampling = self.config, self.sampling
        engine = sampling.engine if sampling else self.engine
        return Drawing(
            work=self.work,
            engine=config.engine if engine else None,
            model=self.setting.model(self.task),
            sampler=self.labels["sampler"] if sampling else None,
            embedder=self.labels["embedder"] if self.embedder else None,
            n=sampling.n if sampling else 0,
            max_tokens=sampling.max_tokens if sampling else 0,
            dim=config.dim,
            identities={"engine": identity(engine), "embedder": identity(self.embedder)},
        )

    @property
    def models(self) -> Models:
        """What draws and embeds in this process."""
        sampling = self.sampling
        engine = sampling.engine if sampling else self.engine
        return Models(engine, sampling.sampler if sampling else None, self.embedder)

    def group(self, problems: Sequence[Problem]) -> Group:
        """The problems as they go to the engine together."""
        return Group(problems, self.prompts(problems))

    def begin(self) -> None:
        """Make the stages' folders, so that a store that cannot be written is found before the first token."""
        rankings = [self.for_selector(selector).rankings for selector in self.config.selectors]
        audits = self.work.audits if self.config.audit else None
        for stage in (self.work.pool, self.work.embeddings, self.work.verdicts, self.work.graded, audits, *rankings):
            if stage:
                stage.begin()
        if hasattr(self.setting.executor, "begin"):
            self.setting.executor.begin(self.work.pool.folder, self.work.plugin_files)

    def show_weights(self, progress: Progress) -> None:
        """Say whose weights the run stands on, and keep it beside the manifests."""
        found = list(dict.fromkeys(one for named in self.weights.values() for one in named))
        if found:
            progress.say(licences.remark(found))
        stages = {"pool": self.work.pool, "embedding": self.work.embeddings, "verdict": self.work.verdicts}
        for name, stage in stages.items():
            if stage and self.weights.get(name):
                _keep_weights(stage.folder / "weights.json", [one.row() for one in self.weights[name]])

    def check_grader(self) -> None:
        """Find out whether this machine can grade, where something is to be graded."""
        if self.work.verdicts.missing(self.problems) or missing_rows.waiting(self.work.pool, self.problems):
            remark = self.task.check(unsafe_exec=self.config.unsafe_exec)
            if remark:
                self.setting.progress.say(remark)

    def for_selector(self, selector: str) -> Work:
        """The work of ranking with that selector, under its own key."""
        component = self.setting.build("selector", selector)
        embeddings = self.work.embeddings if "embeddings" in needs(component) else None
        inputs = {
            "pool": self.work.pool.key,
            "verdict": self.work.verdicts.key,
            "embedding": embeddings.key if embeddings else None,
            "selector": self.setting.described("selector", selector, component),
            "n": self.work.n,
            "trials": self.config.trials,
            "seed": self.config.seed,
        }
        rankings = self.setting.store.stage("ranking", inputs, ".json")
        return replace(self.work, selector=selector, rankings=rankings, embeddings=embeddings)


def _keep_weights(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write them unless they are there: a store whose stages are whole may be one that can only be read."""
    with suppress(HarnessError):
        if path.exists() and shards.read_json(path) == rows:
            return
    shards.write_json(path, rows)


def prompt(task: Task, engine: Engine | None, problem: Problem) -> list[Message]:
    """A problem as the engine's model is asked it: as a chat, or, where it has no chat template, as text to go on."""
    if getattr(engine, "chats", True):
        return task.messages(problem)
    return [{"role": "user", "content": task.plain(problem)}]


def make_plan(config: RunConfig, progress: Progress, with_verdicts: bool = True) -> Plan:
    """The plan of a run; HarnessError, one line, for whatever is wrong with what was asked.

    Without `with_verdicts` a pool made elsewhere is planned as far as its vectors, and nobody asks who grades it.
    """
    setting = make_setting(config, progress)
    selectors = {spec: setting.build("selector", spec) for spec in config.selectors}
    for spec, selector in selectors.items():
        check_selector(spec, selector)
    wants_vectors = any("embeddings" in needs(selector) for selector in selectors.values())
    if config.pool:
        return _pool_plan(setting, wants_vectors, with_verdicts)
    assert setting.task is not None  # the config has checked it
    return _sampling_plan(setting, setting.task, wants_vectors)


def needs(selector: Any) -> Sequence[str]:
    """The columns that a selector reads beyond texts, lengths and answers; vectors, unless it says otherwise."""
    columns: Sequence[str] = getattr(selector, "needs", ("embeddings",))
    return columns


def check_selector(spec: str, selector: Any) -> None:
    """Raise HarnessError unless it orders or selects, and needs columns that there are."""
    if not hasattr(selector, "rank") and not hasattr(selector, "select"):
        raise HarnessError(f"selector {spec!r}: has neither rank(pool, rng) nor select(pool, k, rng)")
    unknown = set(needs(selector)) - {"embeddings", "logprobs"}
    if unknown:
        raise HarnessError(f"selector {spec!r}: needs {sorted(unknown)}; it can need 'embeddings' and 'logprobs'")


def _sampling_plan(setting: Setting, task: Task, wants_vectors: bool) -> Plan:
    config = setting.config
    engine = setting.engine(task)
    weights = _weights(setting, task, engine)
    sampler_spec = _sampler_spec(config, task)
    sampling = _sampling(setting, task, engine, sampler_spec)
    problems, split = _problems(setting, task, engine.name)
    inputs = {
        "task": {"name": task.pools_as or config.task, "revision": task.revision},
        "prompt": digest(prompt(task, engine, problems[0])),
        "engine": dict(engine.identity()),
        "sampler": _sampler_key(setting, sampler_spec, sampling.sampler),
        "n": sampling.n,
        "max_tokens": sampling.max_tokens,
        "seed": config.seed,
    }
    plan = Plan(
        setting=setting,
        task=task,
        problems=problems,
        work=setting.work(task, setting.store.stage("pool", inputs, ".parquet")),
        labels={
            "task": config.task or "",
            "split": split,
            "model": engine.name,
            "engine": parse_spec(config.engine).name,
            "sampler": str(sampler_spec),
            "embedder": "none",
        },
        sampling=sampling,
        weights=weights,
    )
    # States come with the sampling pass, so they are taken unasked: the next selector may need them.
    if config.embedder or wants_vectors or "mean" in engine.states:
        plan = _with_embedder(plan, config.embedder or "hidden-mean", engine)
    if not config.until_correct:  # such a run has no pool
        plan = replace(plan, older=older.pools(plan.work.pool, problems, config.adopt or ()))
    _check_engine(plan, sampling)
    return plan


def _weights(setting: Setting, grading: Task | None, engine: Engine | None = None) -> dict[str, list[Weights]]:
    """Whose weights the stages stand on; where some are missing, what there is to do is said and all are named."""
    config = setting.config
    embedder = setting.build("embedder", config.embedder) if config.embedder else None
    found = {"pool": engine, "embedding": embedder, "verdict": grading}
    weights = {name: licences.of([one]) for name, one in found.items() if one is not None}
    every = licences.of(one for one in found.values() if one is not None)
    if engine is not None and grading is not None and any(one.fetch for one in every):
        paper = grading.paper if config.paper else {}
        problems, _ = _problems(setting, grading, "")
        said = grading.outlook(problems, config.n or paper.get("n") or grading.n)
        if said:
            setting.progress.say(said)
        licences.require(every)
    return weights


def _check_engine(plan: Plan, sampling: Sampling) -> None:
    """Ask the engine whether it can, where something is to be drawn; last, since on a server that costs a response."""
    adopted = {name for pool in plan.older for name in pool.shards}
    if missing_rows.to_draw(plan.work.pool, [problem for problem in plan.problems if problem.id not in adopted]):
        remark = sampling.engine.check(plan.prompts(plan.problems), sampling.max_tokens)
        if remark:
            plan.setting.progress.say(remark)


def _pool_plan(setting: Setting, wants_vectors: bool, with_verdicts: bool) -> Plan:
    """A plan over responses that exist already: the file is imported into the store, once."""
    config = setting.config
    imported = import_pool(setting) if with_verdicts else import_responses(setting)
    assert config.pool is not None
    labels = {"task": config.task or "pool", "split": "pool", "model": config.pool.name.split(".")[0]}
    labels |= {"engine": "pool", "sampler": "pool", "embedder": "none"}
    plan = Plan(
        setting=setting,
        task=imported.task,
        problems=imported.problems,
        work=imported.work,
        labels=labels,
        weights=_weights(setting, None if imported.work.verdicts.inputs["given"] else imported.task),
    )
    if config.embeddings:
        given = GivenVectors(config.embeddings, imported.lines, config.max_vectors_gb)
        plan = replace(plan, given=given, labels=labels | {"embedder": config.embeddings.name})
        return _with_embeddings(plan, {"given": file_digest(given.path)})
    if not wants_vectors and not config.embedder:
        return plan
    return _with_embedder(plan, pool_embedder(config, setting.progress), None)


def pool_embedder(config: RunConfig, progress: Progress) -> str:
    """The embedder of a pool made elsewhere: as asked for, else the model's states, else (which is said) TF-IDF."""
    if not config.embedder and not config.model:
        progress.say("embedder: tfidf, since the pool has neither --embeddings nor --model")
    return config.embedder or ("hidden-mean" if config.model else "tfidf")


def _with_embedder(plan: Plan, spec: str, engine: Engine | None) -> Plan:
    """The plan with that embedder, and with the engine whose states it takes, if it takes any."""
    config, setting = plan.config, plan.setting
    embedder: Embedder = setting.build("embedder", spec)
    inputs: dict[str, Any] = {"embedder": setting.described("embedder", spec, embedder)}
    if hasattr(embedder, "identity"):
        inputs["model"] = dict(embedder.identity())
    if not embedder.state:
        engine = None
    else:
        engine = engine or setting.engine(plan.task)
        if embedder.state not in engine.states:
            raise HarnessError(
                f"embedder {spec!r} needs the model's hidden states, which engine {config.engine!r} does not give: "
                "choose another --embedder, e.g. sentence or tfidf"
            )
        inputs["engine"] = dict(engine.identity())
    plan = replace(plan, embedder=embedder, engine=engine, labels={**plan.labels, "embedder": spec})
    return _with_embeddings(plan, inputs)


def _with_embeddings(plan: Plan, inputs: Mapping[str, Any]) -> Plan:
    """The plan with its embedding stage: pool, embedder, width and projection seed make the key."""
    key = {"pool": plan.work.pool.key, "dim": plan.config.dim, "projection_seed": plan.config.seed, **inputs}
    stage = plan.setting.store.stage("embedding", key, ".safetensors")
    return replace(plan, work=replace(plan.work, embeddings=stage))


def _sampler_spec(config: RunConfig, task: Task) -> Spec:
    """The sampler as asked for; else, with --paper, vanilla with the paper's changes for the task; else vanilla."""
    if config.sampler:
        return parse_spec(config.sampler)
    changes = task.paper.get("sampler", {}) if config.paper else {}
    return Spec("vanilla", {key: str(value) for key, value in changes.items()})


def _sampling(setting: Setting, task: Task, engine: Engine, spec: Spec) -> Sampling:
    """Sampler and sizes: as asked, else (with --paper) as the paper's, else the task's small defaults."""
    config = setting.config
    sampler = setting.build("sampler", spec)
    if getattr(sampler, "steers", False) and not engine.steers:
        raise HarnessError(f"engine {config.engine!r} cannot follow sampler {str(spec)!r}, which steers decoding")
    paper = task.paper if config.paper else {}
    n = config.n or paper.get("n") or task.n
    return Sampling(engine, sampler, n, config.max_tokens or paper.get("max_tokens") or task.max_tokens)


def _sampler_key(setting: Setting, spec: Spec, sampler: Sampler) -> dict[str, Any]:
    """All that a sampler does is in its parameters, unless it steers: then its code counts as any component's."""
    if not getattr(sampler, "steers", False):
        return parameters(sampler)
    return {"name": spec.name, **parameters(sampler), "code": setting.described("sampler", str(spec), sampler)["code"]}


def _problems(setting: Setting, task: Task, model: str) -> tuple[list[Problem], str]:
    config = setting.config
    asked = config.split or (task.paper.get("split") if config.paper else None)
    split, remark = (asked, "") if asked else task.default_split(model)
    if remark:
        setting.progress.say(remark)
    if split not in task.splits:
        raise HarnessError(f"task {config.task!r}: no split {split!r} {did_you_mean(split, task.splits)}")
    where = f"split {split!r} of task {config.task!r}"
    every = list(task.problems(split))
    problems = hardest.only(config.only, every, lambda problem: problem.id, where)[: config.limit]
    if not problems:
        raise HarnessError(f"task {config.task!r}: split {split!r} has no problems")
    return problems, split
