"""A plan: components built once, keyed stages, what workers need, what tables show. `planning` makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.contracts import Embedder, Engine, KnowsItsSize, LearnsFromOutcomes, Scorer, SeesFolders, Selector
from harness.errors import HarnessError
from harness.plugin_system.component import Spec, weights_remark
from harness.plugin_system.picks import needs
from harness.pools.given import GivenVectors
from harness.records import Message, Problem, Sampler, SampleRequest, Weights
from harness.stages.model_work import Group, Models, ModelWork, identity
from harness.stages.work import Work, problem_seed
from harness.store import missing_rows, shards
from harness.store.json_files import read_json, write_json
from harness.store.stage import Stage
from harness.system.progress import Progress
from harness.task import Task

from .config import RunConfig
from .context import Context
from .importing import ImportedPool
from .older_pools import Older

STEERED = 16  # a problem counts as so many rows under a sampler that steers, which reads many tokens a step
FLOAT32 = 4  # bytes


@dataclass(frozen=True)
class Sampling:
    """How responses are sampled."""

    engine: Engine
    sampler: Sampler
    spec: Spec  # the sampler's
    n: int
    max_tokens: int

    def problems_per_call(self, rows: int) -> int:
        """The number of problems, each with so many rows, that suits the engine best in one call.

        A sampler that steers takes a problem's rows one after another, so only many problems make a batch.
        """
        return self.engine.problems_per_call(min(rows, STEERED) if self.steered else rows)

    @property
    def steered(self) -> bool:
        """Whether the sampler steers decoding itself."""
        return bool(getattr(self.sampler, "steers", False))


@dataclass(frozen=True)
class Vectors:
    """The source of the vectors: an embedder, with the engine whose hidden states it reads (if any), or a file."""

    spec: str
    embedder: Embedder | None = None
    engine: Engine | None = None
    given: GivenVectors | None = None


@dataclass(frozen=True)
class Plan:
    """All that the stages work on. Stages are keyed: a shard that the store has is not made again.

    work        what every worker needs; `work.embeddings` is None where there are no vectors
    labels      what tables show: task, split, model, engine, sampler
    selectors   by spec, built
    sampling    None for a pool file
    imported    a pool file, which a stage imports; None where responses are sampled
    vectors     where the vectors come from; None where there are none. A sampling run may also store vectors that
                no selector reads
    scorer      what gives responses scores; None if the config names none
    weights     the model weights used, by stage: "pool", "embedding", "score", "verdict"
    older       pools of an older version whose responses are taken over
    more_states (kind of state, its stage of vectors) that the sampling pass keeps for other runs of a grid
    """

    context: Context
    task: Task
    problems: Sequence[Problem]
    work: Work
    labels: Mapping[str, str] = field(default_factory=dict)
    selectors: Mapping[str, Selector] = field(default_factory=dict)
    sampling: Sampling | None = None
    imported: ImportedPool | None = None
    vectors: Vectors | None = None
    scorer: Scorer | None = None
    weights: Mapping[str, Sequence[Weights]] = field(default_factory=dict)
    older: Sequence[Older] = ()
    more_states: Sequence[tuple[str, Stage]] = ()

    @property
    def config(self) -> RunConfig:
        """The options of the run."""
        return self.context.config

    @property
    def engine(self) -> Engine | None:
        """The engine that samples or computes hidden states; None if none is needed."""
        if self.sampling:
            return self.sampling.engine
        return self.vectors.engine if self.vectors else None

    @property
    def embedder(self) -> str:
        """The vectors as tables name them: the embedder's spec, the name of a file, or "none"."""
        return self.vectors.spec if self.vectors else "none"

    def prompts(self, problems: Sequence[Problem]) -> list[list[Message]]:
        """The problems as chats, or each as one plain text for a model without a chat template."""
        return [prompt(self.task, self.engine, problem) for problem in problems]

    @property
    def model_work(self) -> ModelWork:
        """What a worker needs to sample, to embed and to score."""
        sampling, embedder = self.sampling, self.vectors.embedder if self.vectors else None
        return ModelWork(
            work=self.work,
            engine=self.config.engine if self.engine else None,
            model=self.context.model(self.task),
            sampler=str(sampling.spec) if sampling else None,
            embedder=self.vectors.spec if self.vectors and embedder else None,
            n=sampling.n if sampling else 0,
            max_tokens=sampling.max_tokens if sampling else 0,
            dim=self.config.dim,
            identities={
                "engine": identity(self.engine),
                "embedder": identity(embedder),
                "scorer": identity(self.scorer),
            },
            scorer=self.config.scorer,
            more_states=self.more_states,
        )

    @property
    def models(self) -> Models:
        """The components that sample, embed and score in this process."""
        sampler = self.sampling.sampler if self.sampling else None
        return Models(self.engine, sampler, self.vectors.embedder if self.vectors else None, self.scorer)

    @property
    def model_bytes(self) -> float:
        """About the memory of the engine's model in float32; 0 if its size is not known."""
        size = self.engine.size()[0] if isinstance(self.engine, KnowsItsSize) else None
        return FLOAT32 * (size or 0)

    def request(self, problems: Sequence[Problem], n: int, **more: Any) -> SampleRequest:
        """Return a request for n responses to each problem, from the problem's own random streams.

        more  other fields of the request; `max_tokens` here takes precedence over the plan's
        """
        assert self.sampling is not None
        options = {"max_tokens": self.sampling.max_tokens} | more
        seeds = [problem_seed("sample", self.config.seed, problem) for problem in problems]
        return SampleRequest(self.prompts(problems), n, self.sampling.sampler, seeds=seeds, **options)

    def group(self, problems: Sequence[Problem]) -> Group:
        """The problems with their prompts, as one group for the engine."""
        return Group(problems, self.prompts(problems))

    def rows(self, problem: Problem) -> int:
        """The number of responses to the problem that exist, in the store or in a file that will be imported."""
        path = self.work.pool.path(problem)
        if path.exists() or self.imported is None:
            return shards.count_rows(path) if path.exists() else 0
        return next(int(entry["n"]) for entry in self.imported.entries if entry["id"] == problem.id)

    def for_selector(self, spec: str) -> Work:
        """The work of ranking with one of the plan's selectors, under its own key."""
        selector = self.selectors[spec]
        embeddings = self.work.embeddings if "embeddings" in needs(selector) else None
        scores = self.work.scores if "scores" in needs(selector) else None
        inputs = {
            "pool": self.work.pool.key,
            "verdict": self.work.verdicts.key,
            "embedding": embeddings.key if embeddings else None,
            "selector": self.context.described("selector", spec, selector),
            "n": self.work.n,
            "trials": self.config.trials,
            "seed": self.config.seed,
            **({"score": scores.key} if scores else {}),
            **({"learns": True} if isinstance(selector, LearnsFromOutcomes) else {}),
        }
        rankings = self.context.store.stage("ranking", inputs, ".json")
        return replace(self.work, selector=spec, rankings=rankings, embeddings=embeddings, scores=scores)

    # Before the stages of a run.

    def begin(self) -> None:
        """Create the folders of the stages, so that a store that cannot be written fails before the first token.

        An executor of several machines then checks that all of them see the pool's folder.
        """
        rankings = [self.for_selector(spec).rankings for spec in self.selectors]
        work, audits = self.work, self.work.audits if self.config.audit else None
        made = (work.pool, work.embeddings, work.scores, work.verdicts, work.graded, work.answers)
        for stage in (*made, audits, *(stage for _, stage in self.more_states), *rankings):
            if stage:
                stage.begin()
        if isinstance(self.context.executor, SeesFolders):
            self.context.executor.begin(self.work.pool.folder, self.work.plugin_files)

    def show_weights(self, progress: Progress) -> None:
        """Show which model weights are used, and write them beside the manifests."""
        every = list(dict.fromkeys(weights for stage in self.weights.values() for weights in stage))
        if every:
            progress.say(weights_remark(every))
        work = self.work
        stages = {"pool": work.pool, "embedding": work.embeddings, "score": work.scores, "verdict": work.verdicts}
        for name, stage in stages.items():
            if stage and self.weights.get(name):
                _keep_weights(stage.folder / "weights.json", [weights.to_json() for weights in self.weights[name]])

    def check_grader(self) -> None:
        """If there is something to grade: raise HarnessError unless this machine can, and show the task's remark."""
        if self.work.verdicts.missing(self.problems) or missing_rows.waiting(self.work.pool, self.problems):
            remark = self.task.check(unsafe_exec=self.config.unsafe_exec)
            if remark:
                self.context.progress.say(remark)


def _keep_weights(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the rows unless the file holds them: a store with complete stages may be read-only."""
    with suppress(HarnessError):
        if path.exists() and read_json(path) == rows:
            return
    write_json(path, rows)


def prompt(task: Task, engine: Engine | None, problem: Problem) -> list[Message]:
    """The prompt of a problem: a chat, or plain text to continue if the model has no chat template."""
    if getattr(engine, "chats", True):
        return task.messages(problem)
    return [{"role": "user", "content": task.plain(problem)}]
