"""The trainer `verl`: GRPO with the run's bonus inside verl 0.9.1, on GPUs, or on a CPU for small models.

No code of verl is forked or copied. This module is the harness' side and imports neither verl nor Ray: it finds verl's
environment, makes checks, composes the configuration, and gives the child's command. `verl_child` runs in that
environment.

Values of the configuration are the authors' (arXiv:2510.11686 or, if the paper does not say, the script of their
recipe), on top of verl's `ppo_trainer`. Every seed, which they leave open, comes from the run's. Differences: FSDP2
instead of FSDP1, and checkpoints that resume.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness import HarnessError

from ..environments.second_environment import SecondEnvironment
from ..models.location import locate
from . import preflight
from .checkpoints import complete
from .training import Checkpoint, Launch, TrainingRun, read_problems

VERSION = "0.9.1"  # verl_child overrides private methods of this one
VARIABLE = "HARNESS_VERL_PYTHON"
MAKE = 'make one: python -m venv .venv-verl && .venv-verl/bin/pip install "diversity-harness[verl]"'
VERL = SecondEnvironment("verl", "verl", VARIABLE, Path(".venv-verl") / "bin" / "python", MAKE)
CHILD = "harness_plugins.rl.verl_child"
RUN = "HARNESS_RL_RUN"  # environment variable of all processes of a run: the run's folder
STEP = "global_step_"
MARK = "complete"  # in a checkpoint's folder once everything is written
OPTIMISER = "actor/optim_*.pt"  # in a checkpoint's folder, a file a worker
HF = "hf"  # in a checkpoint's folder once it was exported: a folder in Hugging Face's format
TRAINER_MODE = "harness"  # the name of the harness' trainer in verl
TEMPLATE_DATE = "26 Jul 2024"  # of chat templates that print one; the harness' own engine writes the same
LOG_PROB_ROWS = 16  # in one forward pass without gradient, on each device
EPOCHS = 1000  # at least; steps end a run


@dataclass(frozen=True)
class Verl:
    """verl's GRPO.

    python    of verl's environment; None: HARNESS_VERL_PYTHON, this one, or .venv-verl
    hidden    whose hidden states the bonus sees: "ref" the initial model's, from the forward pass that the reference
              worker makes anyway; "policy" those of the policy that sampled the responses
    """

    saves: ClassVar[tuple[int, int]] = preflight.SAVES
    python: str | None = None
    hidden: Literal["ref", "policy"] = "ref"

    def check(self, run: TrainingRun) -> Sequence[str]:
        """Check whether the run can start here and return remarks for the user; HarnessError if a check fails.

        Ray is not started. Checked are verl's environment, how responses are divided over workers, and, unless the run
        is on a CPU, the number of GPUs, their memory, and vLLM.
        """
        python = find_python(self.python)
        versions = installed(python)
        rows = run.settings.mini_batch * run.settings.rollouts
        if rows % devices(run):
            raise HarnessError(
                f"verl: {rows} responses an update do not divide over {devices(run)} GPUs: change mini_batch"
            )
        remarks = [f"environment: {python}, verl {versions['verl']}"]
        if run.cpu:
            remarks.append("CPU: one worker, float32, sampled by the harness' own engine")
            copies = {"the reference": self.hidden == "ref" or run.settings.kl > 0, "the sampler's copy": True}
            return [*remarks, *preflight.one_device("verl", run, copies)]
        remarks += preflight.several_gpus(run)
        if versions["vllm"] is None:
            install = f'{python} -m pip install "verl[vllm]=={versions["verl"]}"'
            raise HarnessError(f"verl: {python} has no vllm, which samples on GPUs: {install}")
        return remarks

    fits = check  # it needs no problems

    def launch(self, run: TrainingRun) -> Launch:
        """Write the splits and `verl.yaml` to the run's folder, and return how to start the child."""
        python, folder = find_python(self.python), str(run.folder.absolute())
        data = {split: _write_split(run, split) for split in ("train", "dev") if split in run.problems}
        config = as_text(run, configuration(run, locate(run.model).source, data, self.hidden == "ref"))
        (run.folder / "verl.yaml").write_text(config, encoding="utf-8")
        modules = [os.environ.get("VERL_USE_EXTERNAL_MODULES"), CHILD]  # if its entry point is missing
        environment = {
            RUN: folder,
            "VERL_USE_EXTERNAL_MODULES": ",".join(filter(None, modules)),
            "RAY_USAGE_STATS_ENABLED": "0",
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONUNBUFFERED": "1",
        }
        if run.cpu:
            environment |= {"VERL_PLATFORM": "cpu", "VERL_ENGINE_DEVICE": "cuda"}
            environment["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
        return Launch([str(python), "-m", CHILD, folder], environment, config)

    def saved(self, run: TrainingRun) -> Sequence[Checkpoint]:
        """Return the complete checkpoints in the order of their steps: those that were marked at their end."""
        return complete(run, STEP, MARK)

    def export(self, run: TrainingRun, checkpoint: Checkpoint) -> Path:
        """Return a Hugging Face folder with the checkpoint's policy, in bfloat16.

        verl's merger writes it into the checkpoint at the first call. HarnessError if that fails.
        """
        target, actor = checkpoint.path / HF, checkpoint.path / "actor"
        if not self.exported(run, checkpoint):
            part = target.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            options = ["merge", "--backend", "fsdp", "--local_dir", str(actor), "--target_dir", str(part)]
            command = [str(find_python(self.python)), "-m", "verl.model_merger", *options]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
                raise HarnessError(f"verl: {actor} cannot be merged into a Hugging Face folder: {reason}")
            part.rename(target)
        return target

    def exported(self, run: TrainingRun, checkpoint: Checkpoint) -> Path | None:
        """Return what `export` would, if it was written already; else None."""
        target = checkpoint.path / HF
        return target if target.is_dir() else None


def _write_split(run: TrainingRun, split: str) -> Path:
    """Write a split as verl reads it; the reward function finds each problem by split and id."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = []
    for index, (problem, messages) in enumerate(read_problems(run.problems[split])):
        truth = problem.reference if isinstance(problem.reference, str) else json.dumps(problem.reference)
        rows.append(
            {
                "data_source": run.task.partition(":")[0],
                "prompt": [dict(message) for message in messages],
                "ability": "reasoning",
                "reward_model": {"style": "rule", "ground_truth": truth},
                "extra_info": {"split": split, "index": index, "problem": problem.id},
            }
        )
    path = run.folder / "data" / f"{split}.parquet"
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path.absolute()


# verl's environment.


def find_python(requested: str | None) -> Path:
    """Return the Python interpreter of verl's environment; HarnessError if none is found.

    It is `requested`, else the one that HARNESS_VERL_PYTHON names, else this process' own if that has verl, else that
    of `.venv-verl` in the working folder. `installed` checks what is in it.
    """
    return VERL.find(requested, find_spec)


def installed(python: Path) -> dict[str, str | None]:
    """Return the versions of what verl's environment has, by name; None for one that is not installed.

    HarnessError, one line, if a package other than vllm is missing or verl has another version than the plugin needs.
    """
    package = f'"verl[verl-core]=={VERSION}"'
    needed = {"verl": package, "TransferQueue": package, "diversity-harness": "diversity-harness"}  # verl loads us
    versions = VERL.versions(python, (*needed, "vllm"))
    for name, package in needed.items():
        if versions[name] is None:
            raise HarnessError(f"verl: {python} has no {name}: {python} -m pip install {package}")
    if (found := versions["verl"]) != VERSION:
        leans = f"but this plugin is for {VERSION} and leans on its private parts"
        raise HarnessError(f"verl: {python} has verl {found}, {leans}: {python} -m pip install {needed['verl']}")
    return versions


# The configuration.


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
        "reward.custom_reward_function": {"path": f"pkg://{CHILD}", "name": "compute_score"},
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
            "gpu_memory_utilization": preflight.sampler_share(s),
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
# What differs on CPUs: one process trains in float32, one samples (`verl_cpu`), with a small Ray.
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


def devices(run: TrainingRun) -> int:
    """Return the number of workers that train."""
    return 1 if run.cpu else run.settings.devices


def fitting(rows: int, at_most: int) -> int:
    """Return how many of a worker's `rows` go through one pass: their largest divisor up to `at_most`, for verl."""
    return next(size for size in range(max(1, min(rows, at_most)), 0, -1) if rows % size == 0)
