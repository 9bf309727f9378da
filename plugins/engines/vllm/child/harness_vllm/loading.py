"""Load a model into vLLM: to sample responses, or to pool the states of given ones."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args

import numpy as np

from .protocol import Arrays
from .sampling import Refused, Row, SamplingRunner

BLOCK = 128  # tokens in a block of the KV cache on a CPU
LEAST_BATCH = 2048  # tokens scheduled in a step on a CPU, at least
CACHE_VARIABLE = "VLLM_CPU_KVCACHE_SPACE"
SAMPLING = {
    "max_logprobs": 1,
    "logprobs_mode": "raw_logprobs",  # temperature 1, nothing filtered
    "enable_prefix_caching": True,
}
TOLERANCES = {"float32": 1e-3}
OTHER_TOLERANCE = 5e-2  # for half precision

# The private parts of vLLM that we use, checked by name and parameters before a model is loaded. If a part needed for
# states differs, a second, pooling engine gives the states instead of the sampling pass, so that no state is wrong.
KNOWN = "vLLM 0.32"

NEEDED_TO_SAMPLE: Mapping[str, Sequence[str]] = {
    "vllm.v1.engine.llm_engine:LLMEngine.add_request": ("request_id", "prompt", "params", "lora_request"),
    "vllm.v1.engine.llm_engine:LLMEngine.from_engine_args": ("engine_args",),
    "vllm.v1.engine.llm_engine:LLMEngine.step": (),
    "vllm.renderers.base:BaseRenderer.render_cmpl": ("prompts",),
    "vllm.v1.engine.llm_engine:LLMEngine.collective_rpc": ("method", "args"),
    "vllm.v1.engine.llm_engine:LLMEngine.abort_request": ("request_ids",),
}
NEEDED_FOR_STATES: Mapping[str, Sequence[str]] = {
    "vllm.v1.core.sched.scheduler:Scheduler._update_request_with_output": ("request", "new_token_ids"),
    "vllm.config:SchedulerConfig.get_scheduler_cls": (),
    "vllm.v1.request:RequestStatus.FINISHED_STOPPED": (),
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner.sample_tokens": ("grammar_output",),
    "vllm.v1.worker.gpu_model_runner:ExecuteModelState.scheduler_output": (),
    "vllm.v1.worker.gpu_model_runner:ExecuteModelState.hidden_states": (),
    "vllm.v1.worker.gpu_input_batch:InputBatch.req_ids": (),
    "vllm.v1.core.sched.output:SchedulerOutput@num_scheduled_tokens": (),
    "vllm.v1.core.sched.output:SchedulerOutput@total_num_scheduled_tokens": (),
}


def load(settings: Mapping[str, Any]) -> tuple[Any, str]:
    """Load the model into vLLM; return the object that serves requests, and a reason.

    With settings["pooling"] it is a `Pooling`, for hidden states of given responses, and the reason is "". Else it
    is a `SamplingRunner`; the reason tells why it gives no hidden states while sampling, "" if it does. Raises
    Refused if the installed vLLM differs in a part that sampling needs.
    """
    _settle_cache_variable(settings["kv_gib"] is not None)
    _require_import()
    if settings["pooling"]:
        return Pooling(_pooling(settings), settings["max_num_seqs"], _adapter(settings)), ""
    broken = differs(NEEDED_TO_SAMPLE)
    if broken:
        raise Refused(f"this vLLM ({' '.join(installed())}) is not like {KNOWN}: {broken}")
    fault = settings["apart"] or differs(NEEDED_FOR_STATES)
    options = {**_options(settings), **SAMPLING}
    if not fault:
        options |= {"worker_extension_cls": "harness_vllm.worker.Capture"}
        options |= {"scheduler_cls": "harness_vllm.scheduler.one_step_more"}
    from vllm import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    engine = LLMEngine.from_engine_args(EngineArgs(**options))
    adapter = _adapter(settings)
    if adapter is not None:
        engine.add_lora(adapter)  # one that does not fit fails now, with its reason
    sampling = SamplingRunner(engine, settings["max_num_seqs"], adapter)
    return sampling, fault or _fault_of_states(engine, sampling, settings["dtype"])


def _pooling(settings: Mapping[str, Any]) -> Any:
    """Return vLLM as a pooling runner that gives the unchanged state of every token."""
    from vllm import LLM
    from vllm.config import PoolerConfig

    config = PoolerConfig(task="token_embed", use_activation=False)
    return LLM(**_options(settings), runner="pooling", convert="embed", pooler_config=config)


def _settle_cache_variable(sized: bool) -> None:
    """Unset the variable for the cache's size if an option sets the size, or if it is empty (vLLM would fail)."""
    if sized or not os.environ.get(CACHE_VARIABLE):
        os.environ.pop(CACHE_VARIABLE, None)


def _fault_of_states(engine: Any, sampling: SamplingRunner, dtype: str) -> str:
    """Return why states cannot be taken while sampling; "" if they can."""
    sampling.runner = str(engine.collective_rpc("harness_runner")[0])
    for fault in engine.collective_rpc("harness_install"):
        if fault:
            return str(fault)
    vocabulary = engine.model_config.get_vocab_size()
    try:
        return sampling.fault(vocabulary, TOLERANCES.get(dtype, OTHER_TOLERANCE))
    except Refused as refusal:
        return str(refusal)


def _require_import() -> None:
    try:
        import vllm  # noqa: F401
        from vllm import LLM  # noqa: F401
    except Exception as failure:  # a broken environment may raise anything
        reason = " ".join(str(failure).split())
        if "torchvision" in reason or "torchcodec" in reason or "torchaudio" in reason:
            raise Refused(
                "a CUDA build of torchvision, torchaudio or torchcodec stands beside a CPU build of torch: "
                "pip uninstall -y torchvision torchaudio torchcodec, in vLLM's environment (text needs none of them)"
            ) from failure
        raise Refused(f"vLLM cannot be imported: {reason[:300]}") from failure


def _options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that sampling and pooling share."""
    return {
        "model": settings["model"],
        "revision": settings["revision"],
        "dtype": settings["dtype"],
        "max_model_len": settings["max_model_len"],
        "max_num_seqs": settings["max_num_seqs"],
        "tensor_parallel_size": settings["tensor_parallel"],
        "enforce_eager": settings["enforce_eager"],
        "generation_config": "vllm",  # none of the model's own decoding defaults
        "trust_remote_code": False,
        "seed": 0,
        "disable_log_stats": True,
        **_memory(settings),
        **_adapter_options(settings),
    }


def _adapter(settings: Mapping[str, Any]) -> Any:
    """Return the adapter that all requests take; None if there is none."""
    if settings["adapter"] is None:
        return None
    from vllm.lora.request import LoRARequest

    return LoRARequest("adapter", 1, settings["adapter"])


def _adapter_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for an adapter. vLLM has room for ranks of certain sizes.

    Only the layers that it changes are prepared: a prepared lm_head cannot score given responses on a CPU (vLLM 0.32).
    """
    if settings["adapter"] is None:
        return {}
    from vllm.config.lora import MaxLoRARanks

    rooms = [room for room in get_args(MaxLoRARanks) if room >= settings["adapter_rank"]]
    if not rooms:
        raise Refused(f"the adapter has rank {settings['adapter_rank']}, more than vLLM takes")
    sizes = {"max_loras": 1, "max_lora_rank": min(rooms)}
    return {"enable_lora": True, **sizes, "lora_target_modules": settings["adapter_modules"]}


def _memory(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the memory options. On a CPU prefills are not split: with seeds, vLLM fails there."""
    cache_size = {} if settings["kv_gib"] is None else {"kv_cache_memory_bytes": int(settings["kv_gib"] * 2**30)}
    if settings["device"] != "cpu":
        return {"gpu_memory_utilization": settings["gpu_memory_utilization"], **cache_size}
    batch = max(LEAST_BATCH, settings["max_model_len"])
    return {
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": batch,
        "gpu_memory_utilization": 0.1,  # vLLM compares it with what is free before it looks at the cache's own size
        "kv_cache_memory_bytes": _cpu_cache(settings),
        **cache_size,
    }


def _cpu_cache(settings: Mapping[str, Any]) -> int:
    """Return bytes: all sequences at full length, at most a quarter of the free memory, at least two sequences."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(settings["model"], revision=settings["revision"]).get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token = 2 * config.num_hidden_layers * heads * size * (4 if settings["dtype"] == "float32" else 2)
    sequence = (-(-settings["max_model_len"] // BLOCK) + 1) * BLOCK * token
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(max(2 * sequence, min(settings["max_num_seqs"] * sequence, free // 4)))


class Pooling:
    """vLLM as a pooling runner: pools the token states of given responses, one chunk at a time."""

    runner = ""

    def __init__(self, llm: Any, sequences: int, adapter: Any = None) -> None:
        self.llm, self.sequences, self.adapter = llm, sequences, adapter

    def encode(self, head: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[tuple[dict[str, Any], Arrays]]:
        """Yield the states of given responses, `sequences` rows at a time, as `SamplingRunner.encode` does."""
        from vllm import PoolingParams, TokensPrompt

        for start in range(0, len(rows), self.sequences):
            some = rows[start : start + self.sequences]
            outputs = self.llm.encode(
                [TokensPrompt(prompt_token_ids=row.prompt + row.tokens) for row in some],
                PoolingParams(use_activation=False),
                pooling_task="token_embed",
                use_tqdm=False,
                lora_request=self.adapter,
            )
            pooled_rows = [
                pooled(output.outputs.data.float().numpy()[len(row.prompt) - 1 :], head["states"])
                for row, output in zip(some, outputs, strict=True)
            ]
            columns = {kind: np.stack([states[kind] for states in pooled_rows]) for kind in pooled_rows[0]}
            yield {"first": start, "n": len(some)}, columns


def pooled(states: np.ndarray[Any, Any], kinds: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Pool the states (1 + T, width) of the prompt's last position and the T response tokens to a vector per kind."""
    behind = states[1:] if len(states) > 1 else states
    all_kinds = {"mean": behind.mean(0), "last": states[-1], "penultimate": states[max(0, len(states) - 2)]}
    return {kind: np.asarray(all_kinds[kind], np.float32) for kind in kinds}


def installed() -> tuple[str, str]:
    """Return the name of the installed vLLM distribution, and its version."""
    for name in ("vllm-cpu", "vllm"):
        try:
            return name, version(name)
        except PackageNotFoundError:
            continue
    return "vllm", "unknown"


def differs(needed: Mapping[str, Sequence[str]]) -> str:
    """Return in one line how the installed vLLM differs from the needed parts; "" if it does not.

    needed   {place in vLLM: the names of the parameters that it must take}
    """
    return "; ".join(problem for place, takes in needed.items() if (problem := _problem(place, takes)))


def _problem(place: str, takes: Sequence[str]) -> str:
    """Return what is wrong with a place, MODULE:NAME.NAME, or MODULE:CLASS@FIELD of a dataclass; "" if nothing is."""
    module, _, path = place.partition(":")
    path, _, field = path.partition("@")
    try:
        part: Any = importlib.import_module(module)
        for name in path.split("."):
            part = getattr(part, name)
    except AttributeError:
        return f"{module} has no {path}"
    except Exception as failure:  # a module that cannot be imported may raise anything
        return f"{module} cannot be imported ({' '.join(str(failure).split())})"
    if field and field not in getattr(part, "__annotations__", {}):
        return f"{module}.{path} has no {field}"
    has = inspect.signature(part).parameters if takes else {}
    lacks = [name for name in takes if name not in has]
    return f"{place} takes no {', '.join(lacks)}" if lacks else ""
