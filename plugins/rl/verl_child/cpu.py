"""Run verl on CPUs: a platform and the sampler `transformers`; verl itself supports accelerators only.

Ray is told of GPUs that do not exist (`num_gpus`), since verl places its workers by GPU. Engines are looked up under
the name of CUDA (`VERL_ENGINE_DEVICE=cuda`): they are plain FSDP2, which also runs on gloo.
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

NAME = "transformers"  # the sampler's name in verl
ENVIRONMENT = {"VERL_PLATFORM": "cpu", "VERL_ENGINE_DEVICE": "cuda"}


def register() -> None:
    """Register the platform and the sampler in verl."""
    PlatformRegistry.register(platform="cpu")(Cpu)
    RolloutReplicaRegistry.register(NAME, _replica)
    base._ROLLOUT_REGISTRY[NAME, "async"] = f"{__package__}.rollout.Weights"


def _replica() -> type[RolloutReplica]:
    from .rollout import Replica

    return Replica


class _Device(ModuleType):
    """The functions of `torch.cuda` that verl calls, for a CPU: no device memory, nothing to synchronize."""

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
    """verl's platform for a machine without accelerator."""

    device_name = "cpu"
    vendor_name = "generic"
    device_module = _DEVICE

    def is_available(self) -> bool:
        """Return True: a CPU is always available."""
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Return False, so that verl uses this platform only if it is requested by name."""
        return False

    def current_device(self) -> str:
        """Return the device for `.to(...)`."""
        return "cpu"

    def device_count(self) -> int:
        """Return 1: each process has one device."""
        return 1

    def set_device(self, device_index: int) -> None:
        """Do nothing: there is only one device."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Do nothing: no operation runs in the background."""

    def manual_seed(self, seed: int) -> None:
        """Seed torch's CPU generator."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed torch's CPU generator."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """Do nothing: there is no device allocator."""

    def empty_cache(self) -> None:
        """Do nothing: there is no cache."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        """Return (None, None): a CPU has no CUDA capability."""
        return None, None

    def communication_backend_name(self) -> str:
        """Return the backend of `torch.distributed`."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """Return the name of the environment variable that Ray sets for the GPUs that it is told of."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """Do nothing: there is no profiler."""
        yield

    def profiler_start(self) -> None:
        """Do nothing: there is no profiler."""

    def profiler_stop(self) -> None:
        """Do nothing: there is no profiler."""

    def ray_resource_name(self) -> str:
        """Return the Ray resource by which verl places its workers."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """Return the names of the environment variables (here one) that stop Ray from hiding devices."""
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        """Return False: weights are sent through Ray."""
        return False

    def cudart(self) -> Any:
        """Return None: there is no CUDA runtime."""
        return None
