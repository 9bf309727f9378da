"""The records that travel between the stages, all plain data: problem, responses, pool, verdict, sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypedDict

from .errors import HarnessError

if TYPE_CHECKING:  # numpy takes half of the time that `harness --help` has
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.floating[Any]]
    Ints: TypeAlias = NDArray[np.integer[Any]]
else:
    Floats = Ints = Any


FINISHES = frozenset({"stop", "length"})  # how a response can end
STATUSES = frozenset({"correct", "wrong", "error"})  # what a verdict can be


class Message(TypedDict):
    """One chat message, in the form that chat templates take."""

    role: str
    content: str


@dataclass(frozen=True)
class Problem:
    """One problem of a task. `prompt` is the raw problem text; `task.messages(problem)` makes it a chat."""

    id: str
    prompt: str
    reference: Any = None
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """The grade of one response: `correct`, `wrong`, or `error` (our fault, not the response's), and the reason.

    route  how the grader reached it, where it has several ways ("boxed, equal text", "fallback, math-verify").
           "fallback" before the first comma: the response did not state its answer in the form asked for; tables show
           the share of such correct verdicts
    """

    status: Literal["correct", "wrong", "error"]
    reason: str = ""
    route: str = ""


def correct(reason: str = "", route: str = "") -> Verdict:
    """The verdict on a correct response."""
    return Verdict("correct", reason, route)


def wrong(reason: str = "", route: str = "") -> Verdict:
    """The verdict on a wrong response; a timeout of *its* code is wrong too."""
    return Verdict("wrong", reason, route)


def error(reason: str, route: str = "") -> Verdict:
    """The verdict if the verifier itself failed: it stays in N, is not correct, costs one call, and is counted."""
    return Verdict("error", reason, route)


@dataclass(frozen=True, eq=False)
class Responses:
    """n responses to one problem, as an engine returns them (columns of equal length n).

    finish     "stop" (the model ended it) or "length" (max_tokens did)
    lengths    in tokens, or in characters for an imported pool, whose tokens are not known
    logprobs   (n,) float64: the sum over the response's tokens of the model's log-probabilities at temperature 1,
               unfiltered; NaN where unknown
    token_ids  of the response alone, its end-of-sequence token included; None where an engine does not know them
    states     per kind ("mean", "last", "penultimate") the pooled last hidden states, (n, d) float32
    missing    rows without a response (a server gave none, after all tries) -> the reason; the columns hold the others
    scores     by name (a reward model, a judge) one number per response, (n,) float64; NaN where unknown
    """

    texts: Sequence[str]
    finish: Sequence[str]
    lengths: Ints
    logprobs: Floats
    token_ids: Sequence[Sequence[int]] | None = None
    states: Mapping[str, Floats] = field(default_factory=dict)
    missing: Mapping[int, str] = field(default_factory=dict)
    scores: Mapping[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    def first(self, n: int) -> Responses:
        """The first n responses, with their states and scores."""
        cut = {name: getattr(self, name)[:n] for name in ("texts", "finish", "lengths", "logprobs")}
        return replace(
            self,
            **cut,
            token_ids=None if self.token_ids is None else self.token_ids[:n],
            states={kind: values[:n] for kind, values in self.states.items()},
            scores={name: values[:n] for name, values in self.scores.items()},
        )


@dataclass(frozen=True, eq=False)
class Pool:
    """One problem's n responses as a selector sees them: read-only columns, no verdicts and no reference.

    HarnessError for a vector that holds NaN or infinity, and for an infinite log-probability or score: selectors need
    not check.

    texts       n strings
    embeddings  (n, d) float32, projected if wider than `--dim`, centred unless `select --no-centre`; (n, 0) if the
                selector needs none
    logprobs    (n,) float64, NaN where unknown
    lengths     (n,) int64, in tokens (in characters for imported pools)
    answers     n canonical final answers, extracted but not graded; None where a response has none
    scores      name -> (n,) float64, the larger the better, NaN where unknown: of reward models, judges, ...; empty if
                the pool has none. A selector that reads them names "scores" in `needs`
    mean        (d,) float32, what was subtracted from each row of `embeddings`; None: nothing
    """

    texts: Sequence[str]
    embeddings: Floats
    logprobs: Floats
    lengths: Ints
    answers: Sequence[str | None]
    scores: Mapping[str, Floats] = field(default_factory=dict)
    mean: Floats | None = None

    def __post_init__(self) -> None:
        import numpy as np

        n = len(self.texts)
        columns = {name: getattr(self, name) for name in ("embeddings", "logprobs", "lengths", "answers")}
        scores = {name: np.asarray(values, np.float64) for name, values in self.scores.items()}
        for name, column in {**columns, **{f"score {name!r}": values for name, values in scores.items()}}.items():
            if len(column) != n:
                raise HarnessError(f"pool: {name} has {len(column)} rows for {n} texts")
        finite = np.isfinite(self.embeddings).all(axis=1)  # (n,)
        if not finite.all():
            raise HarnessError(f"pool: the embedding of response {finite.argmin()} holds NaN or infinity")
        numbers = {"the log-probability": self.logprobs, **{f"score {name!r}": scores[name] for name in scores}}
        for name, values in numbers.items():
            if (infinite := np.isinf(values)).any():
                row = infinite.argmax()
                raise HarnessError(f"pool: {name} of response {row} is {values[row]}; NaN says that it is unknown")
        columns["scores"] = MappingProxyType({name: _read_only(values) for name, values in scores.items()})
        for name, column in {**columns, "texts": tuple(self.texts)}.items():
            object.__setattr__(self, name, column if name == "scores" else _read_only(column))

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def uncentred(self) -> Floats:
        """The rows (n, d) float32 before their mean was subtracted: for similarities that need bits or counts."""
        return self.embeddings if self.mean is None else self.embeddings + self.mean

    def part(self, rows: Sequence[int]) -> Pool:
        """Return a pool of the responses with the indices `rows`, in the order given."""
        rows = [int(row) for row in rows]
        texts, answers = [self.texts[row] for row in rows], [self.answers[row] for row in rows]
        scores = {name: values[rows] for name, values in self.scores.items()}
        return Pool(texts, self.embeddings[rows], self.logprobs[rows], self.lengths[rows], answers, scores, self.mean)

    def __reduce__(self) -> tuple[type[Pool], tuple[Any, ...]]:  # a read-only mapping cannot be pickled
        columns = (self.texts, self.embeddings, self.logprobs, self.lengths, self.answers, dict(self.scores), self.mean)
        return Pool, columns


def _read_only(column: Any) -> Any:
    """A view that cannot be written; a tuple of what is no array."""
    if not hasattr(column, "flags"):
        return tuple(column)
    view = column.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class Outcome:
    """The outcome of one pick, as a selector sees it that learns from its picks (`LearnsFromOutcomes`).

    index  of the response
    value  1.0 correct, 0.0 wrong, or what the verifier measured; None: not known yet, or the verifier failed
    """

    index: int
    value: float | None


@dataclass(frozen=True)
class Weights:
    """The weights of one model: where they come from, and under which licence.

    source     the hub's id or the folder that they are read from
    licence    as their owner states it, with the date on which that was looked up
    fetch      how to get them if they are not on this machine; "" if they are
    is_random  never trained: for tests only, nothing made with them is a result
    """

    name: str
    source: str
    licence: str
    fetch: str = ""
    is_random: bool = False

    def __str__(self) -> str:
        random = " with RANDOM weights" if self.is_random else ""
        return f"{self.name}{random} ({self.source}; {self.licence})"

    def to_json(self) -> dict[str, Any]:
        """The fields as results and manifests hold them: all but `fetch`."""
        return {name: value for name, value in asdict(self).items() if name != "fetch"}


@dataclass(frozen=True)
class Sampler:
    """Decoding parameters, as data. `top_k=0`, `top_p=1` and `min_p=0` filter nothing.

    A sampler that steers decoding itself is another class, with `steers = True`; engines that cannot follow refuse it.
    """

    steers: ClassVar[bool] = False

    temperature: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0
    top_k: int = 0

    def __post_init__(self) -> None:
        for name, holds, bound in (
            ("temperature", 0 < self.temperature < float("inf"), "> 0 and finite"),
            ("top_p", 0 < self.top_p <= 1, "in (0, 1]"),
            ("min_p", 0 <= self.min_p < 1, "in [0, 1)"),
            ("top_k", self.top_k >= 0, ">= 0 (0 keeps all tokens)"),
        ):
            if not holds:
                raise HarnessError(f"sampler: {name} must be {bound}, got {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class SampleRequest:
    """The argument of an engine's `sample`: n responses to each prompt.

    Row i of prompt j is sampled from its own random stream, made from (seeds[j], i) only: n, the batch size and the
    other rows change nothing. To measure an engine's speed, max_tokens may be smaller than `check` was given.

    states   the pooled hidden states to return with the responses ("mean", "last", "penultimate")
    stop     strings that end a response ("stop"): its text ends before the first of them, its tokens with the one that
             completes it. Only given to engines that have `stops = True`
    rows     for each prompt the rows to sample, which earlier requests left without a response (`Responses.missing`);
             None: all n. Only given to engines that have returned missing rows
    until    `until(j, text, finish)` is called when a response to prompt j ends; if it returns True, no further
             response to prompt j is sampled. Only given to engines that steer
    report   `report(rows)` is called with the number of rows just finished
    tokens   `tokens(count)` may be called once a second or so, with the number of tokens just sampled, of unfinished
             rows too, and with 0 when the model is loaded: the harness then shows tokens a second and the time left
    journals for each prompt a file in which an engine may keep responses that are paid for, until the harness has
             stored them and removes it; their folder may hold more to know after a kill. Empty: a probe, keep nothing
    done     `done(j, responses)` may be called as soon as all responses to prompt j are finished, while other prompts
             go on: the harness stores them at once. They equal those that `sample` returns in the end, but may lack
             hidden states that come later
    """

    prompts: Sequence[Sequence[Message]]
    n: int
    sampler: Sampler
    max_tokens: int
    seeds: Sequence[int]
    states: Sequence[str] = ()
    stop: Sequence[str] = ()
    rows: Sequence[Sequence[int]] | None = None
    until: Callable[[int, str, str], bool] = lambda prompt, text, finish: False
    report: Callable[[int], None] = lambda rows: None
    tokens: Callable[[int], None] = lambda count: None
    journals: Sequence[Path] = ()
    done: Callable[[int, Responses], None] = lambda prompt, responses: None


@dataclass(frozen=True)
class Limits:
    """What a pool may cost, all its runs together: for engines that pay for tokens (`harness run --max-cost`).

    folder      of the pool, where earlier runs have kept what they spent; it may not exist yet. None: no pool is kept
    max_cost    most money, in the currency of the prices that the engine is given
    max_tokens  most tokens, of prompts and responses together
    """

    folder: Path | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
