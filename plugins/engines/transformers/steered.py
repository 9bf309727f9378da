"""Sample one response after another, with a sampler that changes the logits depending on earlier responses.

Several prompts go through the model together, each with its own steering (`harness.contracts.Steering`); of each prompt
one response is sampled at a time. A step passes all candidates through the model at once: the tokens that the sampler's
filters leave. If nothing is added (a first response), the token is sampled first, and only this token passes the model.

The candidates of a step are siblings at the same position: a mask lets each attend to the tokens before it in its row
and to itself, not to the other candidates. Their keys and values are appended to the cache; those of the chosen
candidate stay, and the next step overwrites the others. `require_siblings` tries on the model that it supports this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from harness import HarnessError, Responses
from harness.contracts import Steering
from harness.records import SampleRequest
from harness_plugins.models.checkpoint import Checkpoint

from .sampling import CACHE, Row, RowSampler, as_responses, padded, row_sampler, with_room

# Largest relative difference of a sibling's logits from those of a plain pass: in float32, in 16 bits.
EXACT, ROUGH = 1e-3, 0.1


def sample_steered(
    part: Checkpoint, prompt_ids: Sequence[list[int]], request: SampleRequest, chunk: Sequence[int]
) -> list[Responses]:
    """Sample the responses to a chunk of the request's prompts; a prompt is left alone once `until` returns True."""
    sampler: Any = request.sampler
    prompts = Prompts(part, *padded(part, [prompt_ids[j] for j in chunk]))
    steerings: dict[int, Steering] = {j: sampler.steering() for j in chunk}
    unlearnt: dict[int, torch.Tensor] = {}
    rows: dict[int, list[Row]] = {j: [] for j in chunk}
    complete: dict[int, Responses] = {}
    active = list(chunk)
    for i in range(request.n):
        for j in active:  # now, not when a response ends: learning from a prompt's last response would be wasted
            if i:
                steerings[j].learn(unlearnt[j])
        which = torch.tensor([j - chunk[0] for j in active], device=part.device)
        tree = CandidateTree(part, prompts, which, [steerings[j] for j in active])
        sampling = row_sampler(part, request, [(j, i) for j in active], tree.steer)
        states = _respond(part, tree, sampling, prompts.state[which])
        unlearnt = dict(zip(active, states, strict=True))
        for j, row in zip(tuple(active), sampling.result(part, request.states), strict=True):
            rows[j].append(row)
            if request.until(j, part.text(row.ids, request.stop), row.finish) or i == request.n - 1:
                complete[j] = as_responses(part, rows[j], request)
                request.done(j, complete[j])
                active.remove(j)
        if not active:
            break
    return [complete[j] for j in chunk]


def _respond(part: Checkpoint, tree: CandidateTree, sampling: RowSampler, state: torch.Tensor) -> list[torch.Tensor]:
    """Sample a response from each prompt's last state (rows, d); return each one's token states (tokens, d)."""
    head = part.model.get_output_embeddings()
    states: list[list[torch.Tensor]] = [[] for _ in state]
    sampling.add_states(state)
    while len(sampling.running) and sampling.step < sampling.max_tokens:
        state = tree.take(sampling.next(sampling.tokens, head(state).float()))
        sampling.add_states(state)
        for row, token_state in zip(sampling.running.tolist(), state, strict=True):
            states[row].append(token_state)
        unfinished = (~sampling.ended[sampling.running]).nonzero()[:, 0]
        if len(unfinished) < len(sampling.running):
            sampling.narrow(unfinished)
            tree.narrow(unfinished)
            state = state[unfinished]
    return [torch.stack(of_row) for of_row in states]


class Prompts:
    """Left-padded prompts (rows, tokens) after a pass through the model: cache of all tokens, mask, last states."""

    def __init__(self, part: Checkpoint, ids: torch.Tensor, mask: torch.Tensor) -> None:
        self.mask, positions = mask, (mask.cumsum(-1) - 1).clamp(min=0)
        self.cache = DynamicCache()  # without the config: a sliding layer would throw away what siblings still need
        fed = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, CACHE: self.cache}
        self.state: torch.Tensor = part.decoder(**fed, use_cache=True)[0][:, -1]


class CandidateTree:
    """Rows that grow token by token from prompts[which], with a look at several candidates for the next token.

    A step has candidates only if the steering of some row adds something.
    """

    def __init__(
        self, part: Checkpoint, prompts: Prompts, which: torch.Tensor, steerings: Sequence[Steering] = ()
    ) -> None:
        self.decoder, self.config, self.steerings = part.decoder, part.model.config, list(steerings)
        self.cache = with_room(prompts.cache, which)
        self.visible, self.position = prompts.mask[which].bool(), prompts.mask[which].sum(-1)
        self.candidates: torch.Tensor | None = None
        self.states = torch.empty(0)

    def steer(self, filtered: torch.Tensor) -> torch.Tensor:
        """Add to the filtered logits (rows, vocabulary) what each row's steering gives for its candidates."""
        self.candidates = None
        if not any(steering.adds for steering in self.steerings):
            return filtered
        counts = filtered.isfinite().sum(1).tolist()
        logits, self.candidates = filtered.topk(max(counts))
        self.states = self.look(self.candidates)
        added = torch.zeros_like(logits)
        for row, (steering, count) in enumerate(zip(self.steerings, counts, strict=True)):
            if steering.adds and count > 1:
                added[row, :count] = steering.added(self.states[row, :count]).to(added.dtype)
        return filtered.scatter_add(1, self.candidates, added)

    def look(self, candidates: torch.Tensor) -> torch.Tensor:
        """Return the last hidden state of each candidate token, (rows, c) -> (rows, c, d); `keep` must follow."""
        own = self.config._attn_implementation
        self.config._attn_implementation = "packed_sdpa" if own == "sdpa" else own
        try:
            hidden: torch.Tensor = self.decoder(
                input_ids=candidates,
                attention_mask=self._mask(*candidates.shape),
                position_ids=self.position[:, None].expand(-1, candidates.shape[1]),
                use_cache=True,
                **{CACHE: self.cache},
            )[0]
        finally:
            self.config._attn_implementation = own
        return hidden

    def _mask(self, rows: int, siblings: int) -> torch.Tensor:
        """Return (rows, 1, c, past + c), added to the attention scores: each candidate sees the past and itself."""
        past = self.visible[:, None, :].expand(-1, siblings, -1)
        itself = torch.eye(siblings, dtype=torch.bool, device=past.device).expand(rows, -1, -1)
        dtype = self.cache.layers[0].keys.dtype
        visible = torch.cat([past, itself], -1)[:, None]
        mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        return mask.masked_fill_(~visible, torch.finfo(dtype).min)

    def take(self, token: torch.Tensor) -> torch.Tensor:
        """Append the sampled tokens (rows,) to their rows; return the states (rows, d) of these tokens."""
        if self.candidates is None:
            state = self.look(token[:, None])[:, 0]
            self.keep(torch.zeros_like(token), 1)
            return state
        chosen = (self.candidates == token[:, None]).int().argmax(1)
        self.keep(chosen, self.candidates.shape[1])
        return self.states[torch.arange(len(chosen), device=chosen.device), chosen]

    def keep(self, chosen: torch.Tensor, siblings: int) -> None:
        """Append to each row r its candidate number chosen[r] of the last `look`, counted from 0; drop the others."""
        if siblings > 1:
            rows = torch.arange(len(chosen), device=chosen.device)
            for layer in self.cache.layers:
                start = layer.keys.shape[-2] - siblings
                for states in (layer.all_keys, layer.all_values):
                    states[rows, :, start] = states[rows, :, start + chosen]
                layer.cut(start + 1)
        self.visible = torch.nn.functional.pad(self.visible, (0, 1), value=True)
        self.position = self.position + 1

    def narrow(self, rows: torch.Tensor) -> None:
        """Keep only the given rows."""
        self.cache.batch_select_indices(rows)
        self.visible, self.position = self.visible[rows], self.position[rows]
        self.steerings = [self.steerings[row] for row in rows.tolist()]


@torch.inference_mode()
def require_siblings(part: Checkpoint) -> None:
    """Raise HarnessError unless siblings get the logits of a plain pass, which a sampler that steers relies on.

    Two prompts of unequal length: two steps of three candidates each, of which the second is kept.
    """
    size, device = part.config.get_text_config().vocab_size, part.device
    tokens = torch.tensor([3 * i + 5 for i in range(9)], device=device) % size
    ids, mask = torch.stack([tokens[:5], tokens[1:6]]), torch.tensor([[0, 0, 1, 1, 1], [1] * 5], device=device)
    candidates, errors = tokens[6:9].expand(2, -1), []
    try:
        tree = CandidateTree(part, Prompts(part, ids, mask), torch.arange(2, device=device))
        for step in range(2):
            logits = part.model.get_output_embeddings()(tree.look(candidates)).float()
            for row, prompt in enumerate((ids[0, 2:], ids[1])):
                before = torch.cat([prompt, candidates[0, 1:2].repeat(step)])
                for place, candidate in enumerate(candidates[row]):
                    fed = torch.cat([before, candidate[None]])[None]
                    plain = part.model(fed, use_cache=False).logits[0, -1].float()
                    errors.append(float((logits[row, place] - plain).norm() / plain.norm()))
            tree.keep(torch.ones(2, dtype=torch.long, device=device), 3)
        capped = getattr(part.config.get_text_config(), "final_logit_softcapping", None)
        reason = "it caps its logits after the head" if capped else ""
        if not all(error < (EXACT if part.dtype == "float32" else ROUGH) for error in errors):
            reason = f"their logits differ from a plain pass's by {max(errors):.1%}"
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, NotImplementedError) as failure:
        reason = (str(failure) or repr(failure)).splitlines()[0]
    if reason:
        raise HarnessError(
            f"{part.name}: {type(part.model).__name__} cannot look at several next tokens at once, as a sampler that "
            f"steers must: {reason}"
        )


# Attention of several new tokens with grouped queries (GQA), without a copy of the keys for every head. As soon as
# there is a mask and more than one new token, transformers' sdpa copies the whole cache, several times over, in every
# layer of every step. Laying the queries of the heads that share a key one after another gives the same sum.
PLAIN = {"dropout", "scaling", "is_causal", "position_ids", "sliding_window", "use_cache"}  # options that change no sum


def packed_sdpa(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None = None, **more: Any
) -> Any:
    """Return what `sdpa_attention_forward` returns, which is called itself in the cases that are not packed."""
    rows, heads, tokens, width = query.shape
    shared = heads // key.shape[1]
    unsupported = {name for name, value in more.items() if value is not None} - PLAIN
    if shared == 1 or unsupported or attention_mask is None or attention_mask.shape[1] != 1 or more.get("dropout"):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **more)
    queries, mask = query.reshape(rows, key.shape[1], shared * tokens, width), attention_mask.repeat(1, 1, shared, 1)
    attended = torch.nn.functional.scaled_dot_product_attention(queries, key, value, attn_mask=mask, scale=scaling)
    return attended.reshape(rows, heads, tokens, value.shape[-1]).transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register("packed_sdpa", packed_sdpa)
