"""What a plugin of each kind offers. Duck typing: nothing has to inherit.

Each kind has one protocol with what every plugin of the kind has. What some have beside it is a protocol of its own;
the harness asks `isinstance(component, RanksMany)` and so on. Tasks: `harness.task`; trainers and bonuses:
`harness.training`; layouts of pool files: `harness.pools.layout`. Whatever a component is built with it keeps as fields
of a (frozen) dataclass; they are its parameters: read from the command line (`repexp:lam=0.1`), recorded with every
result, part of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from .records import Floats, Message, Pool, Problem, Responses, Sampler, SampleRequest, Weights
from .task import Audited as Audited
from .task import Measured as Measured
from .task import Measurer as Measurer
from .task import Task as Task
from .task import Trainable as Trainable
from .training import Bonus as Bonus
from .training import Trainer as Trainer

if TYPE_CHECKING:
    import numpy as np

    Tensor = Any  # torch's, which the core does not import


T = TypeVar("T")
R = TypeVar("R")
Report = Callable[[int], None]  # told of units that are done

# Selectors.


@runtime_checkable
class Ranker(Protocol):
    """A selector that ranks: yields distinct indices of the pool, best first.

    The harness stops at the first correct one. Two attributes are optional:

    needs   the columns that it reads beyond texts, lengths and answers: "embeddings" (the default), "logprobs"
    reads   for `harness select`: which of "texts" (with their lengths) and "answers" it cannot do without, e.g.
            `("answers",)`; "order" says that it goes by the order in which the responses were sampled
    """

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]: ...


@runtime_checkable
class SubsetSelector(Protocol):
    """A selector that chooses k indices together, in no order; `needs` and `reads` as a `Ranker`."""

    def select(self, pool: Pool, k: int, rng: np.random.Generator) -> Sequence[int]: ...


Selector = Ranker | SubsetSelector


@runtime_checkable
class RanksMany(Protocol):
    """A ranker that ranks several pools faster together, on a GPU for example.

    many   how many at once
    """

    many: int

    def rank_many(
        self, pools: Sequence[Pool], rngs: Sequence[Sequence[np.random.Generator]]
    ) -> Iterable[Sequence[Iterator[int]]]:
        """For each pool an iterator for each of its rngs, (pools, trials)."""


@runtime_checkable
class RanksAfter(Protocol):
    """A ranker that takes into account what was verified before (`harness select --verified`).

    One without it is given the rest of the pool only.
    """

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """The order of the rest; `pool` is whole; `verified`: at least one distinct index, in the order picked."""


@runtime_checkable
class ExplainsPicks(Protocol):
    """A ranker that can say by what it picks; `harness report` draws that.

    bonus   what it is, in two words
    """

    bonus: str

    def bonuses(self, h: Floats) -> Floats:
        """That value for each row of h (m, d), given the rows above it."""


# Embedders and engines.


@runtime_checkable
class Identified(Protocol):
    """A component with a model of its own."""

    def identity(self) -> Mapping[str, Any]:
        """All that fixes its results beside its parameters (weights, revision, dtype): part of the key."""


@runtime_checkable
class NamesWeights(Protocol):
    """A component that runs on a model's weights: shown once a run, with their licences."""

    def weights(self) -> Sequence[Weights]: ...


class Embedder(Protocol):
    """Turns responses into vectors.

    With `state` set ("mean", "last", "penultimate") the engine's pooled hidden states are taken and `embed` is never
    called; otherwise `embed(problem, texts)` returns (n, d), dense or scipy-sparse.
    """

    state: str | None

    def embed(self, problem: Problem, texts: Sequence[str]) -> Any: ...


class Steering(Protocol):
    """What steers the responses to one prompt, which are sampled one after another.

    `sampler.steering()` makes one for each prompt.

    adds              whether the next response's logits are changed at all
    added(states)     (c,) float64, added to the filtered logits of a step's c candidates; states (c, d): the last
                      hidden state that the sequence would have with each of them
    learn(states)     a finished response's token states (T, d), the end-of-sequence token's included
    """

    @property
    def adds(self) -> bool: ...

    def added(self, states: Tensor) -> Tensor: ...

    def learn(self, states: Tensor) -> None: ...


class Engine(Protocol):
    """Samples responses from a model. Built as `factory(model=..., **parameters)`; `model` None: its default.

    name        the model's name as tables show it
    steers      whether it follows samplers that steer decoding themselves, as `Steering` says
    states      the pooled hidden states that it can give
    chats       False where the model has no chat template: it is given `task.plain(problem)` (optional; default True)
    served      True where its models are a server's, which is not asked for the task's own (optional; default False)
    """

    name: str
    steers: bool
    states: Sequence[str]

    def identity(self) -> Mapping[str, Any]:
        """All that fixes its responses beside prompt, sampler and seed (model, revision, dtype): part of the key."""

    def problems_per_call(self, n: int) -> int:
        """How many problems, with n responses each, one call of `sample` takes best."""

    def check(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> str | None:
        """Raise HarnessError unless every prompt and max_tokens more fit the model's context; a remark for the reader.

        Called before the first token is sampled, where any is. It loads no weights: with an executor of several
        machines it is called where the run was started, and the model belongs to the workers.
        """

    def sample(self, request: SampleRequest) -> list[Responses]:
        """n responses to each prompt of the request, in their order."""

    def encode(
        self,
        prompt: Sequence[Message],
        responses: Responses,
        states: Sequence[str],
        report: Callable[[int], None] = lambda rows: None,
    ) -> dict[str, Floats]:
        """The same states as `sample` gives, for responses that exist already; each (n, d) float32.

        Where `token_ids` is None the text is tokenized, and the end-of-sequence token added where `finish` is "stop".
        """


@runtime_checkable
class EstimatesTime(Protocol):
    """An engine that estimates its time better than a short probe of a few responses does."""

    def seconds(self, prompts: Sequence[Sequence[Message]], n: int, sampler: Sampler) -> float:
        """About how long n responses to each prompt take, from a short probe of its own."""


@runtime_checkable
class ScoresResponses(Protocol):
    """An engine that gives the log-probability of responses that exist already; `harness rl eval` needs it."""

    def score(self, prompt: Sequence[Message], responses: Responses, report: Callable[[int], None]) -> Floats:
        """(n,) float64, the sum over each response's tokens."""


# Executors.


class Executor(Protocol):
    """Runs a function over items and yields the results in order. Function and items are picklable."""

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]: ...


@runtime_checkable
class KeepsModels(Protocol):
    """An executor whose processes load models; without it models run in the run's own process."""

    def with_models(
        self,
        function: Callable[[Any, Callable[[int], None]], None],
        items: Iterable[Any],
        report: Callable[[int], None],
    ) -> None:
        """Call `function(item, report)` for each item in processes that keep what it loads (an engine, an embedder).

        `report(units)`, called there, arrives here.
        """


@runtime_checkable
class SeesFolders(Protocol):
    """An executor of several machines, which refuses a folder that they cannot all see."""

    def begin(self, folder: Path, plugin_files: Sequence[Path]) -> None:
        """Called once before the rest: the folder of the run's pool, which is there, and the plugins given as files."""


# Trackers and figures.


class Tracker(Protocol):
    """Keeps what a run finds where its user looks (`harness run --track`). Calls come in this order, `row` repeatedly.

    Whatever it raises is one line for the reader; it is then finished and asked no more, and the run goes on.
    """

    def start(self, settings: Mapping[str, Any]) -> None:
        """The run begins; its options, as JSON has them."""

    def row(self, name: str, scalars: Mapping[str, float]) -> None:
        """A row is scored: `TASK/MODEL/SAMPLER/EMBEDDER/SELECTOR`, and its figures by flat names (`pass_at_k/16`)."""

    def table(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """All rows, with the same columns: text, numbers, or None."""

    def report(self, path: Path) -> None:
        """The run's page, one HTML file."""

    def finish(self, failed: bool) -> None:
        """The run is over; called once, and before `start` where that is what raised."""


class Plot(Protocol):
    """A figure of `harness plot`; the first line of its docstring says what it shows."""

    def rows(self, request: Any) -> list[dict[str, Any]]:
        """What is drawn, as a flat table, of the cells in `request.folders`; the options of the command are fields."""

    def draw(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """The drawing of that table and of nothing else: a matplotlib Figure."""
