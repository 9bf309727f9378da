"""Code that runs inside verl's processes, attached to verl's extension points; its training loop is not copied.

`python -m harness_plugins.rl.verl_child FOLDER`, in verl's environment, trains the folder's run; the harness starts it.
The configuration is composed by hydra on verl's defaults; one with which states would be wrong is refused.

verl also imports this module as a plugin (entry-point group `verl.plugins`) in each of its processes, in every run on
the machine. It then does nothing unless the variable `RUN` names the folder of a run of the harness. verl ignores
exceptions of plugins, so a failure is printed and stored in `failure`, and the process that starts Ray refuses to
continue. All that is used of verl, private parts too, is that of one version (`verl_trainer.VERSION`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.records import Problem

from .rewards import Grader, Shaping
from .training import TrainingRun, read_metrics, read_problems, read_run
from .verl_trainer import RUN, STEP

REFUSED = 2
SHORT = 25  # bytes of the path of the temporary folder; Ray adds 66 to the path of the run's folder below it
TRACKER = "latest_checkpointed_iteration.txt"  # verl reads from it the checkpoint to resume from
ERRORS = "grading_errors.jsonl"  # in the run's folder: verdicts `error`; they count as wrong
failure: Exception | None = None


def main() -> int:
    """Train the run of the folder that the command line names, from its last complete checkpoint to its last step.

    Return the exit status: 0, or `REFUSED` after one line on stderr that gives the reason.
    """
    try:
        run = read_run(Path(sys.argv[1]).absolute())
        import verl  # noqa: F401  # loads this module again, as the plugin

        from . import verl_child as plugin

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


# The plugin.


def activate() -> None:
    """Register the harness' trainer in verl, and on CPUs also a platform and a sampler."""
    if os.environ.get("VERL_PLATFORM") == "cpu":
        import_module(f"{__package__}.verl_cpu").register()
    import_module(f"{__package__}.verl_steps")  # registers itself


@functools.cache
def current_run() -> TrainingRun:
    """Return the run in the folder that the environment variable `RUN` names."""
    return read_run(Path(os.environ[RUN]))


@functools.cache
def _graded() -> tuple[Grader, dict[tuple[str, str], Problem]]:
    """The run's grader, and its problems by split and id."""
    run = current_run()
    problems = [(split, problem) for split, path in run.problems.items() for problem, _ in read_problems(path)]
    return Grader(run), {(split, problem.id): problem for split, problem in problems}


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any, **_: Any) -> float:
    """Return 1.0 for a correct response `solution_str`, else 0.0; verl does not say whether the response was cut off.

    verl calls it from many threads, with one response. The problem is found by `extra_info`: its "split" and, as
    "problem", its id. A verdict `error` counts as wrong and is appended to `ERRORS`, by a single write, since several
    processes may write.
    """
    grader, problems = _graded()
    problem = problems[extra_info["split"], extra_info["problem"]]
    verdict = grader.verdicts(problem, [solution_str], [""])[0]
    if verdict.status == "error":
        line = json.dumps({"problem": problem.id, "reason": str(verdict.reason)}) + "\n"
        with (current_run().folder / ERRORS).open("ab", buffering=0) as out:
            out.write(line.encode())
    return float(verdict.status == "correct")


if __name__ == "__main__":
    sys.exit(main())
if os.environ.get(RUN):  # imported by verl
    try:
        activate()
    except Exception as raised:
        failure = raised
        traceback.print_exc(file=sys.stderr)
