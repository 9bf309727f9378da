"""A plugin of the tests: the bonus `recording`, which is RepExp's and keeps what it was given, step by step."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save_file

from harness import hookimpl
from harness_plugins.rl.repexp_bonus import RepExpBonus

HOLD = "hold"  # a file in the folder: step 3 does not come to its end


@dataclass(frozen=True)
class Recording(RepExpBonus):
    """With persistent memory, so that a resumed run has something to take up."""

    persist: bool = True

    def shape(self, rollouts, step, seed, memory):
        if step == 3 and (folder() / HOLD).exists():
            time.sleep(60)  # here the test ends it
        shaped = super().shape(rollouts, step, seed, memory)
        columns = {"hidden": rollouts.hidden, "logprobs": rollouts.logprobs, "rewards": rollouts.rewards}
        problems = "\n".join(rollouts.problems)
        save_file(columns | {"shaped": shaped.rewards}, folder() / f"{step}.safetensors", {"problems": problems})
        return shaped


def folder() -> Path:
    """Where the steps are kept."""
    path = Path(os.environ["HARNESS_RL_RUN"]) / "recorded"
    path.mkdir(exist_ok=True)
    return path


@hookimpl
def register_bonuses(register) -> None:
    register("recording", Recording)
