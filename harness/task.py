"""What a task offers: all of them the members of `Task`; some, one or more of the protocols below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from .records import Message, Problem, Verdict


class Task:
    """Defaults for a task; a task file overrides what differs.

    n, max_tokens    small settings for daily use
    paper            the paper's pool settings: {"n": ..., "max_tokens": ..., "sampler": {...}}, perhaps a "split", and
                     "task": the parameters that the task itself takes under `--paper` and in RL: {"fallback": "no"}
    revision         of the data; part of every key
    grader           version of `verify` and `answer`; part of the verdicts' key
    owner            whose texts the problems are, where nobody may pass them on; `pool push` then does not push them
    default_model    the model that the task runs on when none is asked for; None = the engine's default
    defaults         options of `harness run` where they are not given: {"engine": ..., "embedder": ...}
    presets          named options, `--preset NAME`: {"quick": {"split": ..., "n": ..., "selector": [...]}}
    pools_as         the name under which pools are kept, for a task whose parameters change verdicts only
    reads_finish     whether verdicts depend on how a response ended. `verify`, `verdict_key`, `answer` and `audit` are
                     then given the keyword `finish`, "stop" or "length" (cut off by the token limit; "" where unknown,
                     to be taken as complete), and `verify_all` and `answers` a list of them, one for each response
    chance_gradings  how many gradings of a problem's responses against other problems' references `--audit` makes, to
                     say how often a verdict is correct by chance (`stages.chance`); 0: none
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
    reads_finish: ClassVar[bool] = False
    chance_gradings: ClassVar[int] = 0
    measured_together: ClassVar[int] = 64

    @property
    def revision(self) -> str:
        """What fixes the problems: a hub revision, a file's hash, a version of our own."""
        return "1"

    def problems(self, split: str) -> Iterable[Problem]:
        """The problems of a split, in a fixed order."""
        raise NotImplementedError

    def check(self, unsafe_exec: bool = False) -> str:
        """Raise HarnessError unless this machine can grade; a remark for the reader ("sandbox: bwrap"), or "".

        Called before the first token is sampled. `unsafe_exec`: the user accepts graders that run text unconfined.
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

    def verdict_key(self, problem: Problem, response: str, answer: str | None) -> str | None:
        """What the verdict depends on: of responses with equal keys one is graded, once for all pools of a store.

        None (the default): on the text, and grading it again costs less than looking it up.
        """
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

    # Defaults of a task that is `Measured`.

    def measurable(self, problem: Problem, responses: Sequence[str]) -> Sequence[str]:
        """Those of the responses that have to be measured; all, unless some are wrong whatever they measure."""
        return responses

    def seconds(self, counts: Sequence[tuple[Problem, int]]) -> float | None:
        """About how long measuring so many responses of each problem takes, from a short probe; None: unknown."""
        return None

    def outlook(self, problems: Sequence[Problem], n: int) -> str:
        """What n responses to each problem would take, by arithmetic alone, where weights are missing; "": unknown."""
        return ""


@runtime_checkable
class Audited(Protocol):
    """A task with a second, stricter grader, which `--audit` and `--reward strict` ask."""

    def audit(self, problem: Problem, response: str) -> Verdict | None:
        """What the second grader says; None where it says nothing of this response."""


@runtime_checkable
class Trainable(Protocol):
    """A task that RL trains on.

    rl   {"train": split, "dev": split, "test": split}; "reward": "strict" where `audit` is the reward; where they
         differ from the paper's, "settings" (fields of `training.Settings`) and "bonus" ({name: {parameter: value}})
    """

    @property
    def rl(self) -> Mapping[str, Any]: ...


class Measurer(Protocol):
    """Measures responses, where measuring is costly and the verdict is a matter of thresholds on what was measured."""

    def identity(self) -> Mapping[str, Any]:
        """All that fixes the measurements: the key under which they are kept."""

    def measure(self, texts: Sequence[str]) -> Sequence[Mapping[str, float]]:
        """The measurements of each text by name; {} for one that has none. The same text always gives the same."""


@runtime_checkable
class Measured(Protocol):
    """A task that judges by measurements, in two steps where others verify in one.

    measured_together  how many responses are measured before their measurements are kept
    """

    measured_together: ClassVar[int]

    def measurer(self) -> Measurer:
        """What measures the responses."""

    def measurable(self, problem: Problem, responses: Sequence[str]) -> Sequence[str]: ...

    def judge(self, problem: Problem, response: str, figures: Mapping[str, float]) -> Verdict:
        """The verdict by a response's measurements ({}: it has none), perhaps another maker's; pure and cheap."""

    def seconds(self, counts: Sequence[tuple[Problem, int]]) -> float | None: ...

    def outlook(self, problems: Sequence[Problem], n: int) -> str: ...
