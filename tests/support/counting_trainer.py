"""A third party's trainer: its child counts steps, logs them, and saves embedded models as checkpoints.

Beside being a plugin it is its own child: `python counting_trainer.py FOLDER`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import HarnessError, hookimpl
from harness_plugins.models.location import embedded
from harness_plugins.rl.training import Checkpoint, Launch, read_metrics, read_run

MODELS = {2: "tiny24-weak", 4: "tiny24-medium", 6: "tiny24"}  # what it "learns" by these steps


@dataclass(frozen=True)
class Counting:
    """Counts.

    fails_at   the step at which it breaks, once
    fails_with the seed with which it does; None: with all
    killed     then by SIGKILL, not by an exception
    waits_at   the step before which it waits until the run's folder holds a file `go`
    """

    fails_at: int = 0
    fails_with: int | None = None
    killed: bool = False
    waits_at: int = 0

    def check(self, run):
        if "gpus=8" in run.overrides:
            raise HarnessError("counting: this machine has no 8 GPUs")
        return [f"counts to {run.settings.steps}"]

    def launch(self, run):
        (run.folder / "config.json").write_text(json.dumps(asdict(self)))
        config = f"fails_at: {self.fails_at}\noverrides: {list(run.overrides)}\n"
        return Launch([sys.executable, __file__, str(run.folder)], {"COUNTING": "yes"}, config)

    def saved(self, run):
        steps = sorted(int(path.name[5:]) for path in run.checkpoints.glob("step-*"))
        return [Checkpoint(step, run.checkpoints / f"step-{step}") for step in steps]

    def export(self, run, checkpoint):
        return checkpoint.path

    def exported(self, run, checkpoint):
        return None if (run.folder / "unexported").exists() else checkpoint.path


@hookimpl
def register_trainers(register):
    register("counting", Counting)


def count(folder: Path) -> None:
    run, config = read_run(folder), Counting(**json.loads((folder / "config.json").read_text()))
    done = max((checkpoint.step for checkpoint in config.saved(run)), default=0)
    earlier = [line for line in read_metrics(run.metrics) if line["step"] <= done]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in earlier))
    for step in range(done + 1, run.settings.steps + 1):
        while step == config.waits_at and not (folder / "go").exists():
            time.sleep(0.02)
        if config.fails_with in (None, run.seed) and step == config.fails_at and not (folder / "failed").exists():
            (folder / "failed").touch()
            if config.killed:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("the loss is not a number")
        figures = {"reward": step / 10, "bonus": 0.01, "bonus_spread": 0.001, "gated": 0.5, "step_s": 1.5}
        if step in MODELS:
            shutil.copytree(embedded(MODELS[step]), run.checkpoints / "part")
            os.rename(run.checkpoints / "part", run.checkpoints / f"step-{step}")
            figures["dev_pass_at_1"] = step / 10
        with run.metrics.open("a") as out:
            out.write(json.dumps({"step": step, **figures}) + "\n")
    print("counted")


if __name__ == "__main__":
    assert os.environ["COUNTING"] == "yes"
    count(Path(sys.argv[1]))
