"""Sample one response after another, with a sampler that changes the logits depending on earlier responses.

Several prompts go through the model together, each with its own steering (`harness.contracts.Steering`); of each prompt
one response is sampled at a time. A step passes all candidates through the model at once: the tokens that the sampler's
filters leave. If nothing is added (a first response), the token is sampled first, and only this token passes the model.

The candidates of a step are siblings at the same position: a mask lets each attend to the tokens before it in its row
and to itself, not to the other candidates. Their keys and values are appended to the cache; those of the chosen
candidate stay, and the next step overwrites the others. `require_siblings` tries on the model that it supports this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from harness import HarnessError, Responses
from harness.contracts import Steering
from harness.records import SampleRequest
from harness_plugins.models.checkpoint import Checkpoint

from .sampling import CACHE, PooledStates, Progress, Row, RowSampler, as_responses, padded, sampled, uniforms, with_room

# Largest relative difference of a sibling's logits from those of a plain pass: in float32, in 16 bits.
EXACT, ROUGH = 1e-3, 0.1


class CandidateTree:
    """Rows that grow from their prompts token by token, with a look at several candidates for the next token.

    cache, mask   of prompts: of all their tokens (prompts, tokens)
    rows          row r continues prompt rows[r]
    """

    def __init__(self, part: Checkpoint, cache: DynamicCache, mask: torch.Tensor, rows: torch.Tensor) -> None:
        self.decoder, self.config = part.decoder, part.model.config
        self.cache = with_room(cache, rows)
        self.visible, self.position = mask[rows].bool(), mask[rows].sum(-1)
        self.siblings = 0

    def look(self, candidates: torch.Tensor) -> torch.Tensor:
        """Return the last hidden state of each candidate token, (rows, c) -> (rows, c, d); `keep` must follow."""
        self.siblings = candidates.shape[1]
        with packed(self.config):
            hidden: torch.Tensor = self.decoder(
                input_ids=candidates,
                attention_mask=self._mask(len(candidates)),
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
            rows = torch.arange(len(chosen), device=chosen.device)
            for layer in self.cache.layers:
                start = layer.keys.shape[-2] - self.siblings
                for states in (layer.all_keys, layer.all_values):
                    states[rows, :, start] = states[rows, :, start + chosen]
                layer.cut(start + 1)
        self.visible = torch.nn.functional.pad(self.visible, (0, 1), value=True)
        self.position = self.position + 1

    def narrow(self, rows: torch.Tensor) -> None:
        """Keep only the given rows."""
        self.cache.batch_select_indices(rows)
        self.visible, self.position = self.visible[rows], self.position[rows]


def prompt_pass(part: Checkpoint, ids: torch.Tensor, mask: torch.Tensor) -> tuple[DynamicCache, torch.Tensor]:
    """Pass left-padded prompts (rows, tokens) through the model; return their cache, and the last states."""
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    cache = DynamicCache()  # without the config: a sliding layer would throw away what siblings still need
    output = part.decoder(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, **{CACHE: cache})
    return cache, output[0][:, -1]


class SteeredPrompts:
    """Left-padded prompts (rows, tokens), with one `Steering` for each prompt."""

    def __init__(self, part: Checkpoint, sampler: Any, ids: torch.Tensor, mask: torch.Tensor) -> None:
        self.part, self.sampler, self.mask = part, sampler, mask
        self.head = part.model.get_output_embeddings()
        self.cache, self.state = prompt_pass(part, ids, mask)
        self.steerings: list[Steering] = [sampler.steering() for _ in ids]
        self.unlearnt: dict[int, torch.Tensor] = {}  # prompt -> token states of its last response

    def respond(
        self, which: Sequence[int], streams: np.ndarray[Any, Any], kinds: Sequence[str], progress: Progress
    ) -> list[Row]:
        """Sample the next response to each prompt in `which`, from streams (len(which), max_tokens)."""
        for prompt in which:  # now, not when a response ends: learning from a prompt's last response would be wasted
            if prompt in self.unlearnt:
                self.steerings[prompt].learn(self.unlearnt.pop(prompt))
        part, places = self.part, torch.tensor(list(which), device=self.part.device)
        tree = CandidateTree(part, self.cache, self.mask, places)
        step = _Step(tree, [self.steerings[prompt] for prompt in which])
        sampling = RowSampler(self.sampler, streams, part.eos, part.filler, part.device, step.steer, progress.look)
        pooled, state = PooledStates(sampling), self.state[places]
        states: list[list[torch.Tensor]] = [[] for _ in which]
        pooled.add(state)
        while len(sampling.running) and sampling.step < sampling.max_tokens:
            state = step.take(sampling.next(sampling.tokens, self.head(state).float()))
            pooled.add(state)
            for row, token_state in zip(sampling.running.tolist(), state, strict=True):
                states[row].append(token_state)
            unfinished = (~sampling.ended[sampling.running]).nonzero()[:, 0]
            if len(unfinished) < len(sampling.running):
                sampling.narrow(unfinished)
                step.narrow(unfinished)
                state = state[unfinished]
        self.unlearnt |= {prompt: torch.stack(of_row) for prompt, of_row in zip(which, states, strict=True)}
        return sampled(part, sampling, pooled.result(kinds))


class _Step:
    """One step of the running rows; has candidates only if the steering of some row adds something."""

    def __init__(self, tree: CandidateTree, steerings: Sequence[Steering]) -> None:
        self.tree, self.steerings = tree, list(steerings)
        self.candidates: torch.Tensor | None = None
        self.states = torch.empty(0)

    def steer(self, filtered: torch.Tensor) -> torch.Tensor:
        """Add to the filtered logits (rows, vocabulary) what each row's steering gives for its candidates."""
        self.candidates = None
        if not any(steering.adds for steering in self.steerings):
            return filtered
        counts = filtered.isfinite().sum(1).tolist()
        logits, self.candidates = filtered.topk(max(counts))
        self.states = self.tree.look(self.candidates)
        added = torch.zeros_like(logits)
        for row, (steering, count) in enumerate(zip(self.steerings, counts, strict=True)):
            if steering.adds and count > 1:
                added[row, :count] = steering.added(self.states[row, :count]).to(added.dtype)
        return filtered.scatter_add(1, self.candidates, added)

    def take(self, token: torch.Tensor) -> torch.Tensor:
        """Append the sampled tokens (rows,) to their rows; return the states (rows, d) of these tokens."""
        if self.candidates is None:
            state = self.tree.look(token[:, None])[:, 0]
            self.tree.keep(torch.zeros_like(token))
            return state
        chosen = (self.candidates == token[:, None]).int().argmax(1)
        self.tree.keep(chosen)
        return self.states[torch.arange(len(chosen), device=chosen.device), chosen]

    def narrow(self, rows: torch.Tensor) -> None:
        """Keep only the given rows."""
        self.tree.narrow(rows)
        self.steerings = [self.steerings[row] for row in rows.tolist()]


def sample_steered(
    part: Checkpoint, prompt_ids: Sequence[list[int]], chunk: Sequence[int], request: SampleRequest
) -> list[Responses]:
    """Sample the responses to a chunk of the request's prompts; a prompt is left alone once `until` returns True."""
    steered = SteeredPrompts(part, request.sampler, *padded(part, [prompt_ids[j] for j in chunk]))
    rows: dict[int, list[Row]] = {j: [] for j in chunk}
    complete: dict[int, Responses] = {}
    active = list(chunk)
    for i in range(request.n):
        streams = np.stack([uniforms(request.seeds[j], i, request.max_tokens) for j in active])
        progress = Progress(request)
        arrived = steered.respond([j - chunk[0] for j in active], streams, request.states, progress)
        progress.tell(len(active), sum(len(row.ids) for row in arrived))
        for j, row in zip(tuple(active), arrived, strict=True):
            rows[j].append(row)
            if request.until(j, part.text(row.ids), row.finish) or i == request.n - 1:
                complete[j] = as_responses(part, rows[j])
                request.done(j, complete[j])
                active.remove(j)
        if not active:
            break
    return [complete[j] for j in chunk]


@torch.inference_mode()
def require_siblings(part: Checkpoint) -> None:
    """Raise HarnessError unless siblings get the logits of a plain pass, which a sampler that steers relies on."""
    cannot = f"{part.name}: {type(part.model).__name__} cannot look at several next tokens at once, as a sampler that "
    cannot += "steers must"
    try:
        error = _siblings_error(part)
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, NotImplementedError) as failure:
        raise HarnessError(f"{cannot}: {(str(failure) or repr(failure)).splitlines()[0]}") from failure
    if not error < (EXACT if part.dtype == "float32" else ROUGH):
        raise HarnessError(f"{cannot}: their logits differ from a plain pass's by {error:.1%}")
    if getattr(part.config.get_text_config(), "final_logit_softcapping", None):
        raise HarnessError(f"{cannot}: it caps its logits after the head")


def _siblings_error(part: Checkpoint) -> float:
    """Two prompts of unequal length: two steps of three candidates each, of which the second is kept."""
    size, device = part.config.get_text_config().vocab_size, part.device
    tokens = torch.tensor([3 * i + 5 for i in range(9)], device=device) % size
    ids, mask = torch.stack([tokens[:5], tokens[1:6]]), torch.tensor([[0, 0, 1, 1, 1], [1] * 5], device=device)
    tree = CandidateTree(part, prompt_pass(part, ids, mask)[0], mask, torch.arange(2, device=device))
    candidates, errors = tokens[6:9].expand(2, -1), []
    for step in range(2):
        logits = part.model.get_output_embeddings()(tree.look(candidates)).float()
        for row, prompt in enumerate((ids[0, 2:], ids[1])):
            before = torch.cat([prompt, candidates[0, 1:2].repeat(step)])
            for place, candidate in enumerate(candidates[row]):
                fed = torch.cat([before, candidate[None]])[None]
                plain = part.model(fed, use_cache=False).logits[0, -1].float()
                errors.append((logits[row, place] - plain).norm() / plain.norm())
        tree.keep(torch.ones(2, dtype=torch.long, device=device))
    return float(torch.stack(errors).max())


# Attention of several new tokens with grouped queries (GQA), without a copy of the keys for every head. As soon as
# there is a mask and more than one new token, transformers' sdpa copies the whole cache,
# several times over, in every layer of every step. Laying the queries of the heads that share a key one after
# another gives the same sum.

PACKED = "packed_sdpa"
PLAIN = {"dropout", "scaling", "is_causal", "position_ids", "sliding_window", "use_cache"}  # options that change no sum


def packed_sdpa(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Return what `sdpa_attention_forward` returns, which is called itself in the cases that are not packed."""
    rows, heads, tokens, width = query.shape
    shared = heads // key.shape[1]
    unsupported = {name for name, value in more.items() if value is not None} - PLAIN
    if shared == 1 or unsupported or attention_mask is None or attention_mask.shape[1] != 1 or more.get("dropout"):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **more)
    queries = query.reshape(rows, key.shape[1], shared * tokens, width)
    mask = attention_mask.repeat(1, 1, shared, 1)
    attended = torch.nn.functional.scaled_dot_product_attention(queries, key, value, attn_mask=mask, scale=scaling)
    return attended.reshape(rows, heads, tokens, value.shape[-1]).transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register(PACKED, packed_sdpa)


@contextmanager
def packed(config: Any) -> Iterator[None]:
    """Make the model of this config use `packed_sdpa` inside the block, if its attention is sdpa; else do nothing."""
    before = config._attn_implementation
    config._attn_implementation = PACKED if before == "sdpa" else before
    try:
        yield
    finally:
        config._attn_implementation = before
