"""From options to a plan: build the components once, say which columns are wanted, check all that can fail cheaply.

Making a plan changes nothing on the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from harness.columns.column import Column, Part, Question, forget, paid, registry
from harness.columns.make import Maker
from harness.columns.orders import Choices, Orders
from harness.columns.responses import Imported, Sampled
from harness.columns.store import Store, count_rows
from harness.columns.stored import StoredResponses
from harness.columns.vectors import OwnVectors, Scores, Vectors, projection_of
from harness.columns.verdicts import Audits, Chance, GivenVerdicts, Verdicts
from harness.contracts import Charges, Engine, Executor, Measured, Ranker, Task
from harness.errors import HarnessError, Lacking, did_you_mean
from harness.plugin_system.calls import needs, require_selector
from harness.plugin_system.component import Spec, build, graded_as_the_paper, parse_spec, require_weights, weights_of
from harness.plugin_system.registry import Registry
from harness.pools.given import GivenVectors
from harness.pools.reading import IdTable, Joined, Joiner, Layouts, file_digest, pool_digest, remarks
from harness.records import Limits, Message, Problem, Weights
from harness.system import extras
from harness.system.json_text import digest, read_lines
from harness.system.progress import Progress

from .options import RunConfig

READER = "5"  # how files are read and joined: part of the key, so that a pool is imported anew when that changes
NAMED = 3  # unknown ids that a message lists

T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """A run's options, what is installed, its executor, store and progress, and its task.

    part_of_task  the task by its spec; None for a pool that brings its own problems, whose `task` is a bare one
    """

    config: RunConfig
    registry: Registry
    executor: Executor
    store: Store
    progress: Progress
    part_of_task: Part | None
    task: Task

    def part(self, kind: str, spec: str, **options: Any) -> Part:
        """The component of that kind and spec. `options`: further arguments of its factory, e.g. an engine's model."""
        return Part(kind, spec, tuple(options.items()), tuple(self.config.plugin_files))

    @property
    def engine(self) -> Part:
        """The config's engine with its model; a task's default model is not used if the engine asks a server."""
        factory = self.registry.find("engine", parse_spec(self.config.engine).name).load()
        default = None if getattr(factory, "served", False) else self.task.defaults.get("model")
        return self.part("engine", self.config.engine, model=self.config.model or default)

    @property
    def size(self) -> tuple[int, int]:
        """How many responses to a problem are to be sampled, and how many tokens one may have."""
        config, task, paper = self.config, self.task, self.paper
        return config.n or paper.get("n") or task.n, config.max_tokens or paper.get("max_tokens") or task.max_tokens

    @property
    def paper(self) -> Mapping[str, Any]:
        """The paper's pool settings, if the run is to have them."""
        return self.task.paper if self.config.paper else {}

    @property
    def models_here(self) -> bool:
        """Whether models run in this process."""
        return bool(getattr(self.executor, "models_here", False))


def make_context(config: RunConfig, progress: Progress) -> Context:
    """The context of a config; HarnessError for a task or executor that does not exist."""
    forget()
    plugins = tuple(config.plugin_files)
    if config.paper and config.task:
        config = replace(config, task=graded_as_the_paper(registry(plugins), config.task))
    data = None if config.data is None else str(config.data)
    part = Part("task", config.task, (("data", data),), plugins) if config.task else None
    task: Task = part.built if part else Task()
    executor: Executor = build(registry(plugins), "executor", config.executor)
    return Context(config, registry(plugins), executor, Store(config.store), progress, part, task)


@dataclass(frozen=True, kw_only=True)
class Plan(Context):
    """What a config asks for: the problems, the columns that they all have, and the orders of each selector.

    labels    what tables show: task, split, model, engine, sampler
    weights   the model weights used, by what they make: "pool", "embedding", "score", "verdict"
    controls  the orders of the controls that stand beside selectors by vectors, without those that the config names
    """

    questions: Sequence[Question]
    responses: Sampled | Imported | StoredResponses
    verdicts: Column | None
    vectors: Vectors | OwnVectors | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, Sequence[Weights]] = field(default_factory=dict)
    n: int | None = None
    scores: Scores | None = None
    orders: Mapping[str, Orders] = field(default_factory=dict)
    controls: Mapping[str, Orders] = field(default_factory=dict)

    @property
    def maker(self) -> Maker:
        """What makes columns of this plan."""
        return Maker(self.store, self.executor, self.progress)

    def choices(self, orders: Orders) -> Choices:
        """What one answer is worth, chosen by the scores that the selector may read too."""
        return Choices(self.responses, orders.verdicts, orders.scores, self.n)

    @property
    def audits(self) -> Audits | None:
        """The second grader's verdicts, if a task grades."""
        return Audits(self.part_of_task, self.responses) if self.part_of_task else None

    @property
    def chance(self) -> Chance | None:
        """The chance level; None if the task wants no such gradings, or the verdicts came with the pool."""
        if not isinstance(self.verdicts, Verdicts) or not self.task.chance_gradings:
            return None
        problems = [question.problem for question in self.questions]
        among = digest([[question.problem.id, question.graded] for question in self.questions])
        return Chance(self.verdicts.task, self.responses, self.n, among, problems)

    @property
    def common(self) -> list[Column]:
        """The columns that all selectors share, in the order in which they are made."""
        checked = [self.audits, self.chance] if self.config.audit else []
        return [column for column in (self.vectors, self.scores, self.verdicts, *checked) if column]

    @property
    def all_weights(self) -> list[Weights]:
        """The weights of all columns, each once."""
        return list(dict.fromkeys(each for stage in self.weights.values() for each in stage))

    def rows(self, question: Question) -> int:
        """The number of responses to a problem, those that are still to be sampled or imported included."""
        if path := self.store.path(self.responses, question):
            return count_rows(path)
        if isinstance(self.responses, Sampled):
            return self.responses.n
        return int(question.problem.meta.get("responses", 0))


def prompt(task: Task, engine: Engine | None, problem: Problem) -> list[Message]:
    """The prompt of a problem: a chat, or plain text to continue if the model has no chat template."""
    if getattr(engine, "chats", True):
        return task.messages(problem)
    return [{"role": "user", "content": task.plain(problem)}]


def only(path: Path | None, items: Sequence[T], id_of: Callable[[T], str], where: str) -> list[T]:
    """The items whose ids a file of `--only` names, in the items' order; all of them without a file.

    {"problem_id": "algebra/test-17", ...}      one line a problem (`harness pool hardest` writes such files)

    HarnessError where a line has no id, where there is no line, and for an id that no item has; `where` says what the
    items are.
    """
    if path is None:
        return list(items)
    ids = dict[str, None]()
    for line in read_lines(path, "--only"):
        problem_id = line.value.get("problem_id")
        if not isinstance(problem_id, str):
            raise HarnessError(f"{line.where}: problem_id must be a string, got {problem_id!r:.60}")
        ids[problem_id] = None
    if not ids:
        raise HarnessError(f"--only {path}: names no problem")
    if unknown := sorted(set(ids) - {id_of(item) for item in items}):
        listed = ", ".join(map(repr, unknown[:NAMED])) + (", ..." if len(unknown) > NAMED else "")
        raise HarnessError(
            f"--only {path}: {len(unknown)} of {len(ids)} ids are not in {where} ({listed}): "
            "give the --task, --data and --split that they are from"
        )
    return [item for item in items if id_of(item) in ids]


def make_plan(
    config: RunConfig, progress: Progress, with_verdicts: bool = True, context: Context | None = None
) -> Plan:
    """The plan of a run; HarnessError if the config cannot be carried out, with all that is missing.

    Without `with_verdicts` a pool file needs no grader; verdicts that it brings are planned.
    """
    context = context or make_context(config, progress)
    selectors = {spec: context.part("selector", spec) for spec in config.selectors}
    for spec, part in selectors.items():
        require_selector(spec, part.built)
    wants_vectors = any("embeddings" in needs(part.built) for part in selectors.values())
    try:
        if config.pool:
            plan = _imported_plan(context, wants_vectors, with_verdicts)
        else:
            plan = _sampling_plan(context, wants_vectors)
        if config.scorer:
            scorer = context.part("scorer", config.scorer)
            weights = {**plan.weights, "score": weights_of([scorer.built])}
            plan = replace(plan, scores=Scores(scorer, plan.responses), weights=weights)
        plan = replace(plan, orders={spec: _orders(plan, part) for spec, part in selectors.items() if plan.verdicts})
        if wants_vectors and plan.verdicts:
            controls = {}
            for spec in [spec for spec in context.registry.controls if spec not in selectors]:
                with suppress(HarnessError):  # one that cannot be built is left out
                    part = context.part("selector", spec)
                    require_selector(spec, part.built)
                    controls[spec] = _orders(plan, part)
            plan = replace(plan, controls=controls)
        used: dict[str, Any] = {f"executor {config.executor}": plan.executor}  # components with something to make
        for column in (plan.responses, plan.vectors, plan.scores, *plan.orders.values()):
            if column and plan.store.missing(column, plan.questions):
                parts = [part for part in vars(column).values() if isinstance(part, Part) and part.kind != "task"]
                used |= {f"{part.kind} {part.spec}": part.built for part in parts}
        require_libraries(used)
        pool = plan.responses
        if isinstance(pool, Sampled) and plan.store.missing(pool, plan.questions):
            chats = [question.chat for question in plan.questions]
            if remark := pool.engine.built.check(chats, pool.max_tokens):  # last: with a server it costs a response
                progress.say(remark)
    except HarnessError as failure:
        raise _together(failure, context, selectors) from failure
    return plan


def _orders(plan: Plan, selector: Part) -> Orders:
    assert plan.verdicts is not None
    config, reads = plan.config, needs(selector.built)
    vectors = plan.vectors if "embeddings" in reads else None
    scores = plan.scores if "scores" in reads else None
    made_from = plan.responses, plan.verdicts, vectors, scores
    settings = plan.n, config.trials, config.seed, config.rank_timeout
    unit, keeps = config.unit and vectors is not None, config.enrichment and isinstance(selector.built, Ranker)
    return Orders(selector, *made_from, *settings, unit=unit, correct=config.correct, enrichment=keeps)


def _sampling_plan(context: Context, wants_vectors: bool) -> Plan:
    config, task, paper = context.config, context.task, context.paper
    assert context.part_of_task is not None  # the config has checked it
    engine = context.engine
    built: Engine = engine.built
    weights = _weights(context, task, built)
    require_weights([each for every in weights.values() for each in every])
    changes = {key: str(value) for key, value in paper.get("sampler", {}).items()}
    sampler = context.part("sampler", str(parse_spec(config.sampler) if config.sampler else Spec("vanilla", changes)))
    if getattr(sampler.built, "steers", False) and not built.steers:
        raise HarnessError(f"engine {config.engine!r} cannot follow sampler {sampler.spec!r}, which steers decoding")
    problems, split = _problems(context, built.name)
    continues = not getattr(built, "chats", True) and getattr(built, "stops", False)
    stop = tuple(task.stop) if continues and task.stop else None
    responses = Sampled(task.pools_as or config.task or "", engine, sampler, *context.size, config.seed, stop=stop)
    charge(context, responses)
    # Hidden states come with the sampling pass at no cost, so they are kept: the next selector may need them.
    embeds = config.embedder or wants_vectors or "mean" in built.states
    return Plan(
        **vars(context),
        questions=[Question(problem, tuple(prompt(task, built, problem))) for problem in problems],
        responses=responses,
        verdicts=Verdicts(context.part_of_task, responses),
        vectors=_vectors(context, config.embedder or "hidden-mean", responses, engine) if embeds else None,
        labels={
            "task": config.task or "",
            "split": split,
            "model": built.name,
            "engine": parse_spec(config.engine).name,
            "sampler": sampler.spec,
        },
        weights=weights,
    )


def _problems(context: Context, model: str) -> tuple[list[Problem], str]:
    """The problems of a run that samples, and their split."""
    config, task = context.config, context.task
    chosen = config.split or context.paper.get("split")
    split, remark = (chosen, "") if chosen else task.default_split(model)
    if remark:
        context.progress.say(remark)
    where = f"split {split!r} of task {config.task!r}"
    problems = only(config.only, _of_split(context, split), lambda problem: problem.id, where)[: config.limit]
    if not problems:
        raise HarnessError(f"task {config.task!r}: split {split!r} has no problems")
    return problems, split


def _imported_plan(context: Context, wants_vectors: bool, with_verdicts: bool) -> Plan:
    """A plan over the responses of a pool file, which are brought into the store once."""
    config, task, progress = context.config, context.task, context.progress
    split, candidates, joined = joined_file(context)
    responses = Imported(
        pool_digest(joined.path, joined.layouts),
        task.pools_as or config.task or "",
        digest([READER, split, config.ids and file_digest(config.ids), joined.layouts.in_key(joined.path)]),
        joined,
    )
    index = responses.kept_index(context.store.root)
    if index is None:  # what the file says of each problem; kept beside the pool once it is imported
        with progress.waiting(f"reading {joined.path}"):
            deque(joined, maxlen=0)
        index = joined.index()
    for line in remarks(index):
        progress.say(line)
    entries = only(config.only, index["entries"], itemgetter("id"), f"pool {joined.path}")[: config.limit]
    if not config.task:
        candidates = [Problem(entry["id"], entry["prompt"], entry["reference"]) for entry in entries]
    given = _given(context, entries, with_verdicts)
    verdicts: Column | None = None
    if given:
        verdicts = GivenVerdicts(context.part_of_task, responses)
    elif context.part_of_task:
        verdicts = Verdicts(context.part_of_task, responses)
    vectors: Vectors | OwnVectors | None = None
    engine = None
    if config.embeddings:
        file = GivenVectors(config.embeddings, {each["id"]: each["line"] for each in entries}, config.max_vectors_gb)
        vectors = OwnVectors(file_digest(file.path), responses, config.dim, config.seed, file)
    elif wants_vectors or config.embedder:
        spec = pool_embedder(config, progress)
        engine = context.engine if context.part("embedder", spec).built.state else None
        vectors = _vectors(context, spec, responses, engine)
    by_id, questions = {problem.id: problem for problem in candidates}, []
    for entry in entries:
        problem = by_id[entry["id"]]
        problem = replace(problem, meta={**problem.meta, "line": entry["line"], "responses": entry["n"]})
        questions.append(Question(problem, tuple(prompt(task, engine.built if engine else None, problem))))
    pool_labels = {"split": "pool", "model": joined.path.name.split(".")[0], "engine": "pool", "sampler": "pool"}
    return Plan(
        **vars(context),
        questions=questions,
        responses=responses,
        verdicts=verdicts,
        vectors=vectors,
        labels={"task": config.task or "pool", **pool_labels},
        n=_common_size(config, entries) if with_verdicts else None,
        weights=_weights(context, None if given else task),
    )


def _of_split(context: Context, split: str) -> list[Problem]:
    task = context.task
    if split not in task.splits:
        raise HarnessError(
            f"task {context.config.task!r}: no split {split!r} {did_you_mean(split, task.splits, 'splits')}"
        )
    return list(task.problems(split))


def joined_file(context: Context) -> tuple[str, list[Problem], Joined]:
    """The split that the config's pool is joined to, its problems ([] without a task), and the file's lines."""
    config, path = context.config, context.config.pool
    assert path is not None
    if not path.exists():
        raise HarnessError(f"pool {path}: no such file")
    if config.ids and not config.task:
        raise HarnessError(f"ids {config.ids}: it maps the pool's lines to a task's problems: say which --task")
    ids = IdTable(config.ids) if config.ids else None
    layouts = Layouts(context.registry, context.progress.say, config.of_layouts)
    if not config.task:
        return config.split or "", [], Joined(path, None, layouts)
    split = config.split or context.task.default_split("")[0]
    candidates = _of_split(context, split)
    return split, candidates, Joined(path, Joiner(context.task, candidates, ids), layouts)


def _given(context: Context, entries: Sequence[Mapping[str, Any]], needed: bool) -> bool:
    """Whether the pool's own verdicts count: if every response has one, unless --regrade asks the task's verifier.

    HarnessError if neither the pool nor a task gives verdicts, and they are needed.
    """
    config = context.config
    is_measured = isinstance(context.task, Measured) and all(entry.get("figures") for entry in entries)
    without = [] if is_measured else [entry["line"] for entry in entries if not entry["graded"]]
    if needed and not config.task and without:
        some = f"{len(without)} of {len(entries)} problems, the first of them {without[0]!r:.80}, have"
        who = "it has" if len(without) == len(entries) else some
        raise HarnessError(f"pool {config.pool}: {who} no verdicts (`correct`): add them, or say which --task grades")
    given = not without and not (config.regrade and config.task)
    if given:
        whose = "by the pool's own plddt and ptm" if is_measured else "the pool's own (`correct`)"
        context.progress.say(f"verdicts: {whose}" + ("; --regrade grades anew" if config.task else ""))
    return given


def _common_size(config: RunConfig, entries: Sequence[Mapping[str, Any]]) -> int | None:
    """How many responses of each problem count: `--n`, else None for all."""
    smallest = min(entries, key=itemgetter("n"))
    if config.n and config.n > smallest["n"]:
        raise HarnessError(
            f"--n {config.n} is more than pool {config.pool} holds: {smallest['id']!r} has {smallest['n']} responses"
        )
    return config.n


def pool_embedder(config: RunConfig, progress: Progress) -> str:
    """The embedder for a pool file: the config's, else the model's states, else TF-IDF, with a line that says so."""
    if not config.embedder and not config.model:
        progress.say("embedder: tfidf, since the pool has neither --embeddings nor --model")
    return config.embedder or ("hidden-mean" if config.model else "tfidf")


def _vectors(context: Context, spec: str, responses: Column, engine: Part | None) -> Vectors:
    """The column of an embedder's vectors, with the engine whose hidden states it reads, if it reads any."""
    config, embedder = context.config, context.part("embedder", spec)
    state = embedder.built.state
    if state and engine and state not in engine.built.states:
        raise HarnessError(
            f"embedder {spec!r} needs the model's hidden states, which engine {config.engine!r} does not give: "
            "choose another --embedder, e.g. sentence or tfidf"
        )
    return Vectors(
        embedder, responses, engine if state else None, *projection_of(embedder.built, config.dim, config.seed)
    )


def charge(context: Context, pool: Sampled) -> None:
    """Tell an engine that costs money what the pool may cost; HarnessError if the engine or the executor cannot."""
    config, engine = context.config, pool.engine.built
    if not isinstance(engine, Charges):
        if config.charges:
            raise HarnessError(
                f"run: {config.charges} goes with an engine that pays for tokens (openai), not with "
                f"{parse_spec(config.engine).name!r}"
            )
        return
    engine.charge(Limits(paid(context.store.root, pool), config.max_cost, config.max_tokens_total))
    if engine.is_charged and not context.models_here:
        raise HarnessError(
            "run: money is counted in one process: leave out --executor, or --max-cost, --max-tokens-total and "
            "the prices (`concurrency` of engine openai says how many requests are in flight)"
        )


def _weights(context: Context, grading: Task | None, engine: Engine | None = None) -> dict[str, list[Weights]]:
    """The model weights of each column."""
    embedder = context.part("embedder", context.config.embedder).built if context.config.embedder else None
    parts = {"pool": engine, "embedding": embedder, "verdict": grading}
    return {name: weights_of([part]) for name, part in parts.items() if part}


def require_libraries(components: Mapping[str, Any]) -> None:
    """Raise HarnessError, one line, if libraries of these components (by names like "selector rnd") are missing."""
    extras.require_all({who: getattr(part, "libraries", ()) for who, part in components.items()})


def _together(first: HarnessError, context: Context, selectors: Mapping[str, Part]) -> HarnessError:
    """An error that says what else stands in the way of a run whose planning failed; `first` itself if nothing does."""
    config, task = context.config, context.task if context.config.task else None
    embedder = context.part("embedder", config.embedder).built if config.embedder else None
    runs_model = not config.pool or bool(config.model) or bool(getattr(embedder, "state", None))
    engine = context.engine.built if task and runs_model else None
    components: dict[str, Any] = {f"selector {spec}": part.built for spec, part in selectors.items()}
    components |= {f"embedder {config.embedder}": embedder, f"engine {config.engine}": engine}
    weights = weights_of(filter(None, (engine, embedder, None if config.pool else task)))
    weights = [each for each in weights if str(each) not in str(first)]  # named once
    checks: list[Callable[[], Any]] = [lambda: require_libraries(components), lambda: require_weights(weights)]
    if engine and not weights_of([engine]) and not extras.missing(getattr(engine, "libraries", ())):
        checks.append(engine.identity)  # of a model on the hub too, whose weights have no other name
    if task:
        checks.append(lambda: _of_split(context, config.split or task.default_split("")[0]))
    faults, grades = {str(first): first}, task and not config.pool and not hasattr(task, "weights")
    for check in checks:
        try:
            check()
        except HarnessError as failure:
            faults.setdefault(str(failure), failure)
    try:
        if task and grades:
            task.check(unsafe_exec=config.unsafe_exec)
    except HarnessError as failure:
        faults.setdefault(str(failure), Lacking(str(failure)))
    if len(faults) == 1:
        return first
    listed = "; ".join(f"({number}) {fault}" for number, fault in enumerate(faults, 1))
    kind = Lacking if all(isinstance(fault, Lacking) for fault in faults.values()) else HarnessError
    return kind(f"{len(faults)} things stand in the way: {listed}")
