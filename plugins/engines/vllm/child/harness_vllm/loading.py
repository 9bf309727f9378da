"""Load a model into vLLM: to sample responses, or to pool the states of given ones."""

from __future__ import annotations

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

# The versions whose private parts are those that the capture of states uses. With another one a second, pooling vLLM
# gives the states instead of the sampling pass, so that no state is wrong.
KNOWN = ("0.32.", "0.33.")


def load(settings: Mapping[str, Any]) -> tuple[Any, str]:
    """Load the model into vLLM; return the object that serves requests, and a reason.

    With settings["pooling"] it is a `Pooling`, for hidden states of given responses, and the reason is "". Else it
    is a `SamplingRunner`; the reason tells why it gives no hidden states while sampling, "" if it does.
    """
    if settings["kv_gib"] is not None or not os.environ.get(CACHE_VARIABLE):  # an empty one would end vLLM
        os.environ.pop(CACHE_VARIABLE, None)
    adapter = None
    if settings["adapter"] is not None:
        from vllm.lora.request import LoRARequest

        adapter = LoRARequest("adapter", 1, settings["adapter"])
    if settings["pooling"]:
        from vllm import LLM
        from vllm.config import PoolerConfig

        config = PoolerConfig(task="token_embed", use_activation=False)  # the unchanged state of every token
        llm = LLM(**_options(settings), runner="pooling", convert="embed", pooler_config=config)
        return Pooling(llm, settings["max_num_seqs"], adapter), ""
    name, number = installed()
    unknown = "" if number.startswith(KNOWN) else f"{name} {number} is none of the versions whose states can be taken"
    fault = settings["apart"] or unknown
    options = {**_options(settings), **SAMPLING}
    if not fault:
        options |= {"worker_extension_cls": "harness_vllm.worker.Capture"}
        options |= {"scheduler_cls": "harness_vllm.scheduler.one_step_more"}
    from vllm import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    engine = LLMEngine.from_engine_args(EngineArgs(**options))
    if adapter is not None:
        engine.add_lora(adapter)  # one that does not fit fails now, with its reason
    sampling = SamplingRunner(engine, settings["max_num_seqs"], adapter)
    if not fault:
        sampling.runner = str(engine.collective_rpc("harness_runner")[0])
        fault = next((str(each) for each in engine.collective_rpc("harness_install") if each), "")
    if not fault:
        try:
            tolerance = TOLERANCES.get(settings["dtype"], OTHER_TOLERANCE)
            fault = sampling.fault(engine.model_config.get_vocab_size(), tolerance)
        except Refused as refusal:
            fault = str(refusal)
    return sampling, fault


def _options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that sampling and pooling share."""
    options = {
        "model": settings["model"],
        "revision": settings["revision"],
        "dtype": settings["dtype"],
        "max_model_len": settings["max_model_len"],
        "max_num_seqs": settings["max_num_seqs"],
        "tensor_parallel_size": settings["tensor_parallel"],
        "enforce_eager": settings["enforce_eager"],
        "gpu_memory_utilization": settings["gpu_memory_utilization"],
        "generation_config": "vllm",  # none of the model's own decoding defaults
        "trust_remote_code": False,
        "seed": 0,
        "disable_log_stats": True,
    }
    if settings["device"] == "cpu":
        options |= {
            "enable_chunked_prefill": False,  # with seeds, vLLM fails on a CPU if it splits prefills
            "max_num_batched_tokens": max(LEAST_BATCH, settings["max_model_len"]),
            "gpu_memory_utilization": 0.1,  # vLLM compares it with what is free before it looks at the cache's own size
            "kv_cache_memory_bytes": _cpu_cache(settings),
        }
    if settings["kv_gib"] is not None:
        options["kv_cache_memory_bytes"] = int(settings["kv_gib"] * 2**30)
    if settings["adapter"] is not None:  # vLLM has room for ranks of certain sizes
        from vllm.config.lora import MaxLoRARanks

        rooms = [room for room in get_args(MaxLoRARanks) if room >= settings["adapter_rank"]]
        if not rooms:
            raise Refused(f"the adapter has rank {settings['adapter_rank']}, more than vLLM takes")
        # Only the layers that it changes: a prepared lm_head cannot score given responses on a CPU (vLLM 0.32).
        options |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": min(rooms)}
        options["lora_target_modules"] = settings["adapter_modules"]
    return options


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
