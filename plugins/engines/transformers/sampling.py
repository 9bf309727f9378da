"""Sample responses with `model.generate`: a random stream for each row, a shared cache, hidden states on the way.

A row depends on its own stream alone, not on the batch around it, and no global random state is read or changed. The
prompts pass the model once, and their rows go on from copies of the key-value cache. As soon as half of the rows have
ended, the other half continues as a smaller batch.

Hidden states are those after the final norm: the decoder's `last_hidden_state`, which is `output_hidden_states[-1]`. Of
T response tokens (the end-of-sequence token included): "mean" over all T, "last" of token T, "penultimate" of token
T - 1, which for T = 1 is the prompt's last position. With T = 0 all three are the prompt's last position.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    LogitsProcessor,
    MinPLogitsWarper,
    StopStringCriteria,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.modeling_outputs import BaseModelOutputWithPast

from harness import HarnessError, Responses, Sampler
from harness.records import Floats, SampleRequest
from harness_plugins.models.checkpoint import Checkpoint

from ..row_chunks import out_of_memory

EVERY_S = 1.0  # how often a chunk reports what it has, so that counting costs no time
ROOM = 64  # tokens, at least, by which a cache grows
# What models call their key-value cache, as argument and in outputs: transformers renamed it in 5.24.
CACHE = "cache" if "cache" in BaseModelOutputWithPast.__dataclass_fields__ else "past_key_values"


# Random streams, and the tokens that they choose.


def uniforms(seed: int, row: int, steps: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return (steps,) numbers in [0, 1) for a row, from (seed, row) alone; fewer steps give a prefix of them."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, row]))).random(steps)


def filters(sampler: Sampler) -> list[Callable[[Any, Any], torch.Tensor]]:
    """Return the sampler as logits warpers of transformers, in the order of `generate(do_sample=True)`."""
    warpers = (
        (sampler.temperature != 1, TemperatureLogitsWarper, float(sampler.temperature)),
        (sampler.top_k, TopKLogitsWarper, sampler.top_k),
        (sampler.top_p < 1, TopPLogitsWarper, float(sampler.top_p)),
        (sampler.min_p, MinPLogitsWarper, float(sampler.min_p)),
    )
    return [warper(value) for applies, warper, value in warpers if applies]


def inverse_cdf(logits: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Return (rows,) tokens from (rows, vocabulary) logits: the first with a cumulative probability above `uniform`.

    Summed in float64, in the order of the vocabulary. A token of probability 0 is never sampled.
    """
    cumulative = logits.softmax(-1).cumsum(-1, dtype=torch.float64)
    target = uniform[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, target, right=True)[:, 0].clamp_(max=logits.shape[-1] - 1)


@dataclass(frozen=True)
class Row:
    """A sampled response: its tokens, how it ended ("stop", "length"), and of each kind of states its vector (d,)."""

    ids: list[int]
    finish: str
    logprob: float
    states: Mapping[str, Floats]


class RowSampler(LogitsProcessor):
    """Samples a token for each row at each step, and records it. A greedy `generate` picks it: all others are masked.

    streams (rows, max_tokens): random numbers in [0, 1) that choose the tokens; eos: the tokens that end a response.
    tokens (rows, max_tokens), lengths (rows,), ended (rows,): whether the row has an end-of-sequence token.
    logprobs (rows,) float64: the sum of the model's log-probabilities (temperature 1, nothing filtered).
    running: the rows that the model still generates, by index; `narrow` takes out those that have ended.
    live (running,): whether the step's token belongs to its row; after the row's end it is `filler`, and not counted.
    sum, last, before (rows, d): of the hidden states so far, by `add_states`; the state of every token is not kept.
    steer: changes the filtered logits (running, vocabulary) of a step before its tokens are sampled.
    request: is told about once a second which rows and tokens are new.
    stop: ends rows whose tokens so far complete one of its strings.
    """

    def __init__(
        self,
        sampler: Sampler,
        streams: np.ndarray[Any, Any],
        eos: Sequence[int],
        filler: int,
        device: torch.device,
        steer: Callable[[torch.Tensor], torch.Tensor] | None = None,
        request: SampleRequest | None = None,
        stop: StopStringCriteria | None = None,
    ) -> None:
        rows, self.max_tokens = streams.shape
        self.filters, self.steer, self.request, self.stop = filters(sampler), steer, request, stop
        self.uniforms = torch.as_tensor(streams, device=device)
        self.eos = torch.tensor(list(eos), dtype=torch.long, device=device)
        self.filler, self.step = filler, 0
        self.tokens = torch.full((rows, self.max_tokens), filler, dtype=torch.long, device=device)
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(rows, dtype=torch.float64, device=device)
        self.ended = torch.zeros(rows, dtype=torch.bool, device=device)
        self.running = torch.arange(rows, device=device)
        self.live = torch.ones(rows, dtype=torch.bool, device=device)
        self.sum = self.last = self.before = torch.empty(0)
        self.told, self.due = (0, 0), time.monotonic() + EVERY_S
        if request:
            request.tokens(0)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Sample, and return logits that are -inf except for the sampled tokens."""
        token = self.next(input_ids, scores)
        return torch.full_like(scores, -torch.inf).scatter_(1, token[:, None], 0.0)

    def next(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (running,) the next token of each running row, from its logits (running, vocabulary)."""
        if self.step < self.max_tokens:
            token = self._sample(input_ids, scores)
        else:
            self.live = torch.zeros_like(self.live)
            token = torch.full_like(self.running, self.filler)
        self.step += 1
        if time.monotonic() >= self.due:
            self.tell(int(self.ended.sum()), int(self.lengths.sum()))
        return token

    def tell(self, rows: int, tokens: int) -> None:
        """Tell the request what these finished rows and tokens are more than before; 0 and 0 take all back."""
        if self.request:
            self.request.tokens(tokens - self.told[1])
            if rows != self.told[0]:
                self.request.report(rows - self.told[0])
        self.told, self.due = (rows, tokens), time.monotonic() + EVERY_S

    def _sample(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        filtered = scores
        for warp in self.filters:
            filtered = warp(input_ids, filtered)
        if self.steer:
            filtered = self.steer(filtered)
        rows = self.running
        token = inverse_cdf(filtered, self.uniforms[rows, self.step])
        logprob = scores.gather(1, token[:, None])[:, 0] - scores.logsumexp(-1)
        self.live = ~self.ended[rows]
        token = torch.where(self.live, token, self.filler)
        self.tokens[rows, self.step] = token
        self.lengths[rows] += self.live
        self.logprobs[rows] += torch.where(self.live, logprob, 0.0)
        self.ended[rows] |= self.live & torch.isin(token, self.eos)
        if self.stop:
            self.ended[rows] |= self.live & self.stop(self.tokens[rows, : self.step + 1], None)
        return token

    def narrow(self, unfinished: torch.Tensor) -> None:
        """Keep only some of the running rows, given by their positions in `running`."""
        self.running, self.live = self.running[unfinished], self.live[unfinished]

    def finished(self, feed_last: bool) -> torch.Tensor:
        """Return (running,) bool: which running rows need no further step, not even for the last token."""
        return ~self.live if feed_last else self.ended[self.running]

    def add_states(self, state: torch.Tensor) -> None:
        """Add a step's states (running, d): first the prompts' last, then those of the tokens sampled last."""
        state = state.float()
        if not self.sum.numel():
            self.sum, self.last, self.before = torch.zeros_like(state), state.clone(), state.clone()
            return
        rows, live = self.running, self.live[:, None]
        self.sum[rows] += torch.where(live, state, 0.0)
        self.before[rows] = torch.where(live, self.last[rows], self.before[rows])
        self.last[rows] = torch.where(live, state, self.last[rows])

    def result(self, part: Checkpoint, kinds: Sequence[str]) -> list[Row]:
        """Return the rows when all have ended, on the CPU."""
        if not self.logprobs.isfinite().all():
            raise HarnessError(
                f"{part.name}: in {part.dtype} the model's probabilities are not finite; try dtype=float32"
            )
        pooled = {"mean": self.sum / self.lengths[:, None], "last": self.last, "penultimate": self.before}
        states = {kind: pooled[kind].cpu().numpy() for kind in kinds}
        columns = (each.tolist() for each in (self.tokens, self.lengths, self.ended, self.logprobs))
        rows = [
            Row(ids[:length], "stop" if ended else "length", logprob, {kind: states[kind][at] for kind in kinds})
            for at, (ids, length, ended, logprob) in enumerate(zip(*columns, strict=True))
        ]
        self.tell(len(rows), int(self.lengths.sum()))
        return rows


# Hidden states.


def pool(hidden: torch.Tensor, lengths: Sequence[int], kinds: Sequence[str]) -> dict[str, Floats]:
    """Pool states (rows, 1 + tokens, width) of right-padded rows; return the kinds, each (rows, width) float32.

    Position 0 is the prompt's last, position t the state of response token t.
    """
    last, row = torch.tensor(lengths, device=hidden.device), torch.arange(len(hidden), device=hidden.device)
    at, counts = torch.arange(hidden.shape[1], device=hidden.device)[None, :, None], last[:, None, None]
    within = (at <= counts) & ((at > 0) | (counts == 0))
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "mean": lambda: torch.where(within, hidden, 0.0).sum(1, dtype=torch.float32) / last.clamp(min=1)[:, None],
        "last": lambda: hidden[row, last].float(),
        "penultimate": lambda: hidden[row, (last - 1).clamp(min=0)].float(),
    }
    return {kind: ways[kind]().cpu().numpy() for kind in kinds}


# Prompts, and the key-value cache that their rows go on from.


class RoomyLayer(DynamicLayer):
    """`keys` and `values` (rows, heads, tokens, width) are views of larger tensors, and grow in place.

    `DynamicLayer` of transformers concatenates, and so copies the whole cache at every step. With 256 rows of the
    embedded model the copies alone took longer than the model.
    """

    keys: torch.Tensor
    values: torch.Tensor
    all_keys: torch.Tensor
    all_values: torch.Tensor

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = self.all_keys, self.all_values = keys, values

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append new keys and values, each (rows, heads, new tokens, width); return all keys and all values."""
        start, end = self.keys.shape[-2], self.keys.shape[-2] + key_states.shape[-2]
        if end > self.all_keys.shape[-2]:
            self.all_keys, self.all_values = _grown(self.keys, end), _grown(self.values, end)
        self.all_keys[..., start:end, :] = key_states
        self.all_values[..., start:end, :] = value_states
        self.cut(end)
        return self.keys, self.values

    def cut(self, tokens: int) -> None:
        """Keep the first tokens only."""
        self.keys, self.values = self.all_keys[..., :tokens, :], self.all_values[..., :tokens, :]

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep only the given rows."""
        self.keys, self.values = self.all_keys, self.all_values = self.keys[indices], self.values[indices]


def _grown(states: torch.Tensor, tokens: int) -> torch.Tensor:
    room = tokens + max(ROOM, tokens // 2)
    larger = states.new_empty((*states.shape[:-2], room, states.shape[-1]))  # what is not written takes no memory
    larger[..., : states.shape[-2], :] = states
    return larger


def with_room(cache: DynamicCache, rows: torch.Tensor) -> DynamicCache:
    """Copy a cache of prompts to rows, with layers that can grow in place; row r continues prompt rows[r]."""
    roomy = copy.copy(cache)
    roomy.layers = [RoomyLayer(layer.keys[rows], layer.values[rows]) for layer in cache.layers]
    return roomy


@dataclass(frozen=True)
class Start:
    """Left-padded prompts (prompts, tokens), their mask, and the cache of all tokens but the last, if rows share it."""

    ids: torch.Tensor
    mask: torch.Tensor
    cache: Any | None

    def past(self, which: torch.Tensor) -> dict[str, Any]:
        """Return {the model's name for it: a copy of the cache whose row r continues prompt which[r]}, or {}."""
        return {} if self.cache is None else {CACHE: with_room(self.cache, which)}


def padded(part: Checkpoint, rows: Sequence[Sequence[int]], side: str = "left") -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows of token ids in one batch, and their mask, each (rows, tokens)."""
    ids = [torch.tensor(row, dtype=torch.long, device=part.device) for row in rows]
    masks = [torch.ones_like(row) for row in ids]
    return pad_sequence(ids, True, part.filler, side), pad_sequence(masks, True, 0, side)


def left_padded(part: Checkpoint, prompts: Sequence[list[int]]) -> Start:
    """Return the prompts (token ids) in one batch, with their key-value cache if rows can share it and it fits.

    Only plain caches can be copied. With a sliding window or a recurrent state, every chunk passes its prompts again.
    """
    ids, mask = padded(part, prompts)
    cache, before = None, mask[:, :-1]
    if ids.shape[1] > 1:
        fed = {"input_ids": ids[:, :-1], "attention_mask": before, "position_ids": (before.cumsum(-1) - 1).clamp(min=0)}
        try:
            cache = getattr(part.model.get_decoder()(**fed, use_cache=True), CACHE, None)
        except (MemoryError, RuntimeError) as failure:
            if not out_of_memory(failure):
                raise
    plain = isinstance(cache, DynamicCache) and all(type(layer) is DynamicLayer for layer in cache.layers)
    return Start(ids, mask, cache if plain else None)


def fed_rows(part: Checkpoint, start: Start, rows: Sequence[list[int]]) -> dict[str, Any]:
    """Return the model's inputs for responses (token ids), padded on the right, to the single prompt of `start`."""
    ids = torch.cat([start.ids.expand(len(rows), -1), padded(part, rows, "right")[0]], dim=1)
    past = start.past(torch.zeros(len(rows), dtype=torch.long, device=part.device))
    first = start.ids.shape[1] - 1 if past else 0
    at = torch.arange(first, ids.shape[1], device=part.device).expand(len(rows), -1)
    return {"input_ids": ids[:, first:], "position_ids": at, "use_cache": bool(past), **past}


def row_sampler(
    part: Checkpoint, request: SampleRequest, chunk: Sequence[tuple[int, int]], steer: Any = None
) -> RowSampler:
    """Return the sampler of a chunk of (prompt, row) pairs."""
    streams = np.stack([uniforms(request.seeds[j], i, request.max_tokens) for j, i in chunk])
    stop = StopStringCriteria(part.tokenizer, list(request.stop)) if request.stop else None
    return RowSampler(request.sampler, streams, part.eos, part.filler, part.device, steer, request, stop)


def sample_rows(part: Checkpoint, start: Start, request: SampleRequest, chunk: Sequence[tuple[int, int]]) -> list[Row]:
    """Sample the responses of a chunk of (prompt, row) pairs."""
    which = torch.tensor([j for j, _ in chunk], device=part.device)
    sampling, hook = row_sampler(part, request, chunk), None
    if request.states:
        hook = part.decoder.register_forward_hook(lambda module, args, output: sampling.add_states(output[0][:, -1]))
    try:
        _generate(part, sampling, start.ids[which], start.mask[which], start.past(which), bool(hook))
        return sampling.result(part, request.states)
    except (MemoryError, RuntimeError):  # of memory: these rows are sampled again
        sampling.tell(0, 0)
        raise
    finally:
        if hook:
            hook.remove()


def _generate(
    part: Checkpoint, sampling: RowSampler, ids: torch.Tensor, mask: torch.Tensor, past: dict[str, Any], feed_last: bool
) -> None:
    """Generate until all rows have ended; each time half of them have, continue with the other half."""

    def stopped(input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        finished = sampling.finished(feed_last)
        return finished | (2 * finished.sum() >= len(finished)) if past else finished

    steps = sampling.max_tokens + feed_last  # a row's last token passes the model only for its state
    while len(sampling.running) and sampling.step < steps:
        ids = part.model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=steps - sampling.step,
            logits_processor=[sampling],
            stopping_criteria=[stopped],
            **past,
        )
        unfinished = (~sampling.finished(feed_last)).nonzero()[:, 0]
        sampling.narrow(unfinished)
        ids, mask = ids[unfinished], mask[unfinished]
        mask = torch.nn.functional.pad(mask, (0, ids.shape[1] - mask.shape[1]), value=1)
        for cache in past.values():
            cache.batch_select_indices(unfinished)


def as_responses(part: Checkpoint, rows: Sequence[Row], request: SampleRequest) -> Responses:
    """Return a prompt's rows as its responses."""
    return Responses(
        texts=[part.text(row.ids, request.stop) for row in rows],
        finish=[row.finish for row in rows],
        lengths=np.array([len(row.ids) for row in rows], np.int64),
        logprobs=np.array([row.logprob for row in rows], np.float64),
        token_ids=[row.ids for row in rows],
        states={kind: np.stack([row.states[kind] for row in rows]) for kind in rows[0].states},
    )
