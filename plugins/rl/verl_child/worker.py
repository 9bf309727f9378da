"""verl's worker, with the mean hidden states of responses among its outputs; no forward pass is added.

verl's engine keeps whatever `prepare_model_outputs` returns with a row for each of the batch's: it is put back in order
(dynamic batches), gathered from all workers, and written to the queue under its name.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.distributed.fsdp import CPUOffloadPolicy
from verl.utils.distributed import initialize_global_process_group_ray
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from harness import HarnessError

from .pooling import response_means

HIDDEN = "response_hidden_mean"  # the column

if os.environ.get("VERL_PLATFORM") == "cpu":  # pinned memory is an accelerator's
    transformer_impl.CPUOffloadPolicy = lambda pin_memory: CPUOffloadPolicy(pin_memory=False)


class PlainTraining(TrainingWorker):
    """One model of verl's worker; on CPUs its processes speak gloo."""

    def __init__(self, config: Any) -> None:
        if os.environ.get("VERL_PLATFORM") == "cpu":
            initialize_global_process_group_ray(timeout_second=None, backend="gloo")
        super().__init__(config)


class PoolingTraining(PlainTraining):
    """Its forward passes without gradient give the responses' mean hidden states too."""

    def reset(self) -> None:
        """The engine is made here."""
        super().reset()
        pool_from(self.engine)


class PlainWorker(ActorRolloutRefWorker):
    """No hidden states are wanted, or another model gives them."""

    actor_worker_cls = PlainTraining
    ref_worker_cls = PlainTraining


class RefStates(PlainWorker):
    """Those of the reference: the model before training."""

    ref_worker_cls = PoolingTraining


class PolicyStates(PlainWorker):
    """Those of the policy that drew the responses."""

    actor_worker_cls = PoolingTraining


def pool_from(engine: Any) -> None:
    """Have the engine return `HIDDEN` (rows, d) float32 with every forward pass without gradient."""
    seen: list[torch.Tensor] = []
    decoder(engine.module).register_forward_hook(lambda module, args, output: seen.append(output[0]))
    plain = engine.prepare_model_outputs

    def with_means(output: Any, output_args: Any, micro_batch: Any, logits_processor_func: Any) -> dict[str, Any]:
        outputs = plain(output, output_args, micro_batch, logits_processor_func)
        (states,) = seen  # one forward, one output
        seen.clear()
        if not torch.is_grad_enabled():
            lengths = micro_batch["prompts"].offsets().diff()
            outputs[HIDDEN] = response_means(states, micro_batch["input_ids"].offsets(), lengths)
        return outputs

    engine.prepare_model_outputs = with_means


def decoder(module: Any) -> torch.nn.Module:
    """The part of a causal language model whose output begins with the last hidden state after the final norm.

    `module` may be wrapped by FSDP1 or by PEFT, one inside the other.
    """
    inner = getattr(module, "_fsdp_wrapped_module", module)
    inner = inner.get_base_model() if hasattr(inner, "peft_config") else inner
    found = inner.get_decoder()
    if found is None or found is inner:
        raise HarnessError(f"verl: {type(inner).__name__} does not say which part gives its hidden states")
    return found
