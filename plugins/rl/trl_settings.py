"""Translate the harness' settings to TRL: GRPO with verl's defaults, in the names of TRL 1.16.0's GRPOConfig.

A step is what verl calls a step: `batch` prompts with `rollouts` responses each, then `ppo_epochs` passes over them in
mini-batches. TRL counts updates; a step has `updates(settings)` of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from harness import HarnessError
from harness.errors import did_you_mean

from .training import Settings, TrainingRun

DUAL_CLIP = 3.0  # verl's clip_ratio_c, the largest ratio; TRL calls it delta
FOREVER = 1_000_000  # steps of a run that has no end
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


def updates(settings: Settings) -> int:
    """Return the number of updates of the policy in a step."""
    return settings.batch // settings.mini_batch * settings.ppo_epochs


def micro_batch(settings: Settings, processes: int) -> int:
    """Return the number of responses in a forward pass, at most `settings.micro_batch`.

    It divides the number of responses of a mini-batch that one process has.
    """
    share = settings.mini_batch * settings.rollouts // processes
    return next(size for size in range(min(settings.micro_batch, share), 0, -1) if share % size == 0)


def grpo_arguments(run: TrainingRun, processes: int, steps: int) -> dict[str, Any]:
    """Return the keyword arguments of TRL's GRPOConfig for `steps` more steps; the run's overrides come last."""
    settings = run.settings
    if settings.mini_batch % processes:
        raise HarnessError(f"trl: mini_batch {settings.mini_batch} cannot be shared by {processes} processes")
    rows = micro_batch(settings, processes)
    share = settings.mini_batch * settings.rollouts // processes
    return {
        "output_dir": str(run.folder / "trl"),
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": share // rows,
        "steps_per_generation": share // rows * (settings.batch // settings.mini_batch),
        "num_generations": settings.rollouts,
        "num_iterations": settings.ppo_epochs,
        "max_completion_length": settings.max_response,
        "max_steps": steps * updates(settings),
        "logging_steps": updates(settings),
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": "constant",
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "epsilon": settings.clip,
        "delta": DUAL_CLIP,
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
    } | overridden(run.overrides)


def overridden(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the TRL options given as `key=value`; HarnessError for one that a run may not set, or of a wrong type."""
    options: dict[str, Any] = {}
    for text in overrides:
        name, equals, value = text.partition("=")
        if not equals:
            raise HarnessError(f"trl: options are written key=value, got {text!r}")
        if name not in OPTIONS:
            raise HarnessError(
                f"trl: unknown option {name!r} {did_you_mean(name, OPTIONS).replace('installed', 'options')}"
            )
        options[name] = _typed(name, value)
    return options


def _typed(name: str, value: str) -> Any:
    kind = OPTIONS[name]
    if kind is float:
        try:
            return float(value)
        except ValueError:
            raise HarnessError(f"trl: {name} must be a number, got {value!r}") from None
    values: dict[str, Any] = {"true": True, "false": False} if kind is bool else {text: text for text in get_args(kind)}
    if value not in values:
        raise HarnessError(f"trl: {name} must be one of {', '.join(values)}, got {value!r}")
    return values[value]
