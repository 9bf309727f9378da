"""A third party's trainer: its child counts steps, logs them, and saves embedded models as checkpoints.

Beside being a plugin it is its own child: `python counting_trainer.py FOLDER`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from harness import HarnessError, hookimpl
from harness.training import Checkpoint, Launch
from harness_plugins.rl.run_files import read_run

MODELS = {2: "tiny24-weak", 4: "tiny24-medium", 6: "tiny24"}  # what it "learns" by these steps


@dataclass(frozen=True)
class Counting:
    """Counts.

    fails_at   the step at which it breaks, once
    pause_s    between two steps
    """

    fails_at: int = 0
    pause_s: float = 0.0

    def check(self, run):
        if "gpus=8" in run.overrides:
            raise HarnessError("counting: this machine has no 8 GPUs")
        return [f"counts to {run.settings.steps}"]

    def launch(self, run):
        config = f"fails_at: {self.fails_at}\npause_s: {self.pause_s}\noverrides: {list(run.overrides)}\n"
        (run.folder / "config.json").write_text(json.dumps({"fails_at": self.fails_at, "pause_s": self.pause_s}))
        return Launch([sys.executable, __file__, str(run.folder)], {"COUNTING": "yes"}, config)

    def saved(self, run):
        found = sorted(run.checkpoints.glob("step-*"), key=lambda path: int(path.name[5:]))
        return [Checkpoint(int(path.name[5:]), path) for path in found]

    def export(self, run, checkpoint):
        return checkpoint.path


@hookimpl
def register_trainers(register):
    register("counting", Counting)


def count(folder: Path) -> None:
    from harness_plugins.models.tiny24 import folder as embedded
    from harness_plugins.rl.shaping import MetricsLog

    run, config = read_run(folder), json.loads((folder / "config.json").read_text())
    assert os.environ["COUNTING"] == "yes"
    done = max((int(path.name[5:]) for path in run.checkpoints.glob("step-*")), default=0)
    log = MetricsLog(run.metrics, resumed_after=done)
    for step in range(done + 1, run.settings.steps + 1):
        time.sleep(config["pause_s"])
        if step == config["fails_at"] and not (folder / "failed").exists():
            (folder / "failed").touch()
            raise ValueError("the loss is not a number")
        figures = {"reward": step / 10, "bonus": 0.01, "bonus_spread": 0.001, "gated": 0.5, "step_s": 1.5}
        if step in MODELS:
            shutil.copytree(embedded(MODELS[step]), run.checkpoints / "part")
            os.rename(run.checkpoints / "part", run.checkpoints / f"step-{step}")
            figures["dev_pass_at_1"] = step / 10
        log.append(step, figures)
    print("counted")


if __name__ == "__main__":
    count(Path(sys.argv[1]))
