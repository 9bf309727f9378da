"""Settings for the child of the `vllm` engine: how to load the model, environment variables, a sampler's parameters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import HarnessError, Sampler
from harness_plugins.models.adapter import Adapter

from .environment import cores

if TYPE_CHECKING:
    from .engine import Vllm


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
