"""The run that this process belongs to, and how its trainer was asked for."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.training import TrainingRun
from harness_plugins.rl.run_files import read_run

from . import RUN

if TYPE_CHECKING:
    from ..verl_trainer import Verl


@functools.cache
def current_run() -> TrainingRun:
    """The run in the folder that `RUN` names."""
    return read_run(Path(os.environ[RUN]))


def options(run: TrainingRun) -> Verl:
    """The trainer's parameters."""
    return build(load_registry(run.plugin_files), "trainer", run.trainer)
