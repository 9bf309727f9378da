"""Read the run that this process belongs to, and the parameters of its trainer."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness_plugins.rl.run_files import read_run

from ..training import TrainingRun
from . import RUN

if TYPE_CHECKING:
    from ..verl_trainer import Verl


@functools.cache
def current_run() -> TrainingRun:
    """Return the run in the folder that the environment variable HARNESS_RL_RUN names."""
    return read_run(Path(os.environ[RUN]))


def options(run: TrainingRun) -> Verl:
    """Return the run's trainer, built from `run.trainer`: its fields are the trainer's options."""
    return build(load_registry(run.plugin_files), "trainer", run.trainer)
