"""Pad prompts and responses to batches, and build the key-value cache that all rows of a prompt share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness_plugins.models.checkpoint import Checkpoint

from ..row_chunks import out_of_memory
from ..sampled_rows import Start

if TYPE_CHECKING:
    import torch


def fed_rows(part: Checkpoint, start: Start, rows: Sequence[list[int]]) -> tuple[dict[str, Any], int]:
    """Return the model's inputs for responses to the single prompt of `start`, and the longest response's length.

    rows   the responses' token ids; shorter ones are padded on the right
    """
    import torch

    width = max(len(row) for row in rows)
    tokens = torch.tensor([row + [part.filler] * (width - len(row)) for row in rows], device=part.device)
    ids = torch.cat([start.ids.expand(len(rows), -1), tokens.long()], dim=1)
    past = start.past(torch.zeros(len(rows), dtype=torch.long, device=part.device))
    fed = ids[:, start.ids.shape[1] - 1 :] if past else ids
    at = torch.arange(ids.shape[1] - fed.shape[1], ids.shape[1], device=part.device)
    return {"input_ids": fed, "position_ids": at.expand(len(rows), -1), "use_cache": bool(past), **past}, width


def left_padded(part: Checkpoint, prompts: Sequence[list[int]]) -> Start:
    """Return the prompts (token ids) in one batch, with their key-value cache if rows can share it and it fits."""
    ids, mask = padded(part, prompts)
    try:
        return Start(ids, mask, _shared_cache(part, ids[:, :-1], mask[:, :-1]))
    except (MemoryError, RuntimeError) as failure:
        if not out_of_memory(failure):
            raise
    return Start(ids, mask, None)


def padded(part: Checkpoint, prompts: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the prompts in one batch, left-padded, and their mask, each (prompts, tokens)."""
    import torch

    width = max(len(ids) for ids in prompts)
    pads = [width - len(ids) for ids in prompts]
    ids = [[part.filler] * pad + ids for pad, ids in zip(pads, prompts, strict=True)]
    mask = [[0] * pad + [1] * (width - pad) for pad in pads]
    return torch.tensor(ids, device=part.device), torch.tensor(mask, device=part.device)


def _shared_cache(part: Checkpoint, ids: torch.Tensor, mask: torch.Tensor) -> Any | None:
    """Return the cache of all prompt tokens but the last; None if the model's cache cannot be copied to many rows.

    Only plain caches can be copied. With a sliding window or a recurrent state, every chunk passes its prompts again.
    """
    from transformers.cache_utils import DynamicCache, DynamicLayer

    from .roomy_cache import CACHE

    if ids.shape[1] == 0:
        return None
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    decoder = part.model.get_decoder()
    output = decoder(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True)
    cache = getattr(output, CACHE, None)
    plain = isinstance(cache, DynamicCache) and all(type(layer) is DynamicLayer for layer in cache.layers)
    return cache if plain else None
