"""The protocols that plugins implement, one or more for each kind. Duck typing: nothing has to inherit.

Each kind has one protocol with the members that every plugin of the kind has. Each optional ability is a further
protocol, which the harness checks by `isinstance(component, RanksMany)` and so on. Tasks: `harness.task`; trainers and
bonuses: `harness.training`; layouts of pool files: `harness.pools.record`.

A component keeps the arguments of its constructor as fields of a (frozen) dataclass. They are its parameters: read from
the command line (`repexp:lam=0.1`), recorded with every result, part of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from .records import Floats, Limits, Message, Outcome, Pool, Problem, Responses, Sampler, SampleRequest, Weights
from .task import AnswersByRunning as AnswersByRunning
from .task import Audited as Audited
from .task import Measured as Measured
from .task import Measurer as Measurer
from .task import Ran as Ran
from .task import Task as Task
from .task import Trainable as Trainable
from .training import Bonus as Bonus
from .training import Trainer as Trainer

if TYPE_CHECKING:
    import numpy as np

    Tensor = Any  # torch's, which the core does not import


T = TypeVar("T")
R = TypeVar("R")
Report = Callable[[int], None]  # called with the number of units just done


# Selectors.


@runtime_checkable
class Ranker(Protocol):
    """A selector that ranks: yields distinct indices of the pool, best first.

    The harness stops at the first correct response. These members are optional:

    needs   the columns that it reads besides texts, lengths and answers: "embeddings" (the default), "logprobs",
            "scores"
    reads   for `harness select`: which of "texts" (with their lengths) and "answers" it cannot do without, e.g.
            `("answers",)`; "order": it uses the order in which the responses were sampled
    bonus   the name, in two words, of the bonus by which it picks, and `bonuses(h)`: the bonus of each of the picked
            responses given the earlier ones, (m,), from their vectors h (m, d); `harness report` shows them
    """

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]: ...


@runtime_checkable
class SubsetSelector(Protocol):
    """A selector that chooses k indices together, in no order; `needs` and `reads` as for a `Ranker`."""

    def select(self, pool: Pool, k: int, rng: np.random.Generator) -> Sequence[int]: ...


Selector = Ranker | SubsetSelector


@runtime_checkable
class RanksMany(Protocol):
    """A ranker that is faster if it ranks several pools together, on a GPU for example.

    many   how many pools to give it at once
    """

    many: int

    def rank_many(
        self, pools: Sequence[Pool], rngs: Sequence[Sequence[np.random.Generator]]
    ) -> Iterable[Sequence[Iterator[int]]]:
        """Return for each pool one iterator per generator of `rngs`, as `rank` yields: (pools, trials) of them."""


@runtime_checkable
class RanksAfter(Protocol):
    """A ranker that takes into account which responses are verified already (`harness select --verified`).

    A ranker without this method is given only the other responses, as a smaller pool.
    """

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Yield the indices not in `verified`, best first.

        `pool` is the whole pool; `verified` has at least one index, each once, in the order picked.
        """


@runtime_checkable
class LearnsFromOutcomes(Protocol):
    """A ranker that learns from the outcomes of its own earlier picks. It gets outcomes here and nowhere else.

    `harness verify` and `harness run` call `pick_after` for every pick, in place of `rank`, and reveal an outcome when
    that pick is verified, never before. Tables mark such selectors: what they save is not the merit of an order alone.
    """

    def pick_after(self, pool: Pool, outcomes: Sequence[Outcome], rng: np.random.Generator) -> int:
        """Return the index to verify next, none of those in `outcomes`.

        outcomes  the picks so far, each index once, in the order picked; none for the first pick
        rng       a stream of its own for each number of outcomes, so that a broken-off search goes on as it would have
        """


# Embedders and engines.


@runtime_checkable
class Identified(Protocol):
    """A component that has its own model."""

    def identity(self) -> Mapping[str, Any]:
        """All that fixes its results besides its parameters (weights, revision, dtype): part of the key."""


@runtime_checkable
class NeedsLibraries(Protocol):
    """A component that needs libraries which do not come with the harness; it imports them when it uses them.

    libraries   their import names, as a class attribute. A run names all that are missing before it begins
    """

    libraries: Sequence[str]


@runtime_checkable
class NamesWeights(Protocol):
    """A component that uses a model's weights; the harness shows them once a run, with their licences."""

    def weights(self) -> Sequence[Weights]: ...


class Embedder(Protocol):
    """Turns responses into vectors.

    With `state` set ("mean", "last", "penultimate") the harness uses the engine's pooled hidden states and never calls
    `embed`; with `state` None, `embed(problem, texts)` returns (n, d), dense or scipy-sparse.
    """

    state: str | None

    def embed(self, problem: Problem, texts: Sequence[str]) -> Any: ...


class Scorer(Protocol):
    """Gives responses a score without verifying them: a reward model, a judge. Its name is that of its scores."""

    def score(self, problem: Problem, prompt: Sequence[Message], texts: Sequence[str]) -> Any:
        """Return n numbers, the larger the better; NaN for a response that it cannot score.

        prompt  the chat that the responses answer
        """


class Steering(Protocol):
    """Steers the responses to one prompt, which are sampled one after another.

    `sampler.steering()` returns a new object for each prompt.

    adds              whether the logits of the next response are changed at all
    added(states)     (c,) float64, added to the filtered logits of a step's c candidate tokens; states (c, d): the last
                      hidden state that the sequence would have after each candidate
    learn(states)     called with the token states (T, d) of a finished response, end-of-sequence token included
    """

    @property
    def adds(self) -> bool: ...

    def added(self, states: Tensor) -> Tensor: ...

    def learn(self, states: Tensor) -> None: ...


class Engine(Protocol):
    """Samples responses from a model. Built as `factory(model=..., **parameters)`; `model` None: its default model.

    name        the model's name as tables show it
    steers      whether it follows samplers that steer decoding themselves (`Steering`)
    states      the kinds of pooled hidden states that it can return
    chats       False if the model has no chat template: prompts are then `task.plain(problem)` (optional; default True)
    stops       True if it ends a response before a request's stop strings (optional; default False)
    served      True if a server has the models: the task's `default_model` is then not used (optional; default False)
    """

    name: str
    steers: bool
    states: Sequence[str]

    def identity(self) -> Mapping[str, Any]:
        """All that fixes its responses besides prompt, sampler and seed (model, revision, dtype): part of the key."""

    def problems_per_call(self, n: int) -> int:
        """The number of problems, with n responses each, for which one call of `sample` is most efficient."""

    def check(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> str | None:
        """Raise HarnessError unless every prompt plus max_tokens fits the model's context; return a remark or None.

        Called before the first token is sampled, if any is to be sampled. It must load no weights: with an executor of
        several machines it is called on the machine that started the run, while the workers load the model.
        """

    def sample(self, request: SampleRequest) -> list[Responses]:
        """Sample responses; one `Responses` for each prompt of the request, in their order.

        Each holds n responses, or fewer: only `request.rows` if these are given, none after `request.until` has
        returned True, and none for rows that failed (`Responses.missing`).
        """

    def encode(
        self,
        prompt: Sequence[Message],
        responses: Responses,
        states: Sequence[str],
        report: Callable[[int], None] = lambda rows: None,
    ) -> dict[str, Floats]:
        """Compute the pooled hidden states of responses that exist already: kind of state -> (n, d) float32.

        They are those that `sample` would return. If `token_ids` is None the text is tokenized, and the end-of-sequence
        token added if `finish` is "stop". `report(rows)` is called with the number of responses just done.
        """


@runtime_checkable
class EstimatesTime(Protocol):
    """An engine that estimates its time itself, better than the harness does from a probe of a few responses."""

    def seconds(self, prompts: Sequence[Sequence[Message]], n: int, sampler: Sampler) -> float:
        """Return about how many seconds it takes in all to sample n responses to each prompt, from a short probe."""


@runtime_checkable
class Charges(Protocol):
    """An engine whose tokens may cost money. It keeps what was spent in the pool's folder, and stops before a cap.

    is_charged   whether money or a cap is at stake: then no responses are sampled only to measure its speed, and only
                 one process samples
    """

    is_charged: bool

    def charge(self, limits: Limits) -> None:
        """Take the limits, before `check`; HarnessError if the model has no price that a limit needs."""

    def quote(self, prompts: Sequence[Sequence[Message]], rows: Sequence[int], max_tokens: int) -> str:
        """What rows[j] responses to each prompt j cost at most, as a clause; "" if that is not known."""

    def spending(self) -> str:
        """What the pool has cost so far, in few words for the line of progress; "" if nothing is to be shown."""

    def bill(self) -> str:
        """One line about all that was used for the pool; "" if nothing was."""


@runtime_checkable
class KnowsItsSize(Protocol):
    """An engine that tells its model's size without loading weights, to price a run that cannot be timed."""

    def size(self) -> tuple[float | None, bool]:
        """About how many parameters the model has (None: unknown), and whether it runs on a GPU."""


@runtime_checkable
class Fetches(Protocol):
    """An engine whose model may have to be downloaded; the user is told what a run takes before that begins."""

    def to_fetch(self) -> str:
        """What would be downloaded, such as "the weights of org/name"; "" if all is here. Asks no server."""


@runtime_checkable
class ScoresResponses(Protocol):
    """An engine that computes the log-probability of responses that exist already; `harness rl eval` needs it."""

    def score(self, prompt: Sequence[Message], responses: Responses, report: Callable[[int], None]) -> Floats:
        """Return the log-probabilities, (n,) float64: for each response the sum over its tokens.

        `report(rows)` is called with the number of responses just done.
        """


# Executors.


class Executor(Protocol):
    """Runs a function over items, on processes that see the store's folder, and yields the results in order.

    Function and items are picklable, and what is made are files: results are None. The function may have attributes
    that say what it needs: `folder` and `plugin_files`, which every machine must see, and `model_bytes`, about the
    memory of the model that each process loads (0: unknown). An optional attribute:

    models_here   True if `map` with `uses_model` works in the process of the run, one item after the other: speed can
                  then be probed, money counted, and progress shown by tokens
    """

    def map(self, function: Callable[[T], R], items: Iterable[T], uses_model: bool) -> Iterator[R]:
        """Apply the function to each item.

        uses_model  what the function loads is large: the process should be kept for the next item, with its GPU
        """


# Trackers and figures.


class Tracker(Protocol):
    """Sends a run's results to an experiment tracker (`harness run --track`).

    The methods are called in the order below, `row` once for each row; `table` and `report` not if the run is broken
    off or has no row. Whatever a tracker raises becomes one line for the user; the harness then calls `finish` and
    nothing else, and the run goes on.
    """

    def start(self, settings: Mapping[str, Any]) -> None:
        """The run begins; `settings` are its options, as JSON values."""

    def row(self, name: str, scalars: Mapping[str, float]) -> None:
        """A row is scored: `TASK/MODEL/ENGINE/SAMPLER/EMBEDDER/SELECTOR`, its numbers by names like `pass_at_k/16`."""

    def table(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """All rows at the end; they have the same columns, with text, numbers or None."""

    def report(self, path: Path) -> None:
        """The report of the run, one HTML file."""

    def finish(self, failed: bool) -> None:
        """The run is over; called exactly once, also if `start` raised.

        failed  the run was broken off, or this tracker raised; a selector that fails does not break off the run
        """


class Plot(Protocol):
    """A figure of `harness plot`; the first line of its docstring says what it shows."""

    def rows(self, request: Any) -> list[dict[str, Any]]:
        """The plotted data as a flat table, from the cells in `request.folders`; `request` has all options."""

    def draw(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """A matplotlib Figure, made from that table and from nothing else."""
