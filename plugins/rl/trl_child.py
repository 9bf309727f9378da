"""The child process of the trainer `trl`: `python -m harness_plugins.rl.trl_child FOLDER` trains the folder's run.

It resumes from the last complete checkpoint, and does nothing if that belongs to the run's last step.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness import HarnessError
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness_plugins.rl.run_files import read_run

from .trl_trainer import complete


def main(folder: Path) -> None:
    """Train the run of a folder to its last step."""
    run = read_run(folder)
    checkpoints = complete(run)
    resumed = checkpoints[-1] if checkpoints else None
    if resumed and run.settings.steps is not None and resumed.step >= run.settings.steps:
        return
    options = build(load_registry(run.plugin_files), "trainer", run.trainer)
    from .trl_grpo import GroupTrainer  # imports TRL

    GroupTrainer(run, options, resumed).train_on()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except HarnessError as failure:
        sys.exit(f"error: {failure}")
