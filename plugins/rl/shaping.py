"""Parts that every trainer's process uses: the grader as a reward, the bonus with its memory, the metrics file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from harness import HarnessError
from harness.plugin_system.component import build, parse_spec
from harness.plugin_system.registry import load_registry
from harness.records import Problem, Verdict, error
from harness_plugins.rl.run_files import read_metrics

from .training import METRICS, REWARDS, Rollouts, Shaped, TrainingRun

MEMORY = "bonus.safetensors"  # in a checkpoint's folder: the bonus' memory, needed to resume


class Grader:
    """The run's grader as a reward; safe to call from any thread.

    `errors` counts the verdicts `error` that `rewards` met, not those of `verdicts`: such a verdict does not say
    whether the response is correct.
    HarnessError if the run does not record which grader its reward comes from.
    """

    def __init__(self, run: TrainingRun) -> None:
        if run.reward not in REWARDS:
            raise HarnessError(
                f"rl: the reward of {run.folder} must be one of {', '.join(REWARDS)}, got {run.reward!r}"
            )
        self.task = build(load_registry(run.plugin_files), "task", run.task, data=run.data.get("train"))
        self.strict = run.reward == "strict"
        self.errors = 0

    def rewards(self, problem: Problem, responses: Sequence[str], finish: Sequence[str] | None = None) -> list[float]:
        """Return 1.0 for each correct response, else 0.0; `finish` says how each ended (None: unknown)."""
        verdicts = self.verdicts(problem, responses, finish)
        self.errors += sum(verdict.status == "error" for verdict in verdicts)
        return [float(verdict.status == "correct") for verdict in verdicts]

    def verdicts(
        self, problem: Problem, responses: Sequence[str], finish: Sequence[str] | None = None
    ) -> list[Verdict]:
        """Return the verdicts of the strict grader if the run's reward is strict, else of the verifier."""
        ends = finish if finish is not None else [""] * len(responses)
        if not self.strict:
            return list(self.task.verify_all(problem, responses, finish=ends))
        return [self._strict(problem, text) for text in responses]

    def _strict(self, problem: Problem, text: str) -> Verdict:
        verdict: Verdict | None = self.task.audit(problem, text)
        return error("the strict grader says nothing") if verdict is None else verdict


class Shaping:
    """The run's bonus, and the memory that it keeps between steps."""

    def __init__(self, run: TrainingRun) -> None:
        self.bonus: Any = build(load_registry(run.plugin_files), "bonus", run.bonus)
        self.name, self.seed = parse_spec(run.bonus).name, run.seed
        self.memory: dict[str, torch.Tensor] = {}

    def needs(self, column: str) -> bool:
        """Return whether the bonus reads this field of `Rollouts`, "hidden" or "logprobs"."""
        return column in self.bonus.needs

    def shape(self, rollouts: Rollouts, step: int) -> Shaped:
        """Return the rewards to train on, float64 on the CPU, and the step's metrics."""
        with torch.no_grad():
            return self.bonus.shape(rollouts, step, self.seed, self.memory)

    def save(self, checkpoint: Path) -> None:
        """Write the memory to a checkpoint's folder; write nothing if it is empty."""
        if self.memory:
            save_file({name: value.contiguous() for name, value in self.memory.items()}, checkpoint / MEMORY)

    def load(self, checkpoint: Path) -> None:
        """Load the memory from a checkpoint's folder; it is empty if the checkpoint has none."""
        path = checkpoint / MEMORY
        self.memory = load_file(path) if path.exists() else {}


class MetricsLog:
    """A run's `metrics.jsonl`, one line per step; creating it deletes the lines of steps after `resumed_after`."""

    def __init__(self, path: Path, resumed_after: int = 0) -> None:
        self.path = path
        earlier = [line for line in read_metrics(path) if line.get("step", 0) <= resumed_after]
        text = "".join(json.dumps(line) + "\n" for line in earlier)
        part = path.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)

    def append(self, step: int, metrics: dict[str, float]) -> None:
        """Append one step's metrics: those of `harness_plugins.rl.training.METRICS` first, then the trainer's."""
        ordered = {name: metrics[name] for name in METRICS if name in metrics} | metrics
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"step": step, **{k: _short(v) for k, v in ordered.items()}}) + "\n")


def _short(value: float) -> float:
    return float(f"{float(value):.6g}")
