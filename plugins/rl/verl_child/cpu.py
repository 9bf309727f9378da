"""verl on CPUs: a platform for it, and the `transformers` sampler; verl itself knows accelerators only.

Ray is told of GPUs that are not there (`num_gpus`), since verl places its workers by them. Engines are looked up as
CUDA's (`VERL_ENGINE_DEVICE=cuda`): they are plain FSDP2, which runs on gloo.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

NAME = "transformers"  # of the sampler
ENVIRONMENT = {"VERL_PLATFORM": "cpu", "VERL_ENGINE_DEVICE": "cuda"}


def register() -> None:
    """Platform and sampler, under their names."""
    PlatformRegistry.register(platform="cpu")(Cpu)
    RolloutReplicaRegistry.register(NAME, _replica)
    base._ROLLOUT_REGISTRY[NAME, "async"] = f"{__package__}.rollout.Weights"


def _replica() -> type[RolloutReplica]:
    from .rollout import Replica

    return Replica


class _Device(ModuleType):
    """What verl asks of `torch.cuda`, as a CPU answers: no memory of its own, nothing to wait for."""

    is_available = staticmethod(lambda: False)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: "cpu")
    get_device_name = staticmethod(lambda *_: "cpu")
    set_device = staticmethod(lambda *_: None)
    synchronize = staticmethod(lambda *_: None)
    empty_cache = staticmethod(lambda: None)
    ipc_collect = staticmethod(lambda: None)
    memory_allocated = max_memory_allocated = staticmethod(lambda *_: 0)
    memory_reserved = max_memory_reserved = staticmethod(lambda *_: 0)
    mem_get_info = staticmethod(lambda *_: (2**33, 2**34))
    get_rng_state = staticmethod(torch.get_rng_state)
    set_rng_state = staticmethod(torch.set_rng_state)
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)


_DEVICE = _Device("cpu")


class Cpu(PlatformBase):
    """A machine without accelerator."""

    device_name = "cpu"
    vendor_name = "generic"
    device_module = _DEVICE

    def is_available(self) -> bool:
        """Always."""
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Only where it is asked for by name: it is nobody's default."""
        return False

    def current_device(self) -> str:  # type: ignore[override]
        """What `.to(...)` takes."""
        return "cpu"

    def device_count(self) -> int:
        """One a process."""
        return 1

    def set_device(self, device_index: int) -> None:
        """There is one."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Nothing runs behind."""

    def manual_seed(self, seed: int) -> None:
        """Torch's own generator."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Torch's own generator."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """There are none."""

    def empty_cache(self) -> None:
        """There is none."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        """None of CUDA's."""
        return None, None

    def communication_backend_name(self) -> str:
        """Gloo."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """Ray's own, for the GPUs that it is told of."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """No profiler."""
        yield

    def profiler_start(self) -> None:
        """No profiler."""

    def profiler_stop(self) -> None:
        """No profiler."""

    def ray_resource_name(self) -> str:
        """By which verl places its workers."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """So that Ray does not hide devices."""
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        """Weights travel through Ray."""
        return False

    def cudart(self) -> Any:
        """None."""
        return None
