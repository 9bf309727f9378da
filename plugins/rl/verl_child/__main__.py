"""Run verl: `python -m harness_plugins.rl.verl_child FOLDER`, in verl's environment; started by the harness.

With `--compose` the configuration is only composed under verl's schema, checked and printed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness_plugins.rl.run_files import read_run

from ..training import TrainingRun
from . import RUN, contract
from .resuming import logged, tidy

REFUSED = 2
SHORT = 25  # bytes of the path of the temporary folder; Ray adds 66 to the path of the run's folder below it


def main() -> int:
    """Train the run of the folder that the command line names, or with `--compose` print its configuration.

    Return the exit status: 0, or `REFUSED` after one line on stderr that gives the reason.
    """
    parser = argparse.ArgumentParser(prog="verl_child")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compose", action="store_true")
    options = parser.parse_args()
    try:
        run = read_run(options.folder.absolute())
        config = _prepared(run)
        if options.compose:
            _print(config)
        else:
            _train(run, config)
    except HarnessError as refusal:
        print(refusal, file=sys.stderr)
        return REFUSED
    return 0


def _prepared(run: TrainingRun) -> Any:
    """Check that verl is the version that the plugin needs; return the composed configuration."""
    contract.require_version()
    os.environ[RUN] = str(run.folder)
    importlib.import_module("verl")  # loads the plugin

    from . import plugin

    contract.require()
    if plugin.failure is not None:
        raise HarnessError(f"verl: our plugin failed to load: {plugin.failure}")
    from .composing import compose

    return compose(run)


def _print(config: Any) -> None:
    from omegaconf import OmegaConf

    print(OmegaConf.to_yaml(config, resolve=True))


def _train(run: TrainingRun, config: Any) -> None:
    """Train to the last step, starting from the last complete checkpoint."""
    from omegaconf import open_dict
    from verl.trainer.main_ppo import TaskRunnerV1, run_ppo

    run.checkpoints.mkdir(exist_ok=True)
    resumed = tidy(run.checkpoints)
    with _ray_folder(run.folder) as folder, open_dict(config):
        config.ray_kwargs.ray_init._temp_dir = str(folder)
        config.trainer.val_before_train = config.trainer.val_before_train and not logged(run.metrics, resumed)
        run_ppo(config, TaskRunnerV1)


@contextmanager
def _ray_folder(run: Path) -> Iterator[Path]:
    """Yield a folder for Ray's files, used by this run alone, with a short path: a socket's has at most 107 bytes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the `finally` below runs
    temporary = tempfile.gettempdir()
    name = f"verl-{hashlib.sha256(str(run).encode()).hexdigest()[:10]}"
    folder = Path(temporary if len(temporary) <= SHORT else "/tmp") / name
    shutil.rmtree(folder, ignore_errors=True)  # left by a killed run
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        import ray

        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
