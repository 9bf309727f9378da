"""verl's worker, which also returns the responses' mean hidden states; no forward pass is added.

verl's engine keeps every output of `prepare_model_outputs` that has one row per row of the batch: it restores the order
of rows (dynamic batches), gathers the rows from all workers, and writes them to the queue under the output's name.
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

HIDDEN = "response_hidden_mean"  # the column's name in the queue

if os.environ.get("VERL_PLATFORM") == "cpu":  # pinned memory needs an accelerator
    transformer_impl.CPUOffloadPolicy = lambda pin_memory: CPUOffloadPolicy(pin_memory=False)


class PlainTraining(TrainingWorker):
    """A model in verl's worker; on CPUs its processes communicate by gloo."""

    def __init__(self, config: Any) -> None:
        if os.environ.get("VERL_PLATFORM") == "cpu":
            initialize_global_process_group_ray(timeout_second=None, backend="gloo")
        super().__init__(config)


class PoolingTraining(PlainTraining):
    """A model whose forward passes without gradient also return the responses' mean hidden states."""

    def reset(self) -> None:
        """Create the engine, and make it return the states."""
        super().reset()
        pool_from(self.engine)


class PlainWorker(ActorRolloutRefWorker):
    """A worker without hidden states: the bonus needs none, or another model gives them."""

    actor_worker_cls = PlainTraining
    ref_worker_cls = PlainTraining


class RefStates(PlainWorker):
    """A worker with hidden states of the reference, the model before training."""

    ref_worker_cls = PoolingTraining


class PolicyStates(PlainWorker):
    """A worker with hidden states of the policy that sampled the responses."""

    actor_worker_cls = PoolingTraining


def pool_from(engine: Any) -> None:
    """Make the engine return `HIDDEN` (rows, d) float32 from every forward pass without gradient."""
    outputs_of_decoder: list[torch.Tensor] = []
    decoder(engine.module).register_forward_hook(lambda module, args, output: outputs_of_decoder.append(output[0]))
    plain = engine.prepare_model_outputs

    def with_means(output: Any, output_args: Any, micro_batch: Any, logits_processor_func: Any) -> dict[str, Any]:
        outputs = plain(output, output_args, micro_batch, logits_processor_func)
        (states,) = outputs_of_decoder  # one forward pass, one output
        outputs_of_decoder.clear()
        if not torch.is_grad_enabled():
            lengths = micro_batch["prompts"].offsets().diff()
            outputs[HIDDEN] = response_means(states, micro_batch["input_ids"].offsets(), lengths)
        return outputs

    engine.prepare_model_outputs = with_means


def response_means(states: torch.Tensor, offsets: torch.Tensor, prompt_lengths: torch.Tensor) -> torch.Tensor:
    """Return the mean over each row's response tokens, end-of-sequence token included, (rows, d) float32.

    states (rows, longest, d) padded on the right, or (1, tokens, d) with the rows packed one after another; positions
    after the last row are ignored. Row i has the tokens from offsets[i] to offsets[i + 1], first those of its prompt. A
    row without a response gets its prompt's last state, as in the harness' own engine.
    """
    lengths = offsets.diff().tolist()
    packed = states.shape[0] == 1 and states.shape[1] >= int(offsets[-1])
    if not packed and (states.shape[0] != len(lengths) or states.shape[1] < max(lengths)):
        raise ValueError(f"states of shape {tuple(states.shape)} do not hold rows of {lengths} tokens")
    means = []
    for row, (length, prompt) in enumerate(zip(lengths, prompt_lengths.tolist(), strict=True)):
        start = int(offsets[row]) if packed else 0
        whole = states[0 if packed else row, start : start + length]
        means.append(whole[min(prompt, length - 1) :].float().mean(0))
    return torch.stack(means)


def decoder(module: Any) -> torch.nn.Module:
    """Return the part of a causal language model whose first output is the last hidden state, after the final norm.

    `module` may be wrapped by FSDP1 or by PEFT, one inside the other.
    """
    inner = getattr(module, "_fsdp_wrapped_module", module)
    inner = inner.get_base_model() if hasattr(inner, "peft_config") else inner
    decoding = inner.get_decoder()
    if decoding is None or decoding is inner:
        raise HarnessError(f"verl: {type(inner).__name__} does not say which part gives its hidden states")
    return decoding
