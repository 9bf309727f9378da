"""What a plugin of each kind offers. Duck typing: nothing has to inherit; a task may take its defaults from `Task`.

Whatever a component is built with it keeps as fields of a (frozen) dataclass; they are its parameters: read from the
command line (`repexp:lam=0.1`), recorded with every result, part of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from .records import Floats, Message, Pool, Problem, Responses, Sampler, Verdict

if TYPE_CHECKING:
    import numpy as np

    from .training import Checkpoint, Launch, Rollouts, Shaped, Tensor, TrainingRun

T = TypeVar("T")
R = TypeVar("R")


class Selector(Protocol):
    """A ranker: yields distinct indices of the pool, best first; the harness stops pulling at the first correct one.

    `needs` names the columns it reads beyond texts, lengths and answers, "embeddings" (the default) or "logprobs".
    A subset method has `select(pool, k, rng) -> sequence of k indices` instead of `rank`.

    many, rank_many(pools, rngs)
        How many pools it ranks best at once (on a GPU), and an iterator for each pool and each of its rngs, (pools,
        trials); optional.

    bonus, bonuses(h)
        What it picks by, in two words, and that figure for each row of h (m, d) given the rows above it: what
        `harness report` draws below the map; optional.

    Two more things are optional; `harness select` alone asks for them:

    rank_after(pool, verified, rng) -> Iterator[int]
        The order of the rest, given that the indices `verified` (at least one, distinct ints) were picked before, in
        that order; `pool` is the whole pool, and no verified index is yielded. A selector without it is given the pool
        of the rest only.
    reads
        Which of "texts" (with their lengths) and "answers" it lives on, e.g. `("answers",)`: it is refused where there
        are none, and answers are not extracted for one that says it reads none. "order" says that the order in which
        responses were drawn is what it goes by.
    """

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]: ...


class Embedder(Protocol):
    """Turns responses into vectors.

    With `state` set ("mean", "last", "penultimate") the engine's pooled hidden states are taken and `embed` is never
    called; otherwise `embed(problem, texts)` returns (n, d), dense or scipy-sparse. One with a model of its own has
    `identity()` too, as an engine has: all that fixes its vectors beside its parameters (weights, revision).
    """

    state: str | None

    def embed(self, problem: Problem, texts: Sequence[str]) -> Any: ...


class Steering(Protocol):
    """What steers the responses to one prompt, drawn one after another: `sampler.steering()` makes one for each prompt.

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
    """Draws responses from a model. Built as `factory(model=..., **parameters)`; `model` may be None for its default.

    name        the model's name as tables show it
    steers      whether it follows samplers that steer decoding themselves: their responses to a prompt are drawn one
                after another as `Steering` says, and `sample` takes `until(j, text, finish) -> bool`: asked of
                every response to prompt j as it ends, which gets no further one where it says yes
    chats       False where the model has no chat template: it is given `task.plain(problem)` (default True)
    states      the pooled hidden states that it can give
    served      True where its models are a server's, which is not asked for the task's own (default False)

    weights() -> sequence of `harness.plugin_system.licences.Weights`
        Whose weights it runs on and under which licence, shown once a run; optional, for embedders and tasks too.

    seconds(prompts, n, sampler) -> float
        About how long n responses to each prompt take, from a short probe of its own; optional.

    score(prompt, responses, report) -> (n,) float64
        The log-probability of given responses, the sum over their tokens; optional; `harness rl eval` asks for it.

    Where requests may stay unanswered, `sample` names their rows in `Responses.missing`, and takes `rows`, a sequence a
    prompt: draw these rows alone. The next run asks so for what is missing. A pool's N is the responses that came.

    Where `sample` has a parameter `done`, `done(j, responses)` is called as soon as all responses to prompt j are
    finished, while those to other prompts go on: they are kept at once, and a killed run loses unfinished prompts
    alone. They are equal to those that `sample` returns in the end, but may lack hidden states that come later.
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

        Asked before the first token is drawn, where any is. It loads no weights: with an executor of several machines
        it is asked where the run was started, and the model belongs to the workers.
        """

    def sample(
        self,
        prompts: Sequence[Sequence[Message]],
        *,
        n: int,
        sampler: Sampler,
        max_tokens: int,
        seeds: Sequence[int],
        states: Sequence[str] = (),
        report: Callable[[int], None] = lambda rows: None,
    ) -> list[Responses]:
        """n responses to each prompt. Row i of prompt j draws from a stream of its own, made from (seeds[j], i) alone:
        n, batch size and neighbours change nothing. `report(rows)` is called as rows are finished. To see how fast it
        is, it may be asked with fewer max_tokens than `check` was.
        """

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


class Executor(Protocol):
    """Runs a function over items and yields the results in order. Function and items are picklable.

    Two more things are optional:

    with_models(function, items, report) -> None
        Call `function(item, report)` for each item in processes that keep what it loads (an engine, an embedder) for
        the next one. `report(units)`, called there, arrives here. Without it models run in the run's own process.
    begin(folder, plugin_files)
        Called once before the rest: the folder of the run's pool, which is there, and the plugins given as files. An
        executor of several machines refuses one that cannot see them.
    """

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]: ...


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


class Bonus(Protocol):
    """Makes of the verifier's rewards those that the policy is trained on; pure, in float64.

    needs   what it reads beyond the rewards: "hidden", "logprobs" (see `training.Rollouts`)
    """

    needs: Sequence[str]

    def shape(self, rollouts: Rollouts, step: int, seed: int, memory: dict[str, Tensor]) -> Shaped:
        """The rewards of one step's rollouts. Whatever is drawn comes from (seed, step).

        `memory` is the run's, empty at its start and kept with every checkpoint: what the next step has to know.
        """


class Trainer(Protocol):
    """Trains a model by RL, as a child process in an environment of its own."""

    def check(self, run: TrainingRun) -> Sequence[str]:
        """Remarks for the reader; HarnessError, one line, for whatever would fail once it is started."""

    def launch(self, run: TrainingRun) -> Launch:
        """Write what the child needs into the run's folder, and say how it is started; started again, it resumes."""

    def saved(self, run: TrainingRun) -> Sequence[Checkpoint]:
        """The complete checkpoints, by step."""

    def export(self, run: TrainingRun, checkpoint: Checkpoint) -> Path:
        """A Hugging Face folder with the checkpoint's policy and tokenizer, made where it is not there."""


class Measurer(Protocol):
    """What a verdict's figures come from, where they cost much and the verdict is a matter of thresholds on them."""

    def identity(self) -> Mapping[str, Any]:
        """All that fixes the figures: the key under which they are kept."""

    def measure(self, texts: Sequence[str]) -> Sequence[Mapping[str, float]]:
        """The figures of each text by name; {} for one that has none. Of the same text always the same."""


class Task:
    """Defaults for a task; a task file overrides what differs.

    n, max_tokens    small settings for daily use
    paper            the paper's pool settings: {"n": ..., "max_tokens": ..., "sampler": {...}}, perhaps a "split", and
                     "task": the parameters that the task itself takes under `--paper` and in RL: {"fallback": "no"}
    revision         of the data; part of every key
    grader           version of `verify` and `answer`; part of the verdicts' key
    rl               how it is trained on: {"train": split, "dev": split, "test": split}, where `audit` is the reward
                     "reward": "strict", and where they differ from the paper's "settings" (fields of
                     `training.Settings`) and "bonus" ({name: {parameter: value}})
    owner            whose texts the problems are, where nobody may pass them on; `pool push` then leaves them at home
    default_model    what the task runs on when no model is asked for; None = the engine's default
    defaults         options of `harness run` where they are not given: {"engine": ..., "embedder": ...}
    presets          named options, `--preset NAME`: {"quick": {"split": ..., "n": ..., "selector": [...]}}
    pools_as         the name under which pools are kept, for a task whose parameters change verdicts alone
    measured_together  how many responses are measured before their figures are kept
    reads_finish     whether verdicts depend on how a response ended. `verify`, `verdict_key`, `answer` and `audit` are
                     then given the keyword `finish`, "stop" or "length" (cut off by the token limit; "" where unknown,
                     to be taken as complete), and `verify_all` and `answers` a list of them, one for each response
    chance_gradings  how many gradings of a problem's responses against other problems' references `--audit` makes, to
                     say how often a verdict is correct by chance (`harness.stages.chance`); 0: none
    """

    n: ClassVar[int] = 64
    max_tokens: ClassVar[int] = 512
    paper: ClassVar[Mapping[str, Any]] = {}
    splits: ClassVar[Sequence[str]] = ("test",)
    grader: ClassVar[str] = "1"
    owner: ClassVar[str | None] = None
    default_model: ClassVar[str | None] = None
    defaults: ClassVar[Mapping[str, str]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    pools_as: ClassVar[str | None] = None
    measured_together: ClassVar[int] = 64
    reads_finish: ClassVar[bool] = False
    chance_gradings: ClassVar[int] = 0

    @property
    def rl(self) -> Mapping[str, Any]:
        """What RL trains on; {} where it does not."""
        return {}

    @property
    def revision(self) -> str:
        """What fixes the problems: a hub revision, a file's hash, a version of our own."""
        return "1"

    def problems(self, split: str) -> Iterable[Problem]:
        """The problems of a split, in a fixed order."""
        raise NotImplementedError

    def check(self, unsafe_exec: bool = False) -> str:
        """Raise HarnessError unless this machine can grade; a remark for the reader ("sandbox: bwrap"), or "".

        Asked before the first token is drawn. `unsafe_exec`: the user accepts graders that run text unconfined.
        """
        return ""

    def messages(self, problem: Problem) -> list[Message]:
        """The problem as a chat."""
        return [{"role": "user", "content": problem.prompt}]

    def plain(self, problem: Problem) -> str:
        """The problem as text to be continued, for base models: those without a chat template."""
        return "\n".join(message["content"] for message in self.messages(problem))

    def conditions(self) -> Mapping[str, str]:
        """Under what verdicts are made here, recorded with them and not part of any key: {"sandbox": "bwrap"}."""
        return {}

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Grade one response; pure: same input, same verdict."""
        raise NotImplementedError

    def verify_all(self, problem: Problem, responses: Sequence[str]) -> list[Verdict]:
        """Grade many responses of one problem; override where a grader gains from batches."""
        return [self.verify(problem, response) for response in responses]

    def measurer(self) -> Measurer | None:
        """What measures responses, for a task that judges by figures (`judge`); None: it verifies in one step."""
        return None

    def measurable(self, problem: Problem, responses: Sequence[str]) -> Sequence[str]:
        """Those of the responses that `judge` needs figures of; all, unless some are wrong whatever they measure."""
        return responses

    def judge(self, problem: Problem, response: str, figures: Mapping[str, float]) -> Verdict:
        """The verdict by a response's figures ({}: it has none), which may be another maker's; pure and cheap."""
        raise NotImplementedError

    def seconds(self, counts: Sequence[tuple[Problem, int]]) -> float | None:
        """About how long measuring so many responses of each problem takes, from a short probe; None: unknown."""
        return None

    def outlook(self, problems: Sequence[Problem], n: int) -> str:
        """What n responses to each problem would take, by arithmetic alone, where weights are missing; "": unknown."""
        return ""

    def verdict_key(self, problem: Problem, response: str, answer: str | None) -> str | None:
        """What the verdict depends on: of responses with equal keys one is graded, once for all pools of a store.

        None (the default): on the text, and grading it again costs less than looking it up.
        """
        return None

    def audit(self, problem: Problem, response: str) -> Verdict | None:
        """What a second, stricter grader says, asked by `--audit`; None where the task has no second one."""
        return None

    def answer(self, problem: Problem, response: str) -> str | None:
        """The canonical final answer, extracted, not graded; None where there is none."""
        return None

    def answers(self, problem: Problem, responses: Sequence[str]) -> list[str | None]:
        """The answers of many responses of one problem; override where the extraction gains from batches."""
        return [self.answer(problem, response) for response in responses]

    def default_split(self, model: str) -> tuple[str, str]:
        """The split that a model is tested on, and a remark for the reader where that needs one."""
        return "test", ""
