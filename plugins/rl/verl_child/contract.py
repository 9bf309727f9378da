"""Check that the installed verl has all private parts that the plugin uses, in the one version they are known from.

Most are methods whose names begin with an underscore, which verl's own trainer overrides or calls. They may change in
any release. They are checked in verl's environment before Ray is started: by name, and by the parameters used.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from harness import HarnessError

VERSION = "0.9.1"

Parameters = Sequence[str] | None  # None: only the name is checked

TRAINER = "verl.trainer.ppo.v1.trainer_base:PPOTrainer"
ENGINE = "verl.workers.engine.fsdp.transformer_impl"
WORKERS = "verl.workers.engine_workers"
REPLICA = "verl.workers.rollout.replica"

NEEDED: Mapping[str, Parameters] = {
    # the trainer: methods that are overridden or called
    "verl.trainer.main_ppo:run_ppo": ("config", "task_runner_class"),
    "verl.trainer.main_ppo:TaskRunnerV1": None,
    "verl.trainer.ppo.v1:register_trainer": ("name",),
    "verl.trainer.ppo.v1:PPOTrainerSync.on_init_end": ("self",),
    f"{TRAINER}.__init__": ("self", "config"),
    f"{TRAINER}.on_train_begin": ("self",),
    f"{TRAINER}._init_resource_pool_mgr": ("self",),
    f"{TRAINER}._load_checkpoint": ("self",),
    f"{TRAINER}._save_checkpoint": ("self",),
    f"{TRAINER}._validate": ("self",),
    f"{TRAINER}._balance_batch": ("self", "batch", "metrics", "logging_prefix", "keep_minibatch"),
    f"{TRAINER}._compute_old_log_prob": ("self", "batch", "metrics"),
    f"{TRAINER}._compute_ref_log_prob": ("self", "batch", "metrics"),
    f"{TRAINER}._compute_advantage": ("self", "batch", "metrics"),
    f"{TRAINER}._compute_metrics": ("self", "batch", "metrics", "timing_raw", "global_steps", "epoch"),
    "verl.trainer.ppo.utils:Role.ActorRolloutRef": None,
    "verl.trainer.ppo.utils:Role.Critic": None,
    "verl.trainer.ppo.utils:need_reference_policy": ("config",),
    "verl.trainer.ppo.utils:need_critic": ("config",),
    "verl.utils.config:validate_config": ("config", "use_reference_policy", "use_critic"),
    "verl.utils.device:auto_set_device": ("config",),
    "verl.utils.checkpoint.checkpoint_manager:get_checkpoint_tracker_filename": ("root_path",),
    # the workers, which give the hidden states
    f"{WORKERS}:ActorRolloutRefWorker.actor_worker_cls": None,
    f"{WORKERS}:ActorRolloutRefWorker.ref_worker_cls": None,
    f"{WORKERS}:TrainingWorker.__init__": ("self", "config"),
    f"{WORKERS}:TrainingWorker.reset": ("self",),
    f"{ENGINE}:FSDPEngineWithLMHead.prepare_model_outputs": (
        "self",
        "output",
        "output_args",
        "micro_batch",
        "logits_processor_func",
    ),
    f"{ENGINE}:CPUOffloadPolicy": None,
    "verl.utils.distributed:initialize_global_process_group_ray": ("timeout_second", "backend"),
    "verl.single_controller.ray.base:RayResourcePool.get_placement_groups": None,
    # the sampler and the platform for CPUs
    "verl.plugin.platform.platform_manager:PlatformRegistry.register": ("platform",),
    "verl.plugin.platform.platform_base:PlatformBase": None,
    f"{REPLICA}:RolloutReplicaRegistry.register": ("name", "loader"),
    f"{REPLICA}:RolloutReplica.launch_servers": ("self",),
    f"{REPLICA}:TokenOutput": None,
    "verl.workers.rollout.base:_ROLLOUT_REGISTRY": None,
    "verl.workers.rollout.base:BaseRollout.update_weights": ("self", "weights", "wire_format", "kwargs"),
    # the queue that carries a step's columns
    "transfer_queue:kv_batch_get": ("keys", "partition_id", "select_fields"),
    "transfer_queue:kv_batch_put": None,
    "transfer_queue:KVBatchMeta.reorder": ("self", "indexes"),
}


def require_version(find: Callable[[str], str] = version) -> None:
    """Raise HarnessError if verl is missing or has another version; verl is not imported."""
    try:
        installed = find("verl")
    except PackageNotFoundError:
        raise HarnessError(
            f'verl: not installed in this environment: pip install "verl[verl-core]=={VERSION}"'
        ) from None
    if installed != VERSION:
        raise HarnessError(
            f"verl: {installed} is installed, but this plugin leans on private parts of {VERSION}: "
            f'pip install "verl[verl-core]=={VERSION}"'
        )


def require(needed: Mapping[str, Parameters] = NEEDED) -> None:
    """Raise HarnessError, one line that names all differences, unless verl has everything in `needed`."""
    broken = [problem for place, parameters in needed.items() if (problem := _problem(place, parameters))]
    if broken:
        raise HarnessError(
            f"verl: this installation is not the {VERSION} that the plugin leans on: {'; '.join(broken)}: "
            f'pip install --force-reinstall --no-deps "verl=={VERSION}"'
        )


def _problem(place: str, parameters: Parameters) -> str:
    """Return what is wrong with one part, MODULE:NAME.NAME; "" if nothing is."""
    module, _, path = place.partition(":")
    try:
        part: Any = importlib.import_module(module)
        for name in path.split("."):
            part = getattr(part, name)
    except AttributeError:
        return f"{module} has no {path}"
    except Exception as failure:  # a module that cannot be imported may raise anything
        return f"{module} cannot be imported ({' '.join(str(failure).split())})"
    if parameters is None:
        return ""
    has = tuple(inspect.signature(part).parameters)
    return "" if has == tuple(parameters) else f"{place} takes ({', '.join(has)}), not ({', '.join(parameters)})"
