"""The members of a task: `Task` has what every task has, the protocols below it what only some tasks have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from .records import Message, Problem, Verdict

QUICK = {"limit": 10, "n": 16, "max_tokens": 256, "selector": ["repexp", "uniform", "facility-location"]}


class Task:
    """The base class of tasks, with a default for nearly every member; a task overrides what differs.

    n, max_tokens    small settings for daily use
    paper            the paper's pool settings: {"n": ..., "max_tokens": ..., "sampler": {...}}, perhaps a "split", and
                     "task": the parameters that the task itself takes under `--paper` and in RL: {"fallback": "no"}
    revision         of the data; part of every key
    grader           version of `verify` and `answer`; part of the verdicts' key
    owner            who owns the problems' texts, if nobody may pass them on; `pool push --prompts` then refuses them
    default_model    the model used if the user names none; None = the engine's default
    defaults         options of `harness run` used if the user does not give them: {"engine": ..., "embedder": ...}
    presets          named options, `--preset NAME`: {"quick": {"split": ..., "n": ..., "selector": [...]}}; every task
                     has `quick`, which takes minutes: few problems, few and short responses
    sizes            split -> number of problems, where it is fixed: a run is priced by it before any data is there
    pools_as         the name under which pools are stored, for a task whose parameters change verdicts only
    verdicts_as      the name under which the verdicts that all pools share are stored, for a task whose parameters
                     change answers only
    reads_finish     whether verdicts depend on how a response ended. `verify`, `verdict_key`, `answer` and `audit` are
                     then given the keyword `finish`: "stop", "length" (cut off by the token limit) or "" (unknown: take
                     it as complete); `verify_all`, `answers` and `run_answers` get a list with one for each response
    stop             strings with which a base model goes on after its answer to `plain`, such as a next question: its
                     response ends before them, if the engine can do that
    chance_gradings  how many gradings of its responses against other problems' references `--audit` makes for each
                     problem, to estimate how often a verdict is correct by chance (`columns.verdicts`); 0: none
    """

    n: ClassVar[int] = 64
    max_tokens: ClassVar[int] = 512
    paper: ClassVar[Mapping[str, Any]] = {}
    splits: ClassVar[Sequence[str]] = ("test",)
    grader: ClassVar[str] = "1"
    owner: ClassVar[str | None] = None
    default_model: ClassVar[str | None] = None
    defaults: ClassVar[Mapping[str, str]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"quick": QUICK}
    sizes: ClassVar[Mapping[str, int]] = {}
    pools_as: ClassVar[str | None] = None
    verdicts_as: ClassVar[str | None] = None
    reads_finish: ClassVar[bool] = False
    stop: ClassVar[Sequence[str]] = ()
    chance_gradings: ClassVar[int] = 0
    measured_together: ClassVar[int] = 64

    @property
    def revision(self) -> str:
        """What fixes the problems: a hub revision, a file's hash, or a version number that you raise."""
        return "1"

    def problems(self, split: str) -> Iterable[Problem]:
        """The problems of a split, in a fixed order."""
        raise NotImplementedError

    def check(self, unsafe_exec: bool = False) -> str:
        """Raise HarnessError unless this machine can grade; return a remark for the user ("sandbox: bwrap"), or "".

        Called before the first token is sampled. `unsafe_exec`: the user allows graders to run responses as code
        without a sandbox.
        """
        return ""

    def messages(self, problem: Problem) -> list[Message]:
        """The problem as a chat."""
        return [{"role": "user", "content": problem.prompt}]

    def plain(self, problem: Problem) -> str:
        """The problem as text to be continued, for base models: those without a chat template."""
        return "\n".join(message["content"] for message in self.messages(problem))

    def conditions(self) -> Mapping[str, str]:
        """The conditions of grading on this machine, recorded with verdicts but in no key: {"sandbox": "bwrap"}."""
        return {}

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Grade one response; pure: same input, same verdict."""
        raise NotImplementedError

    def verify_all(self, problem: Problem, responses: Sequence[str]) -> list[Verdict]:
        """Grade many responses to one problem; override it if the grader is faster in batches."""
        return [self.verify(problem, response) for response in responses]

    def verdict_key(self, problem: Problem, response: str, answer: str | None) -> str | None:
        """Return a text that fixes the verdict: of a problem's responses with equal keys only one is graded.

        That holds for all pools of a store. None (the default): every response is graded, for tasks whose grading costs
        less than the look-up.

        answer  what `self.answer` returned for the response
        """
        return None

    def answer(self, problem: Problem, response: str) -> str | None:
        """The canonical final answer, extracted, not graded; None if there is none."""
        return None

    def answers(self, problem: Problem, responses: Sequence[str]) -> list[str | None]:
        """The answers of many responses to one problem; override it if the extraction is faster in batches."""
        return [self.answer(problem, response) for response in responses]

    def default_split(self, model: str) -> tuple[str, str]:
        """Return the split that a model is tested on, and a remark for the user or "".

        model  the engine's name for the model; "" if it is not known, e.g. for a pool file
        """
        return "test", ""

    # Defaults of a task that is `Measured`.

    def measurable(self, problem: Problem, responses: Sequence[str]) -> Sequence[str]:
        """The responses that have to be measured: all but those whose verdict needs no measurement."""
        return responses

    def seconds(self, counts: Sequence[tuple[Problem, int]]) -> float | None:
        """Return about how many seconds measuring takes, from a short probe; None: unknown.

        counts  pairs of a problem and how many of its responses are to be measured
        """
        return None

    def outlook(self, problems: Sequence[Problem], n: int) -> str:
        """Return a line on how long n responses to each problem would take, by arithmetic; "": unknown.

        The harness shows it if weights are missing, so that nothing can be timed.
        """
        return ""


@runtime_checkable
class Audited(Protocol):
    """A task with a second, stricter grader, which `--audit` and `--reward strict` use."""

    def audit(self, problem: Problem, response: str) -> Verdict | None:
        """The second grader's verdict; None if it cannot judge this response."""


@runtime_checkable
class Trainable(Protocol):
    """A task that RL trains on.

    rl   {"train": split, "dev": split, "test": split}; "reward": "strict" if `audit` gives the reward; only what
         differs from the paper: "settings" (fields of `training.Settings`) and "bonus" ({name: {parameter: value}})
    """

    @property
    def rl(self) -> Mapping[str, Any]: ...


class Ran(NamedTuple):
    """What running a response gave: its canonical answer, None if it has none, and the CPU seconds of the run."""

    answer: str | None
    cpu_s: float


@runtime_checkable
class AnswersByRunning(Protocol):
    """A task whose answers cost a run of each response: they are kept in the store, and tables show the cost.

    runs_answers  whether that holds with the task's present parameters; if not, `Task.answers` is asked
    """

    @property
    def runs_answers(self) -> bool: ...

    def run_answers(self, problem: Problem, responses: Sequence[str]) -> Sequence[Ran | None]:
        """Run each response, without any expected output; None for a fault of ours, after which it is run again.

        Equal programs may run once: the cost then stands with the first of them, and the others have 0.
        """


class Measurer(Protocol):
    """Measures responses; for tasks where measuring is costly and a verdict compares measurements with thresholds."""

    def identity(self) -> Mapping[str, Any]:
        """All that fixes the measurements: the key under which they are stored."""

    def measure(self, texts: Sequence[str]) -> Sequence[Mapping[str, float]]:
        """The measurements of each text by name, {} if it has none; equal texts always have equal measurements."""


@runtime_checkable
class Measured(Protocol):
    """A task that grades in two steps: measure the response, then judge the measurements.

    measured_together  after how many responses their measurements are stored
    """

    measured_together: ClassVar[int]

    def measurer(self) -> Measurer:
        """The object that measures responses."""

    def measurable(self, problem: Problem, responses: Sequence[str]) -> Sequence[str]: ...

    def judge(self, problem: Problem, response: str, measurements: Mapping[str, float]) -> Verdict:
        """The verdict on a response by its measurements ({}: it has none); pure and cheap.

        The measurements may come from another tool, with an imported pool.
        """

    def seconds(self, counts: Sequence[tuple[Problem, int]]) -> float | None: ...

    def outlook(self, problems: Sequence[Problem], n: int) -> str: ...
