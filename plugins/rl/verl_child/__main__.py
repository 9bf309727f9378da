"""Run verl: `python -m harness_plugins.rl.verl_child FOLDER`, in verl's environment; started by the harness.

The run's configuration is composed by hydra on verl's defaults, and those with which states would be wrong are refused.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from harness import HarnessError

from ..rewards import Shaping
from ..training import TrainingRun, read_metrics, read_run
from ..verl_trainer import STEP
from . import RUN

REFUSED = 2
SHORT = 25  # bytes of the path of the temporary folder; Ray adds 66 to the path of the run's folder below it
TRACKER = "latest_checkpointed_iteration.txt"  # verl reads from it the checkpoint to resume from


def main() -> int:
    """Train the run of the folder that the command line names, from its last complete checkpoint to its last step.

    Return the exit status: 0, or `REFUSED` after one line on stderr that gives the reason.
    """
    try:
        run = read_run(Path(sys.argv[1]).absolute())
        os.environ[RUN] = str(run.folder)
        import verl  # noqa: F401  # loads the plugin

        from . import plugin

        if plugin.failure is not None:
            raise HarnessError(f"verl: our plugin failed to load: {plugin.failure}")
        _train(run, compose(run))
    except HarnessError as refusal:
        print(refusal, file=sys.stderr)
        return REFUSED
    return 0


def compose(run: TrainingRun) -> Any:
    """Return the run's configuration: verl's `ppo_trainer`, changed by the run's `verl.yaml` and then its overrides.

    HarnessError if it is not valid, or if the hidden states that the bonus needs could not be read with it.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.device import auto_set_device

    try:
        with initialize_config_dir(str(run.folder), version_base=None):
            config = hydra_compose("verl", overrides=list(run.overrides))
        _require_readable_states(run, config, need_reference_policy(config))
        auto_set_device(config)
        with redirect_stdout(sys.stderr):  # the function prints
            validate_config(config, need_reference_policy(config), need_critic(config))
    except (HydraException, OmegaConfBaseException, AssertionError, ValueError, TypeError) as failure:
        reason = " ".join(str(failure).split())
        raise HarnessError(f"verl: the configuration is refused: {reason}") from failure
    return config


def _require_readable_states(run: TrainingRun, config: Any, with_reference: bool) -> None:
    """Raise HarnessError unless the hidden states can be read: FSDP with whole rows, and a model that runs."""
    actor, model = config.actor_rollout_ref.actor, config.actor_rollout_ref.model
    hidden = run.part("trainer").hidden if Shaping(run).needs("hidden") else ""
    lora = model.lora_rank > 0 or model.lora.rank > 0 or model.lora_adapter_path is not None
    parts = actor.ulysses_sequence_parallel_size
    bypass = config.algorithm.rollout_correction.get("bypass_mode", False)
    faults = {
        "trainer.use_v1=False: the plugin is for verl's V1 trainer": not config.trainer.use_v1,
        f"strategy={actor.strategy}: hidden states are read from FSDP: take fsdp2": (
            hidden and actor.strategy not in ("fsdp", "fsdp2")
        ),
        f"ulysses_sequence_parallel_size={parts} cuts rows apart: set it to 1": hidden and parts > 1,
        "with LoRA there is no reference worker to read: take hidden=policy": hidden == "ref" and lora,
        "hidden=ref needs the reference to run: leave actor.use_kl_loss=True (kl_loss_coef=0.0)": (
            hidden == "ref" and not with_reference
        ),
        "hidden=policy needs the policy's own forward: leave rollout_correction.bypass_mode off": (
            hidden == "policy" and bypass
        ),
    }
    for reason, applies in faults.items():
        if applies:
            raise HarnessError(f"verl: {reason}")


def _train(run: TrainingRun, config: Any) -> None:
    from omegaconf import open_dict
    from verl.trainer.main_ppo import TaskRunnerV1, run_ppo

    run.checkpoints.mkdir(exist_ok=True)
    resumed = tidy(run)
    # A run may be killed after its checkpoint and before that step's line in the log: then it is validated again.
    logged = any(line["step"] == resumed for line in read_metrics(run.metrics))
    with _ray_folder(run.folder) as folder, open_dict(config):
        config.ray_kwargs.ray_init._temp_dir = str(folder)
        config.trainer.val_before_train = config.trainer.val_before_train and not logged
        run_ppo(config, TaskRunnerV1)


def tidy(run: TrainingRun) -> int:
    """Delete incomplete checkpoints, write the last complete one's step to verl's file, and return it; 0 if none is."""
    whole = {checkpoint.path: checkpoint.step for checkpoint in run.part("trainer").saved(run)}
    for folder in run.checkpoints.glob(f"{STEP}*"):
        if folder not in whole:
            shutil.rmtree(folder)
    tracker, step = run.checkpoints / TRACKER, max(whole.values(), default=0)
    tracker.unlink(missing_ok=True)
    if step:
        tracker.write_text(str(step), encoding="ascii")
    return step


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
