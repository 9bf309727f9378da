"""Attention of several new tokens with grouped queries (GQA), without a copy of the keys for every head.

transformers' sdpa repeats keys and values for each head as soon as there is a mask and more than one new token: a copy
of the whole cache, several times over, in every layer of every step. This module lays the queries of
the heads that share a key one after another instead, which gives the same sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "packed_sdpa"
PLAIN = {
    "dropout",
    "scaling",
    "is_causal",
    "position_ids",
    "sliding_window",
    "use_cache",
}  # these options change no sum


def packed_sdpa(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Return what `sdpa_attention_forward` returns: the attended values (rows, tokens, heads, width), and None.

    It is called itself in the cases that are not packed: no heads that share keys, no mask or one per head, dropout, or
    an option that is not in `PLAIN`.
    """
    rows, heads, tokens, width = query.shape
    shared = heads // key.shape[1]
    unsupported = {name for name, value in more.items() if value is not None} - PLAIN
    if shared == 1 or unsupported or attention_mask is None or attention_mask.shape[1] != 1 or more.get("dropout"):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **more)
    packed = query.reshape(rows, key.shape[1], shared * tokens, width)
    mask = attention_mask.repeat(1, 1, shared, 1)
    attended = torch.nn.functional.scaled_dot_product_attention(packed, key, value, attn_mask=mask, scale=scaling)
    return attended.reshape(rows, heads, tokens, value.shape[-1]).transpose(1, 2).contiguous(), None


@contextmanager
def packed(config: Any) -> Iterator[None]:
    """Make the model of this config use `packed_sdpa` inside the block, if its attention is sdpa; else do nothing."""
    before = config._attn_implementation
    if before == "sdpa":
        ALL_ATTENTION_FUNCTIONS.register(NAME, packed_sdpa)
        config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before
