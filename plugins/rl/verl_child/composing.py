"""Compose a run's configuration by hydra on verl's defaults, and refuse those with which states would be wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir, initialize_config_module
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config
from verl.utils.device import auto_set_device

from harness import HarnessError

from ..shaping import Shaping
from ..training import TrainingRun
from ..verl_config import BEYOND_SCHEMA
from .run_options import options


def compose(run: TrainingRun) -> DictConfig:
    """Return the run's configuration: verl's `ppo_trainer`, changed by the run's `verl.yaml` and then its overrides.

    HarnessError if it is not valid, or if the hidden states that the bonus needs could not be read with it.
    """
    try:
        with initialize_config_dir(str(run.folder), version_base=None):
            config = hydra_compose("verl", overrides=list(run.overrides))
        _require_known(run)
        _require_readable_states(run, config)
        auto_set_device(config)
        with redirect_stdout(sys.stderr):  # the function prints
            validate_config(config, need_reference_policy(config), need_critic(config))
    except (HydraException, OmegaConfBaseException, AssertionError, ValueError, TypeError) as failure:
        reason = " ".join(str(failure).split())
        raise HarnessError(f"verl: the configuration is refused: {reason}") from failure
    return config


def _require_known(run: TrainingRun) -> None:
    """Raise HarnessError if `verl.yaml` has a key that verl's schema lacks; hydra checks only the overrides."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        schema = dict(_leaves(OmegaConf.to_container(hydra_compose("ppo_trainer"))))
    for key, _ in _leaves(OmegaConf.to_container(OmegaConf.load(run.folder / "verl.yaml"))):
        if key not in schema and not key.startswith(("hydra.", "defaults", *BEYOND_SCHEMA)):
            raise HarnessError(f"verl: verl.yaml: verl has no key {key!r}")


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of every entry that is not a mapping."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _require_readable_states(run: TrainingRun, config: DictConfig) -> None:
    """Raise HarnessError unless the hidden states can be read: FSDP with whole rows, and a model that runs."""
    actor, model = config.actor_rollout_ref.actor, config.actor_rollout_ref.model
    if not config.trainer.use_v1:
        raise HarnessError("verl: trainer.use_v1=False: the plugin is for verl's V1 trainer")
    if not Shaping(run).needs("hidden"):
        return
    hidden = options(run).hidden
    if hidden == "encoder":
        return
    if actor.strategy not in ("fsdp", "fsdp2"):
        raise HarnessError(f"verl: strategy={actor.strategy}: hidden states are read from FSDP; take hidden=encoder")
    if actor.ulysses_sequence_parallel_size > 1:
        size = actor.ulysses_sequence_parallel_size
        raise HarnessError(
            f"verl: ulysses_sequence_parallel_size={size} cuts rows apart: set it to 1, or hidden=encoder"
        )
    lora = model.lora_rank > 0 or model.lora.rank > 0 or model.lora_adapter_path is not None
    if hidden == "ref" and lora:
        raise HarnessError("verl: with LoRA there is no reference worker to read: take hidden=encoder or hidden=policy")
    if hidden == "ref" and not need_reference_policy(config):
        raise HarnessError(
            "verl: hidden=ref needs the reference to run: leave actor.use_kl_loss=True (kl_loss_coef=0.0)"
        )
    bypass = config.algorithm.rollout_correction.get("bypass_mode", False)
    if hidden == "policy" and bypass:
        raise HarnessError(
            "verl: hidden=policy needs the policy's own forward: leave rollout_correction.bypass_mode off"
        )
