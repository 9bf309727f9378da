"""A key-value cache allocated ahead: a step writes the new keys and values, and copies no earlier ones.

`DynamicLayer` of transformers concatenates, and so copies the whole cache at every step. With 256 rows of the embedded
model the copies alone took longer than the model.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.modeling_outputs import BaseModelOutputWithPast

ROOM = 64  # tokens, at least
# What models call their key-value cache, as argument and in outputs: transformers renamed it in 5.24.
CACHE = "cache" if "cache" in BaseModelOutputWithPast.__dataclass_fields__ else "past_key_values"


def with_room(cache: DynamicCache, rows: torch.Tensor, kind: type[RoomyLayer] | None = None) -> DynamicCache:
    """Copy a cache of prompts to rows, with layers that can grow in place; row r continues prompt rows[r].

    kind   the class of the layers; None: `RoomyLayer`
    """
    roomy = copy.copy(cache)
    layer_type = kind or RoomyLayer
    roomy.layers = [layer_type.going_on(layer.keys[rows], layer.values[rows]) for layer in cache.layers]
    return roomy


class RoomyLayer(DynamicLayer):
    """`keys` and `values` (rows, heads, tokens, width) are views of larger tensors, and grow in place."""

    keys: torch.Tensor
    values: torch.Tensor
    all_keys: torch.Tensor
    all_values: torch.Tensor

    @classmethod
    def going_on(cls, keys: torch.Tensor, values: torch.Tensor) -> RoomyLayer:
        """Return a layer that already holds these keys and values."""
        layer = cls()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = layer.all_keys, layer.all_values = keys, values
        return layer

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append new keys and values, each (rows, heads, new tokens, width); return all keys and all values."""
        start = self.keys.shape[-2]
        end = start + key_states.shape[-2]
        if end > self.all_keys.shape[-2]:
            self.all_keys, self.all_values = _grown(self.keys, end), _grown(self.values, end)
        self.all_keys[..., start:end, :] = key_states
        self.all_values[..., start:end, :] = value_states
        self.keys, self.values = self.all_keys[..., :end, :], self.all_values[..., :end, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep only the given rows."""
        self.keys, self.values = self.keys[indices], self.values[indices]
        self.all_keys, self.all_values = self.keys, self.values


def _grown(states: torch.Tensor, tokens: int) -> torch.Tensor:
    """Copy the states into a tensor with room for `tokens` and max(ROOM, tokens // 2) more."""
    room = tokens + max(ROOM, tokens // 2)
    larger = states.new_empty((*states.shape[:-2], room, states.shape[-1]))
    larger[..., : states.shape[-2], :] = states
    return larger
