"""Token sampling with one random stream for each row, so that a row does not depend on the batch around it.

`RowSampler` samples a token and masks all other logits, so that a greedy `generate` picks this token. No global random
state is read or changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import (
    LogitsProcessor,
    MinPLogitsWarper,
    StoppingCriteria,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from harness import Sampler

Filter = Callable[[Any, Any], torch.Tensor]


def uniforms(seed: int, row: int, steps: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return (steps,) numbers in [0, 1) for a row, from (seed, row) alone; fewer steps give a prefix of them."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, row]))).random(steps)


def filters(sampler: Sampler) -> list[Filter]:
    """Return the sampler as logits warpers of transformers, in the order of `generate(do_sample=True)`."""
    warpers: list[Filter] = []
    if sampler.temperature != 1:
        warpers.append(TemperatureLogitsWarper(float(sampler.temperature)))
    if sampler.top_k:
        warpers.append(TopKLogitsWarper(sampler.top_k))
    if sampler.top_p < 1:
        warpers.append(TopPLogitsWarper(float(sampler.top_p)))
    if sampler.min_p:
        warpers.append(MinPLogitsWarper(float(sampler.min_p)))
    return warpers


def inverse_cdf(logits: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Return (rows,) tokens from (rows, vocabulary) logits: the first with a cumulative probability above `uniform`.

    Summed in float64, in the order of the vocabulary. A token of probability 0 is never sampled.
    """
    cumulative = logits.softmax(-1).cumsum(-1, dtype=torch.float64)
    target = uniform[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, target, right=True)[:, 0].clamp_(max=logits.shape[-1] - 1)


class RowSampler(LogitsProcessor):
    """Samples a token for each row at each step, and records the rows.

    streams (rows, max_tokens): random numbers in [0, 1) that choose the tokens; eos: the tokens that end a response.
    tokens (rows, max_tokens), lengths (rows,), ended (rows,): whether the row has an end-of-sequence token.
    logprobs (rows,) float64: the sum of the model's log-probabilities (temperature 1, nothing filtered).
    running: the rows that the model still generates, by index; `narrow` takes out those that have ended.
    live (running,): whether the step's token belongs to its row; after the row's end it is `filler`, and not counted.
    steer: changes the filtered logits (running, vocabulary) of a step before its tokens are sampled.
    watch: called after each step with `counts`, which it may call: (rows that have ended, tokens so far).
    """

    def __init__(
        self,
        sampler: Sampler,
        streams: np.ndarray[Any, Any],
        eos: Sequence[int],
        filler: int,
        device: torch.device,
        steer: Callable[[torch.Tensor], torch.Tensor] | None = None,
        watch: Callable[[Callable[[], tuple[int, int]]], None] = lambda counts: None,
    ) -> None:
        rows, self.max_tokens = streams.shape
        self.filters, self.steer, self.watch = filters(sampler), steer, watch
        self.uniforms = torch.as_tensor(streams, device=device)
        self.eos = torch.tensor(list(eos), dtype=torch.long, device=device)
        self.filler = filler
        self.step = 0
        self.tokens = torch.full((rows, self.max_tokens), filler, dtype=torch.long, device=device)
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(rows, dtype=torch.float64, device=device)
        self.ended = torch.zeros(rows, dtype=torch.bool, device=device)
        self.running = torch.arange(rows, device=device)
        self.live = torch.ones(rows, dtype=torch.bool, device=device)

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
        self.watch(self.counts)
        return token

    def counts(self) -> tuple[int, int]:
        """Return how many rows have ended, and the number of tokens of all rows."""
        return int(self.ended.sum()), int(self.lengths.sum())

    def _sample(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Sample a token for each running row and record it; return the tokens (running,)."""
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
        return token

    def narrow(self, unfinished: torch.Tensor) -> None:
        """Keep only some of the running rows, given by their positions in `running`."""
        self.running, self.live = self.running[unfinished], self.live[unfinished]


class RowsEnded(StoppingCriteria):
    """Stops a row at its end, or one step later with `feed_last`, so that its last token passes the model too.

    With `narrowing` all rows stop as soon as half of them have ended: the caller then continues with the other half.
    """

    def __init__(self, sampling: RowSampler, feed_last: bool, narrowing: bool) -> None:
        self.sampling, self.feed_last, self.narrowing = sampling, feed_last, narrowing

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """Return (running,) bool: which rows stop."""
        finished = self.finished()
        return finished | (2 * finished.sum() >= len(finished)) if self.narrowing else finished

    def finished(self) -> torch.Tensor:
        """Return (running,) bool: which running rows need no further step."""
        return ~self.sampling.live if self.feed_last else self.sampling.ended[self.sampling.running]
