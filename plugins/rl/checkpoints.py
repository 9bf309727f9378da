"""The checkpoints in a run's folder: which are complete, which is the best, and what they hold beside the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .training import Checkpoint, TrainingRun, read_metrics

if TYPE_CHECKING:
    import torch

STEP_METRICS = "figures.json"  # in a checkpoint's folder: metrics of its step, whose line in the log comes after it
MEMORY = "bonus.safetensors"  # in a checkpoint's folder: the bonus' memory, needed to resume


def complete(run: TrainingRun, prefix: str, mark: str = "") -> list[Checkpoint]:
    """Return the run's checkpoints in the order of their steps: folders `prefix`STEP that hold the file `mark`."""
    folders = {path.name.removeprefix(prefix): path for path in run.checkpoints.glob(f"{prefix}*")}
    steps = {int(step): path for step, path in folders.items() if step.isdecimal() and (path / mark).exists()}
    return [Checkpoint(step, steps[step]) for step in sorted(steps)]


def keep_in_latest(keep: int, checkpoints: Sequence[Checkpoint], files: str) -> None:
    """Delete the files (a pattern) that only resuming needs from all checkpoints but the latest `keep`."""
    for earlier in checkpoints[:-keep]:
        for file in earlier.path.glob(files):
            file.unlink(missing_ok=True)


def best_step(run: TrainingRun, steps: Sequence[int]) -> tuple[int, float] | None:
    """Return which of `steps` has the highest dev pass@1 (on a tie the earlier) and the value; None if none has it."""
    by_step = {line["step"]: line["dev_pass_at_1"] for line in read_metrics(run.metrics) if "dev_pass_at_1" in line}
    validated = [(step, by_step[step]) for step in sorted(steps) if step in by_step]
    return max(validated, key=lambda candidate: candidate[1], default=None)


def save_memory(memory: Mapping[str, torch.Tensor], checkpoint: Path) -> None:
    """Write what a bonus remembers, if anything, into a checkpoint's folder."""
    from safetensors.torch import save_file

    if memory:
        save_file({name: value.contiguous() for name, value in memory.items()}, checkpoint / MEMORY)


def load_memory(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Return what a bonus remembered at a checkpoint; {} if nothing."""
    from safetensors.torch import load_file

    path = checkpoint / MEMORY
    return load_file(path) if path.exists() else {}
