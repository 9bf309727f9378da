"""RL: the protocols of a bonus and a trainer, and the records that they take and return.

A trainer has its own Python environment and exchanges only files with the harness: the harness writes the problems and
the settings, starts the trainer as a child process, and reads the metrics and checkpoints from the run's folder. The
functions at the end read and write these files.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from harness.errors import HarnessError, did_you_mean
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.records import Message, Problem
from harness.system import json_text
from harness.system.files import write_atomically

Tensor: TypeAlias = Any  # torch's, which only a trainer's environment must have
Chats: TypeAlias = Sequence[tuple[Problem, Sequence[Message]]]  # problems with their chat messages
SPLITS = ("train", "dev", "test")
HOURS = "hours.txt"  # in a run's folder, see `MetricsLog`


@dataclass(frozen=True)
class Rollouts:
    """The m rollouts of one training step, in any order.

    problems   (m,) the problem's id; the rollouts of one problem in one step are a group
    rewards    (m,) float64, the verifier's: 1 correct, 0 not
    hidden     (m, d) float64, the mean hidden state of each response's tokens, if the bonus needs "hidden"
    logprobs   (m,) float64, the mean log-probability of each response's tokens under the policy that sampled it, if the
               bonus needs "logprobs"
    """

    problems: Sequence[str]
    rewards: Tensor
    hidden: Tensor | None = None
    logprobs: Tensor | None = None

    def groups(self) -> dict[str, list[int]]:
        """Return problem id -> the indices of its rollouts; problems in the order of their first rollout."""
        rows: dict[str, list[int]] = {}
        for row, problem in enumerate(self.problems):
            rows.setdefault(problem, []).append(row)
        return rows


@dataclass(frozen=True)
class Shaped:
    """The rewards that the policy is trained on, (m,) float64, and metrics of them for the log."""

    rewards: Tensor
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """Hyperparameters of a run; the defaults are the paper's (arXiv:2510.11686, table of common RL hyperparameters).

    batch, mini_batch   prompts a step, prompts an update; each has `rollouts` responses
    micro_batch         responses in one forward pass, per device
    max_prompt, max_response   tokens
    steps               None: as many as `hours` allow
    hours               training ends after the step in which they are over, with a checkpoint; those of all commands on
                        a folder count together (see `MetricsLog`). The paper trains for 24. None: `steps` alone end it
    save_every          steps between two checkpoints, each validated on the dev split with `dev_samples` a problem
    keep                latest checkpoints that hold the optimiser's state, which only resuming needs
    devices, tensor_parallel   GPUs, and how many of them one copy of the sampling engine uses
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
    hours: float | None = None
    save_every: int = 20
    keep: int = 1
    dev_samples: int = 128
    devices: int = 8
    tensor_parallel: int = 2

    def __post_init__(self) -> None:
        for each in fields(self):
            value, least = getattr(self, each.name), 2 if each.name == "rollouts" else 1  # GRPO compares rollouts
            if str(each.type).startswith("int") and value is not None and value < least:
                raise HarnessError(f"rl: {each.name} must be at least {least}, got {value}")
        if self.batch % self.mini_batch:
            raise HarnessError(f"rl: batch must be a multiple of mini_batch, got {self.batch} and {self.mini_batch}")
        if self.hours is not None and not 0 < self.hours < math.inf:
            raise HarnessError(f"rl: hours must be > 0, got {self.hours}")
        if not self.learning_rate > 0:
            raise HarnessError(f"rl: learning_rate must be > 0, got {self.learning_rate}")


def converted(given: Mapping[str, Any], types: Mapping[str, Any], who: str, what: str) -> dict[str, Any]:
    """Return texts as values of the types that these names have; HarnessError for another name or a wrong value."""
    from pydantic import TypeAdapter, ValidationError

    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in types:
            raise HarnessError(f"{who}: no {what} {name!r} {did_you_mean(name, types, f'{what}s')}")
        try:
            values[name] = TypeAdapter(types[name]).validate_python(text)
        except ValidationError as failure:
            fault = failure.errors()[0]["msg"].removeprefix("Input should be ")
            raise HarnessError(f"{who}: {name} must be {fault}, got {text!r}") from None
    return values


@dataclass(frozen=True)
class TrainingRun:
    """One training: all its options, and the folder that holds all its files.

    task, bonus, trainer   specs as on the command line
    data         split -> local file or folder with the task's data; no entry: the task's default source
    model        hub id or folder; what the trainer loads
    problems     split -> JSONL file, one problem a line (id, prompt, reference, meta, messages), in the task's order
    overrides    options of the trainer itself, `key=value`; they take precedence over `settings`
    cpu          trains without a GPU
    reward       the grader that gives it: "strict", the task's second one (`audit`); "lenient", its verifier;
                 "verifier" if the task has no second one
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

    def part(self, kind: str, **options: Any) -> Any:
        """Return the run's task, bonus or trainer, built from its spec."""
        return build(load_registry(self.plugin_files), kind, getattr(self, kind), **options)

    @property
    def metrics(self) -> Path:
        """The file to which the trainer appends one line a step, {"step": 3, "reward": 0.4, ...}; see `METRICS`."""
        return self.folder / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"


# What every trainer logs at each step, as far as it knows it; shares and means are over groups or rollouts of the step.
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
    """How to start a trainer: the command, environment variables to add, and its whole configuration as text."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    config: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint in the trainer's own format; `Trainer.export` turns it into a Hugging Face folder."""

    step: int
    path: Path


class Bonus(Protocol):
    """Turns the verifier's rewards into those that the policy is trained on; pure, in float64.

    needs   what it reads besides the rewards: "hidden", "logprobs" (see `Rollouts`)
    """

    needs: Sequence[str]

    def shape(self, rollouts: Rollouts, step: int, seed: int, memory: dict[str, Tensor]) -> Shaped:
        """Return the rewards of one step's rollouts. Random numbers come from (seed, step) only.

        `memory` holds what the next steps have to know, and this method changes it in place. It is empty when the run
        starts, and saved in each checkpoint.
        """


class Trainer(Protocol):
    """Trains a model by RL, as a child process in its own Python environment.

    It may have `saves`: the bytes a parameter of a checkpoint's policy, and of the optimiser beside it in the latest
    `Settings.keep` ones. The disk that a run takes is estimated from these, and otherwise not known. And `fits`, with
    the signature of `check`, which is called before problems and models are fetched, with a run that has no problems
    yet: HarnessError if this machine has too few GPUs or too little memory. And `exported`, with the signature of
    `export`: the folder if it is there, else None; a dry run asks it.
    """

    def check(self, run: TrainingRun) -> Sequence[str]:
        """Return remarks for the user; HarnessError, one line, for whatever would make the training fail later."""

    def launch(self, run: TrainingRun) -> Launch:
        """Write what the child needs into the run's folder; return how to start it. Started again, it resumes.

        The child ends by itself: after `Settings.steps`, or after the step in which `Settings.hours` are over.
        """

    def saved(self, run: TrainingRun) -> Sequence[Checkpoint]:
        """The complete checkpoints, in the order of their steps."""

    def export(self, run: TrainingRun, checkpoint: Checkpoint) -> Path:
        """Return a Hugging Face folder with the checkpoint's policy and tokenizer; write it if it does not exist."""


# The files of a run's folder.


def write_run(run: TrainingRun) -> None:
    """Write the run to `run.json` in its folder, for its trainer to read; paths in the folder are relative to it."""
    problems = {split: os.path.relpath(path, run.folder) for split, path in run.problems.items()}
    text = json.dumps(asdict(run) | {"folder": ".", "problems": problems}, indent=1, default=str)
    (run.folder / "run.json").write_text(text + "\n", encoding="utf-8")


def read_run(folder: Path) -> TrainingRun:
    """Read the run of a folder; HarnessError if its `run.json` is missing or cannot be read."""
    file = folder / "run.json"
    if not file.exists():
        raise HarnessError(f"rl: {folder} holds no run.json: it is not the folder of an RL run")
    recorded = json_text.shaped(json_text.read(file, "rl:"), dict[str, Any], f"rl: {file}")
    run = json_text.shaped(recorded | {"folder": str(folder)}, TrainingRun, f"rl: {file}")
    return replace(run, problems={split: folder / path for split, path in run.problems.items()})


def write_problems(path: Path, chats: Chats) -> None:
    """Write problems with their chat messages, one JSON object per line."""
    with path.open("w", encoding="utf-8") as out:
        for problem, messages in chats:
            out.write(json.dumps(asdict(problem) | {"messages": list(messages)}) + "\n")


def read_problems(path: Path) -> list[tuple[Problem, list[Message]]]:
    """Read problems with their chat messages, as `write_problems` wrote them."""
    entries = [dict(line.value) for line in json_text.read_lines(path, "rl problems")]
    return [
        (Problem(**{key: entry[key] for key in ("id", "prompt", "reference", "meta")}), entry["messages"])
        for entry in entries
    ]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the numbers of the steps that a run has logged in its `metrics.jsonl` so far; [] if there is no such file.

    An incomplete line (of a killed run) is skipped, and so is what names no step.
    """
    steps = []
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            step = json_text.parsed(line, "metrics", lenient=True)
        except json_text.BadJSON:
            continue
        if isinstance(step, dict) and type(step.get("step")) is int:
            steps.append({name: value for name, value in step.items() if type(value) in (int, float)})
    return steps


def hours_spent(folder: Path) -> float:
    """Return the hours for which a run has trained so far, in all commands on its folder; 0.0 if it has not begun."""
    file = folder / HOURS
    return float(file.read_text(encoding="ascii")) if file.exists() else 0.0


class MetricsLog:
    """A run's `metrics.jsonl`, one line per step; creating it deletes the lines of steps after `resumed_after`.

    It is also the run's clock, which goes on from the earlier commands' hours. Steps that a killed command had logged
    and that are made again count twice; the start of a trainer, before its log, does not count.
    """

    def __init__(self, path: Path, resumed_after: int = 0) -> None:
        self.path, part = path, path.with_suffix(".part")
        self._began = time.monotonic() - 3600 * hours_spent(path.parent)
        earlier = [line for line in read_metrics(path) if line["step"] <= resumed_after]
        part.write_text("".join(json.dumps(line) + "\n" for line in earlier), encoding="utf-8")
        part.replace(path)

    def is_over(self, settings: Settings) -> bool:
        """Whether the run has trained for `Settings.hours`."""
        return settings.hours is not None and time.monotonic() - self._began >= 3600 * settings.hours

    def append(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append one step's metrics: those of `METRICS` first, then the trainer's; record the hours until now."""
        write_atomically(self.path.parent / HOURS, f"{(time.monotonic() - self._began) / 3600:.6f}\n".encode())
        ordered = {name: metrics[name] for name in METRICS if name in metrics} | dict(metrics)
        rounded = {name: float(f"{float(value):.6g}") for name, value in ordered.items()}
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"step": step, **rounded}) + "\n")
