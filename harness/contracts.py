"""What plugins implement, one class for each kind. Duck typing: nothing has to inherit, but for tasks.

The members of a class below are those that every plugin of the kind has. Its docstring lists the optional ones, which
the harness asks for by name. Any component may also have

identity()  all that fixes its results besides its parameters, as JSON (weights, revision, dtype): part of the key
libraries   import names of libraries that do not come with the harness, as a class attribute. It imports them when it
            uses them; a run names all that are missing before it begins
weights()   the `Weights` of the models that it uses; a run shows them once, with their licences

A component keeps the arguments of its constructor as fields of a (frozen) dataclass. They are its parameters: read from
the command line (`repexp:lam=0.1`), recorded with every result, part of the key. Trainers and bonuses:
`harness_plugins.rl.training`; layouts of pool files: `harness.pools.record`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from .records import Floats, Limits, Message, Outcome, Pool, Problem, Responses, SampleRequest, Verdict

if TYPE_CHECKING:
    import numpy as np

    Tensor = Any  # torch's, which the core does not import

T = TypeVar("T")
R = TypeVar("R")
Report = Callable[[int], None]  # called with the number of units just done


# Tasks.


class Task:
    """The base class of tasks. An author writes `problems` and `verify`, and `answer` where selectors may read answers.

    n, max_tokens  small settings for daily use
    splits         what `problems` can be asked for; the default is test, or else the first
    sizes          split -> number of problems, where it is fixed: a run is priced by it before any data is there
    grader         version of `verify` and `answer`; part of the verdicts' key
    presets        named options, `--preset NAME`: {"quick": {"split": ..., "n": ..., "selector": [...]}}; every task
                   has `quick`, which takes minutes: few problems, few and short responses
    defaults       options of `harness run` used if the user does not give them: {"engine": ..., "model": ...}
    """

    n: ClassVar[int] = 64
    max_tokens: ClassVar[int] = 512
    splits: ClassVar[Sequence[str]] = ("test",)
    sizes: ClassVar[Mapping[str, int]] = {}
    grader: ClassVar[str] = "1"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"limit": 10, "n": 16, "max_tokens": 256, "selector": ["repexp", "uniform", "facility-location"]}
    }
    defaults: ClassVar[Mapping[str, str]] = {}

    @property
    def revision(self) -> str:
        """What fixes the problems: a hub revision, a file's hash, or a version number that you raise."""
        return "1"

    def problems(self, split: str) -> Iterable[Problem]:
        """The problems of a split, in a fixed order."""
        raise NotImplementedError

    def messages(self, problem: Problem) -> list[Message]:
        """The problem as a chat."""
        return [{"role": "user", "content": problem.prompt}]

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Grade one response; pure: same input, same verdict."""
        raise NotImplementedError

    def answer(self, problem: Problem, response: str) -> str | None:
        """The canonical final answer, extracted, not graded; None if there is none."""
        return None

    # That is all that most tasks need. Four abilities are optional; the fourth is `Measured`, below.
    #
    # 1. Other prompts and pools.
    #
    # stop      strings with which a base model goes on after its answer to `plain`, such as a next question: its
    #           response ends before them, if the engine can do that
    # pools_as  the name under which pools are stored, for a task whose parameters change verdicts or answers only
    # paper     the paper's pool settings: {"n": ..., "max_tokens": ..., "sampler": {...}}, perhaps a "split", and
    #           "task": the parameters that the task itself takes under `--paper` and in RL: {"fallback": "no"}
    # owner     who owns the problems' texts, if nobody may pass them on; `pool push --prompts` then refuses them

    stop: ClassVar[Sequence[str]] = ()
    pools_as: ClassVar[str | None] = None
    paper: ClassVar[Mapping[str, Any]] = {}
    owner: ClassVar[str | None] = None

    def plain(self, problem: Problem) -> str:
        """The problem as text to be continued, for base models: those without a chat template."""
        return "\n".join(message["content"] for message in self.messages(problem))

    def default_split(self, model: str) -> tuple[str, str]:
        """Return the split that a model is tested on, and a remark for the user or "".

        model  the engine's name for the model; "" if it is not known, e.g. for a pool file
        """
        return "test" if "test" in self.splits else self.splits[0], ""

    # 2. Grading that costs much, runs code, or depends on how a response ended. The harness calls only these.
    #
    # finish        for each response "stop", "length" (cut off by the token limit) or "" (unknown: take it as complete)
    # runs_answers  True: an answer costs a run of the response. `run_answers(problem, responses, *, finish)`, called in
    #               the place of `answers`, gives a `Ran` for each; None for a fault of ours: it is run again next time

    def verify_all(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[Verdict]:
        """Grade many responses to one problem."""
        return [self.verify(problem, response) for response in responses]

    def answers(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[str | None]:
        """The answers of many responses to one problem."""
        return [self.answer(problem, response) for response in responses]

    def verdict_key(self, problem: Problem, response: str, answer: str | None, *, finish: str = "") -> str | None:
        """Return a text that fixes the verdict: of equal keys, in all pools of a store, only one is graded.

        It names the parameters too that `pools_as` leaves out, if the verdict depends on them. None (the default):
        every response is graded, for tasks whose grading costs less than the look-up. `answer`: the response's.
        """
        return None

    def check(self, unsafe_exec: bool = False) -> str:
        """Raise HarnessError unless this machine can grade; return a remark for the user ("sandbox: bwrap"), or "".

        Called before the first token is sampled. `unsafe_exec`: the user allows graders to run responses as code
        without a sandbox.
        """
        return ""

    def conditions(self) -> Mapping[str, str]:
        """The conditions of grading on this machine, recorded with verdicts but in no key: {"sandbox": "bwrap"}."""
        return {}

    # 3. A second grader, and training. The first two are not there by default.
    #
    # audit            `audit(problem, response)`: the verdict of a second, stricter grader, for `--audit` and `--reward
    #                  strict`; None if it cannot judge this response
    # rl               for a task that RL trains on: {"train": split, "dev": split, "test": split}; "reward": "strict"
    #                  if `audit` gives the reward; only what differs from the paper: "settings" (fields of `Settings`)
    #                  and "bonus" ({name: {parameter: value}})
    # chance_gradings  how many gradings of its responses against other problems' references `--audit` makes for each
    #                  problem, to estimate how often a verdict is correct by chance (`columns.verdicts`); 0: none

    chance_gradings: ClassVar[int] = 0


class Ran(NamedTuple):
    """What running a response gave: its canonical answer, None if it has none, and the CPU seconds of the run.

    Equal programs may run once: the cost then stands with the first of them, and the others have 0.
    """

    answer: str | None
    cpu_s: float


class Measured(Task):
    """A task that grades in two steps, as measuring costs much: measure a response, then judge its measurements.

    measured_together  after how many responses their measurements are stored
    """

    measured_together: ClassVar[int] = 64

    def measurer(self) -> Any:
        """The object that measures responses.

        Its `identity()` is all that fixes the measurements: the key under which they are stored. `measure(texts)` gives
        those of each text by name, {} if it has none; equal texts always have equal measurements.
        """
        raise NotImplementedError

    def judge(self, problem: Problem, response: str, measurements: Mapping[str, float]) -> Verdict:
        """The verdict by a response's measurements, which may be another tool's ({}: it has none); pure and cheap."""
        raise NotImplementedError

    def measurable(self, problem: Problem, responses: Sequence[str]) -> Sequence[str]:
        """The responses that have to be measured: all but those whose verdict needs no measurement."""
        return responses

    def seconds(self, counts: Sequence[tuple[Problem, int]]) -> float | None:
        """About how many seconds it takes to measure so many responses to each problem, from a probe; None: unknown."""
        return None

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Measure the response, if it has to be, and judge it."""
        return self.verify_all(problem, [response])[0]

    def verify_all(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[Verdict]:
        """Measure each distinct response that has to be, and judge all."""
        texts = list(self.measurable(problem, list(dict.fromkeys(responses))))
        values = dict(zip(texts, self.measurer().measure(texts), strict=True)) if texts else {}
        return [self.judge(problem, text, values.get(text, {})) for text in responses]


# Selectors.


@runtime_checkable
class Ranker(Protocol):
    """A selector that ranks: yields distinct indices of the pool, best first.

    The harness stops at the first correct response. Optional members:

    needs       the columns that it reads besides texts, lengths and answers: "embeddings" (the default), "logprobs",
                "scores"
    reads       for `harness select`: which of "texts" (with their lengths) and "answers" it cannot do without, e.g.
                `("answers",)`; "order": it uses the order in which the responses were sampled
    bonus       the name, in two words, of the bonus by which it picks, and `bonuses(h)`: the bonus of each picked
                response given the earlier ones, (m,), from their vectors h (m, d); `harness report` shows them
    rank_after  `rank_after(pool, verified, rng)` yields the indices of the whole pool that are not in `verified` (the
                earlier picks, in their order, at least one), best first: `harness select --verified`. A ranker without
                it is given only the other responses, as a smaller pool
    """

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]: ...


@runtime_checkable
class SubsetSelector(Protocol):
    """A selector that chooses k indices together, in no order; `needs` and `reads` as for a `Ranker`."""

    def select(self, pool: Pool, k: int, rng: np.random.Generator) -> Sequence[int]: ...


Selector = Ranker | SubsetSelector


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


# Embedders, scorers and engines.


class Embedder(Protocol):
    """Turns responses into vectors.

    With `state` set ("mean", "last", "penultimate") the harness uses the engine's pooled hidden states and never calls
    `embed`; with `state` None, `embed(problem, texts)` returns (n, d), dense or scipy-sparse.

    width   optional: the width of vectors whose features mean something each: `--dim` does not project them
    """

    state: str | None

    def embed(self, problem: Problem, texts: Sequence[str]) -> Any: ...


class Scorer(Protocol):
    """Gives responses a score without verifying them: a reward model, a judge. Its name is that of its scores."""

    def score(self, problem: Problem, prompt: Sequence[Message], texts: Sequence[str]) -> Any:
        """Return n numbers, the larger the better, NaN where it has none; `prompt` is the chat that texts answer."""


class Steering(Protocol):
    """Steers the responses to one prompt, which are sampled one after another; `sampler.steering()` makes one a prompt.

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

    name      the model's name as tables show it
    steers    whether it follows samplers that steer decoding themselves (`Steering`)
    states    the kinds of pooled hidden states that it can return

    Optional members:

    chats     False if the model has no chat template: prompts are then `task.plain(problem)`; default True
    stops     True if it ends a response before a request's stop strings; default False
    served    True if a server has the models: the model in a task's `defaults` is then not used; default False
    to_fetch  `to_fetch()`: what would be downloaded, such as "the weights of org/name", "" if nothing; asks no server.
              The user is told what a run takes before that begins
    width     the width of its states, known without its weights: what vectors take on the disk
    score     `score(prompt, responses, report)`: the log-probabilities of responses that exist already, (n,) float64,
              each the sum over its tokens, for `harness rl eval`; it calls `report(rows)`
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
        self, prompt: Sequence[Message], responses: Responses, states: Sequence[str], report: Report = lambda rows: None
    ) -> dict[str, Floats]:
        """Compute the pooled hidden states of responses that exist already: kind of state -> (n, d) float32.

        They are those that `sample` would return. If `token_ids` is None the text is tokenized, and the end-of-sequence
        token added if `finish` is "stop". `report(rows)` is called with the number of responses just done.
        """


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


# Executors.


class Executor(Protocol):
    """Runs a function over items, on processes that see the store's folder, and yields the results in order.

    Function and items are picklable, and what is made are files: results are None. The function may have attributes
    that say what it needs: `folder` and `plugin_files`, which every machine must see. An optional attribute:

    models_here   True if `map` with `uses_model` works in the process of the run, one item after the other: speed can
                  then be probed, money counted, and progress shown by tokens
    """

    def map(self, function: Callable[[T], R], items: Iterable[T], uses_model: bool) -> Iterator[R]:
        """Apply the function to each item.

        uses_model  what the function loads is large: the process should be kept for the next item, with its GPU
        """
