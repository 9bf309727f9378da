"""The trainer `trl`: GRPO by TRL, for CPUs and single small GPUs, in the harness' own environment.

The run is a child process (`trl_child`), which samples with the harness' engine and shapes rewards with the same bonus
as every trainer; TRL does the loss and the updates. docs/rl.md says what equals verl and what does not.

A step is what verl calls a step: `batch` prompts with `rollouts` responses each, then `ppo_epochs` passes over them in
mini-batches. TRL counts updates; a step has `updates(settings)` of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness import HarnessError
from harness.system import extras

from ..engines.transformers.engine import Transformers
from . import preflight
from .checkpoints import complete
from .training import Checkpoint, Launch, Settings, TrainingRun, converted, read_problems
from .verl_trainer import fitting

VERSION = "1.16.0"  # trl_child overrides private methods of this one
STEP = "step-"
# TRL options that a run may set; all others follow from `Settings`, or would make a resumed run differ.
OPTIONS: Mapping[str, Any] = {
    "weight_decay": float,
    "adam_beta1": float,
    "adam_beta2": float,
    "adam_epsilon": float,
    "max_grad_norm": float,
    "epsilon_high": float,
    "delta": float,
    "loss_type": Literal["dapo", "grpo", "bnpo", "dr_grpo"],
    "importance_sampling_level": Literal["token", "sequence"],
    "top_entropy_quantile": float,
    "bf16": bool,
    "activation_checkpointing": bool,
}


@dataclass(frozen=True)
class Trl:
    """TRL's GRPO.

    hidden   whose hidden states the bonus sees: "ref", the run's initial model (as in the paper), or "policy"
    rows     responses sampled at once; halved if memory runs out
    """

    saves: ClassVar[tuple[int, int]] = preflight.SAVES
    hidden: Literal["ref", "policy"] = "ref"
    rows: int = 512

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise HarnessError(f"trl: rows must be at least 1, got {self.rows}")

    def check(self, run: TrainingRun) -> Sequence[str]:
        """Check whether the run can start here and return remarks for the user; HarnessError if a check fails.

        Checked are what `fits` checks, and the length of the first batch's prompts.
        """
        remarks = self.fits(run)
        chats = read_problems(run.problems["train"])[: run.settings.batch]
        engine = Transformers(model=run.model, device="cpu")
        engine.check([messages for _, messages in chats], run.settings.max_response)
        return remarks

    def fits(self, run: TrainingRun) -> Sequence[str]:
        """Check TRL and its version, the options, the GPU and the memory; return remarks. Needs no problems."""
        extras.require("trainer trl", "trl", "accelerate", "transformers", "torch")
        if (installed := metadata.version("trl")) != VERSION:
            needed = f"trl: trl {VERSION} is needed (parts of it are overridden), found {installed}"
            raise HarnessError(f"{needed}: pip install 'trl=={VERSION}'")
        grpo_arguments(run)
        reads = "hidden" in run.part("bonus").needs and self.hidden == "ref"
        return preflight.one_device("trl", run, {"the bonus' reference": reads, "the KL term's": run.settings.kl > 0})

    def launch(self, run: TrainingRun) -> Launch:
        """Return how to start the child, which resumes from the last complete checkpoint; write nothing."""
        return Launch(
            command=[sys.executable, "-m", "harness_plugins.rl.trl_child", str(run.folder)],
            environment={"TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
            | ({"CUDA_VISIBLE_DEVICES": ""} if run.cpu else {}),
            config=json.dumps(grpo_arguments(run), indent=1),
        )

    def saved(self, run: TrainingRun) -> Sequence[Checkpoint]:
        """Return the complete checkpoints in the order of their steps; an incomplete one has another name."""
        return complete(run, STEP)

    def export(self, run: TrainingRun, checkpoint: Checkpoint) -> Path:
        """Return the checkpoint's folder, which is already in Hugging Face's format."""
        return checkpoint.path

    exported = export


# The harness' settings in the names of TRL's GRPOConfig, with verl's defaults.


def updates(settings: Settings) -> int:
    """Return the number of updates of the policy in a step."""
    return settings.batch // settings.mini_batch * settings.ppo_epochs


def grpo_arguments(run: TrainingRun, done: int = 0) -> dict[str, Any]:
    """Return the keyword arguments of TRL's GRPOConfig for the steps after `done`; the run's overrides come last."""
    settings = run.settings
    share = settings.mini_batch * settings.rollouts  # responses of a mini-batch; those of a forward pass divide it
    rows = fitting(share, settings.micro_batch)
    return {
        "output_dir": str(run.folder / "trl"),
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": share // rows,
        "steps_per_generation": share // rows * (settings.batch // settings.mini_batch),
        "num_generations": settings.rollouts,
        "num_iterations": settings.ppo_epochs,
        "max_completion_length": settings.max_response,
        "max_steps": ((settings.steps or 0) - done) * updates(settings),
        "logging_steps": updates(settings),
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": "constant",
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "epsilon": settings.clip,
        "delta": 3.0,  # verl's clip_ratio_c, the largest ratio
        "beta": settings.kl,
        "entropy_coef": settings.entropy,
        "temperature": settings.temperature,
        "loss_type": "dapo",
        "scale_rewards": "group",
        "disable_dropout": True,
        "bf16": not run.cpu,
        "activation_checkpointing": not run.cpu,
        "use_cpu": run.cpu,
        "dataloader_pin_memory": not run.cpu,
        "seed": run.seed,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    } | converted(dict(override.split("=", 1) for override in run.overrides), OPTIONS, "trl", "option")
