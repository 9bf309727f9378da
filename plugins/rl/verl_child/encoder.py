"""Compute hidden states with a separate model, any Hugging Face encoder, in Ray actors beside verl's workers.

An encoder with the policy's vocabulary reads the tokens of prompt and response, and the mean is over the response's
tokens (as the authors do, with the initial model). An encoder with another vocabulary reads only the response's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ray
import torch
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from verl.utils.device import get_device_name

from harness_plugins.models.checkpoint import quiet
from harness_plugins.models.location import locate

from .pooling import response_means

ROWS = 16  # in one forward pass
SHARE = 0.25  # of a GPU; verl's worker takes a third of each


class Encoder:
    """A Ray actor with the encoder, on the GPU that Ray assigned to it, or on the CPU.

    model    hub id or folder of the encoder
    policy   that of the model being trained, with whose tokenizer the token ids were made
    """

    def __init__(self, model: str, policy: str) -> None:
        from transformers import AutoModel, AutoTokenizer

        source = locate(model).source
        self.device = get_device_name()
        with quiet():
            dtype = torch.float32 if self.device == "cpu" else torch.bfloat16
            self.model = AutoModel.from_pretrained(source, dtype=dtype).to(self.device).eval()
            self.tokenizer = AutoTokenizer.from_pretrained(source)
            self.policy = AutoTokenizer.from_pretrained(policy)
        self.shares_vocabulary = self.tokenizer.get_vocab() == self.policy.get_vocab()

    def means(self, prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the encoder's mean hidden state of each response, (rows, d) float32, in the order of the rows.

        Row i is prompts[i] and responses[i], both token ids of the policy.
        """
        rows = list(zip(prompts, responses, strict=True)) if self.shares_vocabulary else self._retokenized(responses)
        with torch.inference_mode():
            parts = [self._batch(rows[start : start + ROWS]) for start in range(0, len(rows), ROWS)]
        return torch.cat(parts)

    def _retokenized(self, responses: Sequence[Sequence[int]]) -> list[tuple[list[int], list[int]]]:
        texts = [self.policy.decode(ids, skip_special_tokens=True) for ids in responses]
        limit = min(self.tokenizer.model_max_length, 8192)
        return [([], ids) for ids in self.tokenizer(texts, truncation=True, max_length=limit)["input_ids"]]

    def _batch(self, rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> torch.Tensor:
        whole = [[*prompt, *response] for prompt, response in rows]
        width = max(map(len, whole))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in whole])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in whole])
        states = self.model(input_ids=ids.to(self.device), attention_mask=mask.to(self.device))[0]
        offsets = torch.tensor([0, *(len(row) for row in whole)]).cumsum(0)
        if len(rows) == 1:  # `response_means` reads a single row as packed
            states = states[:, : len(whole[0])]
        return response_means(states, offsets, torch.tensor([len(prompt) for prompt, _ in rows])).cpu()


class Encoders:
    """One encoder on each device of a resource pool; the rows are divided among them."""

    def __init__(self, model: str, policy: str, pool: Any) -> None:
        group = pool.get_placement_groups()[0]
        self.actors = [
            ray.remote(Encoder)
            .options(
                num_cpus=1,
                num_gpus=SHARE,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle),
            )
            .remote(model, policy)
            for bundle in range(len(group.bundle_specs))
        ]

    def means(self, prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the encoder's mean hidden state of each response, (rows, d) float32, in the order of the rows.

        Row i is prompts[i] and responses[i], both token ids of the policy.
        """
        n = len(self.actors)
        cuts = [len(prompts) * i // n for i in range(n + 1)]
        parts = [
            actor.means.remote(prompts[start:end], responses[start:end])
            for actor, start, end in zip(self.actors, cuts[:-1], cuts[1:], strict=True)
            if end > start
        ]
        return torch.cat(ray.get(parts))
