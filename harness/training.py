"""RL: what a bonus and a trainer offer, and the records that they are given and give back.

A trainer lives in an environment of its own and is joined to the harness by files: the harness writes the problems and
the settings, launches the trainer as a child, and reads the metrics and checkpoints that it leaves in the run's folder.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from .errors import HarnessError

Tensor: TypeAlias = Any  # torch's, which the core does not import
SPLITS = ("train", "dev", "test")
REWARDS = ("strict", "lenient", "verifier")
UNRECORDED = "unrecorded"


@dataclass(frozen=True)
class Rollouts:
    """One step's rollouts, m of them, in any order.

    problems   (m,) the problem's id; those of one problem in one step are a group
    rewards    (m,) float64, the verifier's: 1 correct, 0 not
    hidden     (m, d) float64, the mean hidden state of each response's tokens, where the bonus needs "hidden"
    logprobs   (m,) float64, the mean log-probability of each response's tokens under the policy that drew it, where the
               bonus needs "logprobs"
    """

    problems: Sequence[str]
    rewards: Tensor
    hidden: Tensor | None = None
    logprobs: Tensor | None = None

    def groups(self) -> dict[str, list[int]]:
        """Each problem's rows, problems in the order of their first row."""
        rows: dict[str, list[int]] = {}
        for row, problem in enumerate(self.problems):
            rows.setdefault(problem, []).append(row)
        return rows


@dataclass(frozen=True)
class Shaped:
    """The rewards that the policy is trained on, (m,) float64, and what a log should say of them."""

    rewards: Tensor
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """Of a run; the defaults are the paper's (arXiv:2510.11686, table of common RL hyperparameters).

    batch, mini_batch   prompts a step, prompts an update; each has `rollouts` responses
    micro_batch         responses in one forward pass, per device
    max_prompt, max_response   tokens
    steps               None: until it is stopped, as the paper's (a day)
    save_every          steps between two checkpoints, each validated on the dev split with `dev_samples` a problem
    devices, tensor_parallel   GPUs, and how many of them one sampler spans
    """

    learning_rate: float = 1e-6
    batch: int = 1024
    mini_batch: int = 256
    micro_batch: int = 16
    rollouts: int = 8
    ppo_epochs: int = 1
    clip: float = 0.2
    kl: float = 0.0
    entropy: float = 0.0
    temperature: float = 1.0
    max_prompt: int = 1024
    max_response: int = 1024
    steps: int | None = None
    save_every: int = 20
    dev_samples: int = 128
    devices: int = 8
    tensor_parallel: int = 2

    def __post_init__(self) -> None:
        counts = ("batch", "mini_batch", "micro_batch", "ppo_epochs", "max_prompt", "max_response", "save_every")
        for name in (*counts, "dev_samples", "devices", "tensor_parallel"):
            if getattr(self, name) < 1:
                raise HarnessError(f"rl: {name} must be at least 1, got {getattr(self, name)}")
        if self.steps is not None and self.steps < 1:
            raise HarnessError(f"rl: steps must be at least 1, got {self.steps}")
        if self.rollouts < 2:
            raise HarnessError(f"rl: rollouts must be at least 2 (GRPO compares them), got {self.rollouts}")
        if self.batch % self.mini_batch:
            raise HarnessError(f"rl: batch must be a multiple of mini_batch, got {self.batch} and {self.mini_batch}")
        if not self.learning_rate > 0:
            raise HarnessError(f"rl: learning_rate must be > 0, got {self.learning_rate}")


@dataclass(frozen=True)
class TrainingRun:
    """One training: what it is asked for, and the folder in which all of it lives.

    task, bonus, trainer   specs as on the command line
    data         split -> local file or folder of the task's; none: the task's own source
    model        hub id or folder; what the trainer loads
    problems     split -> JSONL file, one problem a line (id, prompt, reference, meta, messages), in the task's order
    overrides    the trainer's own options, `key=value`, which win over `settings`
    cpu          trains without a GPU
    reward       by which grader: "strict", the task's second one (`audit`); "lenient", its verifier; "verifier" where
                 a task has no second one; "unrecorded" in the folder of a run that is older than this record
    """

    folder: Path
    task: str
    model: str
    bonus: str
    trainer: str
    seed: int
    settings: Settings
    problems: Mapping[str, Path]
    data: Mapping[str, str] = field(default_factory=dict)
    overrides: Sequence[str] = ()
    cpu: bool = False
    plugin_files: Sequence[Path] = ()
    reward: str = "verifier"

    @property
    def metrics(self) -> Path:
        """JSONL, one line a step, appended by the trainer: {"step": 3, "reward": 0.4, ...}; see `METRICS`."""
        return self.folder / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.folder / "checkpoints"


# What every trainer logs a step, where it has it; shares and means are over groups or rollouts of the step.
METRICS = {
    "reward": "mean reward of the verifier",
    "bonus": "mean of what the bonus added",
    "bonus_spread": "standard deviation of that inside a group, mean over groups",
    "gated": "share of the groups to which the bonus did nothing by its gate",
    "all_correct": "share of the groups whose rollouts are all correct",
    "all_wrong": "share of the groups whose rollouts are all wrong",
    "entropy": "of the policy, nats a token",
    "response_tokens": "mean length of a response",
    "step_s": "seconds that the step took",
    "dev_pass_at_1": "on the dev split, where the step was validated",
}


@dataclass(frozen=True)
class Launch:
    """How a trainer is started: the command, what is added to the environment, and its whole configuration as text."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    config: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """One that is complete. `path` is the trainer's own; `Trainer.export` makes a Hugging Face folder of it."""

    step: int
    path: Path


class Bonus(Protocol):
    """Makes of the verifier's rewards those that the policy is trained on; pure, in float64.

    needs   what it reads beyond the rewards: "hidden", "logprobs" (see `Rollouts`)
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


def __getattr__(name: str) -> Any:
    """What has moved to the RL plugin, for one release more."""
    if name not in ("read_run", "read_problems", "read_metrics", "write_problems"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    print(f"harness.training.{name} has moved: import it from harness_plugins.rl.run_files", file=sys.stderr)
    return getattr(importlib.import_module("harness_plugins.rl.run_files"), name)
