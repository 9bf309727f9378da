"""Estimate the memory that a run needs on each GPU, before anything is started, from the model's files alone.

Bytes a parameter: float32 weights, gradients and Adam's two moments are 16, shared by all GPUs (FSDP); the sampler's
bfloat16 weights are 2, shared by the GPUs that one sampler spans. The reference stays in the CPU's memory. Activations
and logits are not counted: a refused run cannot fit, and an accepted one may still run out of memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.system.json_text import parsed

from .training import Settings

GIB = 2**30
TRAINED = 16  # bytes a parameter while the policy is updated
RESTING = 12  # while the sampler runs, with gradients freed
SAMPLED = 2  # of the sampler's weights


@dataclass(frozen=True)
class Estimate:
    """GiB on each GPU.

    updating   weights, gradients and optimiser, while the sampler has freed its memory
    sampling   weights and optimiser, beside the sampler's share of the GPU
    sampler    the sampler's weights and the cache of one longest response: what its share must hold
    """

    parameters: int
    updating: float
    sampling: float
    sampler: float

    def require(self, gpu: float, share: float) -> str:
        """Return a remark; HarnessError, one line with the values, if a GPU of `gpu` GiB has too little memory."""
        has = f"a GPU has {gpu:.0f} GiB, of which the sampler takes {share:.0%}"
        needs = (
            f"{self.parameters / 1e9:.2f} B parameters need {self.updating:.1f} GiB a GPU to update (weights, "
            f"gradients, optimiser; the reference rests on the CPU), {self.sampling:.1f} beside the sampler, "
            f"and {self.sampler:.1f} inside it (weights, cache of one response)"
        )
        if self.sampling + share * gpu > gpu or self.sampler > share * gpu:
            raise HarnessError(f"verl: the model does not fit: {needs}; {has}: take more or larger GPUs")
        return f"memory: {needs}; {has}"


def estimate(parameters: int, config: Mapping[str, Any], settings: Settings) -> Estimate:
    """Return the estimate for a model with this number of parameters; `config` is the content of its config.json."""
    cache = cache_bytes(config) * (settings.max_prompt + settings.max_response)
    return Estimate(
        parameters=parameters,
        updating=TRAINED * parameters / settings.devices / GIB,
        sampling=RESTING * parameters / settings.devices / GIB,
        sampler=(SAMPLED * parameters + cache) / settings.tensor_parallel / GIB,
    )


def cache_bytes(config: Mapping[str, Any]) -> int:
    """Return the bytes of one token's keys and values in all layers, in bfloat16."""
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    return 2 * SAMPLED * config["num_hidden_layers"] * (config.get("num_key_value_heads") or heads) * width


def parameter_count(folder: Path, config: Mapping[str, Any]) -> int:
    """Return the number of parameters: counted in safetensors files, else that of a dense Llama with this config."""
    files = sorted(folder.glob("*.safetensors"))
    return sum(map(_elements, files)) if files else _of_dense(config)


def _elements(path: Path) -> int:
    """Return how many numbers a safetensors file holds, by its header."""
    with path.open("rb") as file:
        header = parsed(file.read(int.from_bytes(file.read(8), "little")), f"verl: {path}")
    return sum(prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")


def _of_dense(config: Mapping[str, Any]) -> int:
    d, heads = config["hidden_size"], config["num_attention_heads"]
    width = config.get("head_dim") or d // heads
    attention = 2 * d * width * (heads + (config.get("num_key_value_heads") or heads))
    layer = attention + 3 * d * config["intermediate_size"] + 2 * d
    embeddings = config["vocab_size"] * d * (1 if config.get("tie_word_embeddings") else 2)
    return embeddings + config["num_hidden_layers"] * layer + d
