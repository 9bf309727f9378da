"""Compose verl's configuration of a run, on top of verl 0.9.1's `ppo_trainer`.

Values are the authors' (arXiv:2510.11686 or, if the paper does not say, the script of their recipe). Every seed, which
they leave open, comes from the run's. Differences: FSDP2 instead of FSDP1, and checkpoints that resume.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .training import Settings, TrainingRun

TRAINER_MODE = "harness"  # the name of the harness' trainer in verl
CHILD = "harness_plugins.rl.verl_child"
TEMPLATE_DATE = "26 Jul 2024"  # of chat templates that print one; the harness' own engine writes the same
LOG_PROB_ROWS = 16  # in one forward pass without gradient, on each device
LONG = 8192  # tokens of a prompt and its response; above it the sampler gets less memory
EPOCHS = 1000  # at least; steps end a run


def configuration(run: TrainingRun, model: str, data: Mapping[str, Path], with_ref: bool) -> dict[str, Any]:
    """Return the run's configuration as a nested mapping.

    model      a folder or hub id
    data       split -> parquet file
    with_ref   run the reference worker, even if the KL coefficient is 0
    """
    s, validates = run.settings, "dev" in data
    tokens, workers = s.max_prompt + s.max_response, devices(run)
    log_prob_rows = fitting(s.batch * s.rollouts // workers, max(LOG_PROB_ROWS, s.micro_batch))
    sections: dict[str, dict[str, Any]] = {
        "data": {
            "train_files": str(data["train"]),
            "val_files": str(data.get("dev", data["train"])),
            "val_max_samples": -1 if validates else 1,  # verl requires a file even if nothing is validated
            "train_batch_size": s.batch,
            "max_prompt_length": s.max_prompt,
            "max_response_length": s.max_response,
            "filter_overlong_prompts": True,
            "truncation": "error",
            "shuffle": True,
            "seed": run.seed,
            "apply_chat_template_kwargs": {"date_string": TEMPLATE_DATE},
        },
        "reward.custom_reward_function": {"path": f"pkg://{CHILD}.plugin", "name": "compute_score"},
        "algorithm": {"adv_estimator": "grpo", "norm_adv_by_std_in_grpo": True, "use_kl_in_reward": False},
        "actor_rollout_ref.model": {
            "path": model,
            "use_remove_padding": True,
            "enable_gradient_checkpointing": True,
        },
        "actor_rollout_ref.actor": {
            "strategy": "fsdp2",
            "optim.lr": s.learning_rate,
            "optim.lr_warmup_steps": 0,
            "optim.weight_decay": 0.01,
            "ppo_mini_batch_size": s.mini_batch,
            "ppo_micro_batch_size_per_gpu": fitting(s.mini_batch * s.rollouts // workers, s.micro_batch),
            "ppo_epochs": s.ppo_epochs,
            "clip_ratio": s.clip,
            "clip_ratio_low": s.clip,
            "clip_ratio_high": s.clip,
            "entropy_coeff": s.entropy,
            "loss_agg_mode": "token-mean",
            "use_kl_loss": with_ref or s.kl > 0,  # also with coefficient 0: then the reference only runs
            "kl_loss_coef": s.kl,
            "kl_loss_type": "low_var_kl",
            "data_loader_seed": run.seed,
            "fsdp_config.seed": run.seed,
        },
        "actor_rollout_ref.ref": {
            "fsdp_config.param_offload": True,
            "fsdp_config.seed": run.seed,
            "log_prob_micro_batch_size_per_gpu": log_prob_rows,
        },
        "actor_rollout_ref.rollout": {
            "name": "vllm",
            "n": s.rollouts,
            "temperature": s.temperature,
            "top_p": 1,
            "top_k": -1,
            "seed": run.seed,
            "tensor_model_parallel_size": s.tensor_parallel,
            "gpu_memory_utilization": sampler_share(s),
            "max_num_batched_tokens": max(8192, tokens),
            "log_prob_micro_batch_size_per_gpu": log_prob_rows,
            "val_kwargs": {"n": s.dev_samples, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "do_sample": True},
        },
        "trainer": {
            "v1.trainer_mode": TRAINER_MODE,
            "project_name": "diversity-harness",
            "experiment_name": run.folder.name,
            "logger": ["console"],
            "nnodes": 1,
            "n_gpus_per_node": workers,
            "total_epochs": max(s.steps or 0, EPOCHS),
            "total_training_steps": s.steps,
            "save_freq": s.save_every,
            "test_freq": s.save_every if validates else -1,
            "val_before_train": validates,
            "critic_warmup": 0,
            "resume_mode": "auto",
            "default_local_dir": str(run.checkpoints.absolute()),
        },
        "ray_kwargs.ray_init": {"address": "local", "include_dashboard": False},
    }
    tree: dict[str, Any] = {}
    for changes in (sections, ON_CPU if run.cpu else {}):
        for section, values in changes.items():
            for key, value in values.items():
                *path, name = f"{section}.{key}".split(".")
                place = tree
                for part in path:
                    place = place.setdefault(part, {})
                place[name] = value
    return tree


_FLOAT32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
# What differs on CPUs: one process trains in float32, one samples (`verl_child.cpu`), with a small Ray.
ON_CPU: Mapping[str, Mapping[str, Any]] = {
    "actor_rollout_ref": {
        "actor.fsdp_config.use_torch_compile": False,
        "ref.fsdp_config.use_torch_compile": False,
        "actor.fsdp_config.mixed_precision": _FLOAT32,
        "ref.fsdp_config.mixed_precision": {**_FLOAT32},  # a copy: yaml would write a reference
        "actor.use_torch_compile": False,
        "model.use_remove_padding": False,
        "model.enable_gradient_checkpointing": False,
        "model.override_config": {"attn_implementation": "sdpa"},
        "rollout.name": "transformers",
        "rollout.tensor_model_parallel_size": 1,
        "rollout.dtype": "float32",
        "rollout.agent.num_workers": 1,
    },
    "ray_kwargs.ray_init": {  # logical CPUs and GPUs
        "num_cpus": 16,
        "num_gpus": "${trainer.n_gpus_per_node}",
        "object_store_memory": 256 * 2**20,
    },
    "trainer": {"device": "cpu"},
    "reward": {"num_workers": 1},
    "data": {"dataloader_num_workers": 0},
    "transfer_queue.backend.SimpleStorage": {"num_data_storage_units": 1},
}


def as_text(run: TrainingRun, config: Mapping[str, Any]) -> str:
    """Return the text of `verl.yaml`, which hydra composes with verl's defaults.

    verl itself can run it too: `--config-dir FOLDER --config-name verl`.
    """
    import yaml

    head = {"hydra": {"searchpath": ["pkg://verl.trainer.config"]}, "defaults": ["ppo_trainer", "_self_"]}
    overrides = "".join(f"# {override}\n" for override in run.overrides)
    trailer = f"\n# Given on the command line; these come last and win:\n{overrides}" if overrides else ""
    return yaml.safe_dump(head | dict(config), sort_keys=False, width=120) + trailer


def sampler_share(settings: Settings) -> float:
    """Return the share of a GPU's memory that the sampler takes."""
    return 0.6 if settings.max_prompt + settings.max_response <= LONG else 0.5


def devices(run: TrainingRun) -> int:
    """Return the number of workers that train."""
    return 1 if run.cpu else run.settings.devices


def fitting(rows: int, at_most: int) -> int:
    """Return how many of a worker's `rows` go through one pass: their largest divisor up to `at_most`, for verl."""
    return next(size for size in range(max(1, min(rows, at_most)), 0, -1) if rows % size == 0)
