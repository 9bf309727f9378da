"""Pass several candidates for a row's next token through the model at once, over one key-value cache.

The candidates of a step are siblings at the same position: a mask lets each attend to the tokens before it in its row
and to itself, not to the other candidates. Their keys and values are appended to the cache; those of the chosen
candidate stay, and the next step overwrites the others. Nothing is copied, and the chosen token needs no second pass.

`require_siblings` checks on the model itself that it supports this.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers.cache_utils import DynamicCache

from harness import HarnessError
from harness_plugins.models.checkpoint import Checkpoint

from .packed_attention import packed
from .roomy_cache import CACHE, RoomyLayer, with_room

# Largest relative differences from a plain pass: states in float32, states in 16 bits, and the head's logits.
STATES, ROUGH_STATES, LOGITS = 1e-3, 0.1, 0.01


class SiblingLayer(RoomyLayer):
    """A cache layer whose last entries are the siblings of a step, until one of them is kept."""

    def keep(self, chosen: torch.Tensor, siblings: int) -> None:
        """Remove all siblings of the last step, of which each row has `siblings`, except sibling chosen[r] of row r."""
        start = self.keys.shape[-2] - siblings
        rows = torch.arange(len(chosen), device=chosen.device)
        for states in (self.all_keys, self.all_values):
            states[rows, :, start] = states[rows, :, start + chosen]
        self.keys, self.values = self.all_keys[..., : start + 1, :], self.all_values[..., : start + 1, :]


@dataclass(frozen=True)
class Prefixes:
    """Prompts after a pass through the model: cache of all tokens, mask (rows, tokens), last state (rows, d)."""

    cache: DynamicCache
    mask: torch.Tensor
    state: torch.Tensor

    def part(self, rows: torch.Tensor) -> Prefixes:
        """Return a copy of the given rows."""
        return Prefixes(with_room(self.cache, rows), self.mask[rows], self.state[rows])


def prefixes(part: Checkpoint, ids: torch.Tensor, mask: torch.Tensor) -> Prefixes:
    """Pass left-padded prompts (rows, tokens) through the model once; return their cache, mask and last states."""
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    cache = DynamicCache()  # without the config: a sliding layer would throw away what siblings still need
    output = part.decoder(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, **{CACHE: cache})
    return Prefixes(cache, mask, output[0][:, -1])


class CandidateTree:
    """Rows that grow from their prompts token by token, with a look at several candidates for the next token."""

    def __init__(self, part: Checkpoint, start: Prefixes) -> None:
        self.decoder, self.config = part.decoder, part.model.config
        rows = torch.arange(len(start.mask), device=start.mask.device)
        self.cache = with_room(start.cache, rows, SiblingLayer)
        self.visible, self.position = start.mask.bool(), start.mask.sum(-1)
        self.siblings = 0

    def look(self, candidates: torch.Tensor) -> torch.Tensor:
        """Return the last hidden state of each candidate token, (rows, c) -> (rows, c, d); `keep` must follow."""
        rows, self.siblings = candidates.shape
        with packed(self.config):
            hidden: torch.Tensor = self.decoder(
                input_ids=candidates,
                attention_mask=self._mask(rows),
                position_ids=self.position[:, None].expand(-1, self.siblings),
                use_cache=True,
                **{CACHE: self.cache},
            )[0]
        return hidden

    def _mask(self, rows: int) -> torch.Tensor:
        """Return (rows, 1, c, past + c), added to the attention scores: each candidate sees the past and itself."""
        past = self.visible[:, None, :].expand(-1, self.siblings, -1)
        itself = torch.eye(self.siblings, dtype=torch.bool, device=past.device).expand(rows, -1, -1)
        dtype = self.cache.layers[0].keys.dtype
        visible = torch.cat([past, itself], -1)[:, None]
        mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        return mask.masked_fill_(~visible, torch.finfo(dtype).min)

    def keep(self, chosen: torch.Tensor) -> None:
        """Append to each row r its candidate number chosen[r] of the last `look`, counted from 0; drop the others."""
        if self.siblings > 1:
            for layer in self.cache.layers:
                layer.keep(chosen, self.siblings)
        self.visible = torch.nn.functional.pad(self.visible, (0, 1), value=True)
        self.position = self.position + 1

    def narrow(self, rows: torch.Tensor) -> None:
        """Keep only the given rows."""
        self.cache.batch_select_indices(rows)
        self.visible, self.position = self.visible[rows], self.position[rows]


def require_window(part: Checkpoint, tokens: int) -> None:
    """Raise HarnessError if the model's sliding window is shorter than `tokens`: siblings would lose their past."""
    window = getattr(part.config.get_text_config(), "sliding_window", None)
    if window is not None and tokens > window:
        raise HarnessError(
            f"{part.name}: prompt and --max-tokens make {tokens} tokens, more than the model's sliding window of "
            f"{window}, over which no sampler can steer: shorten --max-tokens"
        )


@torch.inference_mode()
def require_siblings(part: Checkpoint) -> None:
    """Raise HarnessError unless siblings have the states, and the head gives the logits, of a plain pass.

    Checked with two prompts of unequal length: two steps of three candidates each, of which the second is kept.
    """
    try:
        states, logits = _siblings_errors(part)
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, NotImplementedError) as failure:
        reason = str(failure).splitlines()[0] if str(failure) else repr(failure)
        raise HarnessError(f"{_cannot(part)}: {reason}") from failure
    if not states < (STATES if part.dtype == "float32" else ROUGH_STATES):
        raise HarnessError(f"{_cannot(part)}: their states differ from a plain pass's by {states:.1%}")
    if not logits < LOGITS or getattr(part.config.get_text_config(), "final_logit_softcapping", None):
        raise HarnessError(f"{_cannot(part)}: it changes its logits after the head")


def _cannot(part: Checkpoint) -> str:
    kind = type(part.model).__name__
    return f"{part.name}: {kind} cannot look at several next tokens at once, as a sampler that steers must"


def _siblings_errors(part: Checkpoint) -> tuple[float, float]:
    """Return the largest relative differences from plain passes: of the siblings' states, and of the head's logits."""
    size, device = part.config.get_text_config().vocab_size, part.device
    tokens = torch.tensor([3 * i + 5 for i in range(9)], device=device) % size
    ids, mask = torch.stack([tokens[:5], tokens[1:6]]), torch.tensor([[0, 0, 1, 1, 1], [1] * 5], device=device)
    tree = CandidateTree(part, prefixes(part, ids, mask))
    candidates, errors = tokens[6:9].expand(2, -1), []
    for step in range(2):
        states = tree.look(candidates)
        for row, prompt in enumerate((ids[0, 2:], ids[1])):
            before = torch.cat([prompt, candidates[0, 1:2].repeat(step)])
            errors += [
                _against_plain(part, torch.cat([before, candidate[None]]), states[row, place])
                for place, candidate in enumerate(candidates[row])
            ]
        tree.keep(torch.ones(2, dtype=torch.long, device=device))
    state_errors, logit_errors = zip(*errors, strict=True)
    return max(state_errors), max(logit_errors)


def _against_plain(part: Checkpoint, tokens: torch.Tensor, state: torch.Tensor) -> tuple[float, float]:
    plain = part.model(tokens[None], output_hidden_states=True, use_cache=False)
    expected = plain.hidden_states[-1][0, -1]
    return _relative(state, expected), _relative(part.model.get_output_embeddings()(expected), plain.logits[0, -1])


def _relative(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float((actual.float() - expected.float()).norm() / expected.float().norm())
