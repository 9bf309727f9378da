"""A plugin of the tests: the bonus `recording`, which is RepExp's and keeps what it was given, step by step.

It writes to `recorded` in the folder that the environment variable HARNESS_RL_RUN names.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file

from harness import hookimpl
from harness_plugins.rl.rewards import RepExpBonus
from harness_plugins.rl.training import Rollouts

RECORDING = Path(__file__)


@dataclass(frozen=True)
class Recording(RepExpBonus):
    """With persistent memory, so that a resumed run has something to take up."""

    persist: bool = True

    def shape(self, rollouts, step, seed, memory):
        folder = Path(os.environ["HARNESS_RL_RUN"]) / "recorded"
        folder.mkdir(exist_ok=True)
        while (folder / f"hold-{step}").exists():
            time.sleep(0.05)
        shaped = super().shape(rollouts, step, seed, memory)
        columns = {"hidden": rollouts.hidden, "rewards": rollouts.rewards, "shaped": shaped.rewards}
        if rollouts.logprobs is not None:
            columns["logprobs"] = rollouts.logprobs
        save_file(columns, folder / f"{step}.safetensors", {"problems": "\n".join(rollouts.problems)})
        return shaped


@hookimpl
def register_bonuses(register) -> None:
    register("recording", Recording)


def recorded(folder: Path, step: int) -> tuple[Rollouts, object]:
    """A step's rollouts as the bonus was given them, and the rewards that it returned."""
    with safe_open(folder / "recorded" / f"{step}.safetensors", "pt") as file:
        columns = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        shaped = columns.pop("shaped")
        return Rollouts(file.metadata()["problems"].splitlines(), **columns), shaped


def hold(folder: Path, step: int) -> Path:
    """Let the run stop in a step until the file that is returned is deleted."""
    (folder / "recorded").mkdir(parents=True)
    path = folder / "recorded" / f"hold-{step}"
    path.touch()
    return path
