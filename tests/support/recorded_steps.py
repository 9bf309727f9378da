"""What the bonus `recording` kept of a run, and the runs that use it."""

from __future__ import annotations

from pathlib import Path

from safetensors import safe_open

from harness_plugins.rl.training import Rollouts, TrainingRun
from support.paths import SUPPORT
from support.recording_bonus import HOLD

RECORDING = SUPPORT / "recording_bonus.py"


def recorded(folder: Path, step: int) -> tuple[Rollouts, object]:
    """A step's rollouts as the bonus was given them, and the rewards that it returned."""
    with safe_open(folder / "recorded" / f"{step}.safetensors", "pt") as file:
        columns = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        shaped = columns.pop("shaped")
        return Rollouts(file.metadata()["problems"].splitlines(), **columns), shaped


def hold(run: TrainingRun | Path, step: int) -> Path:
    """Let the run stop in a step until the file that is returned is deleted."""
    folder = run if isinstance(run, Path) else run.folder
    (folder / "recorded").mkdir(parents=True)
    path = folder / "recorded" / f"{HOLD}{step}"
    path.touch()
    return path
