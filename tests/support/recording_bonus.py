"""A plugin of the tests: the bonus `recording`, which is RepExp's and keeps what it was given, step by step.

It writes to `recorded` in the folder that the environment variable HARNESS_RL_RUN names.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save_file

from harness import hookimpl
from harness_plugins.rl.rewards import RepExpBonus

HOLD = "hold-"  # with a step's number, a file in that folder: the step does not come to its end while it is there


@dataclass(frozen=True)
class Recording(RepExpBonus):
    """With persistent memory, so that a resumed run has something to take up."""

    persist: bool = True

    def shape(self, rollouts, step, seed, memory):
        while (folder() / f"{HOLD}{step}").exists():
            time.sleep(0.05)
        shaped = super().shape(rollouts, step, seed, memory)
        columns = {"hidden": rollouts.hidden, "rewards": rollouts.rewards, "shaped": shaped.rewards}
        if rollouts.logprobs is not None:
            columns["logprobs"] = rollouts.logprobs
        save_file(columns, folder() / f"{step}.safetensors", {"problems": "\n".join(rollouts.problems)})
        return shaped


def folder() -> Path:
    """Where the steps are kept."""
    path = Path(os.environ["HARNESS_RL_RUN"]) / "recorded"
    path.mkdir(exist_ok=True)
    return path


@hookimpl
def register_bonuses(register) -> None:
    register("recording", Recording)
