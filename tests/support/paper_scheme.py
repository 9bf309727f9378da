"""Token-level RepExp as the paper describes it (Tuyls et al. 2025), slow and plain: what the engine is held against.

A step passes the last token through the model for its logits, then the candidates in batches of 64, each batch over a
cache copied 64 times; the covariance is numpy's, updated token by token and centred by its rank-one correction.
"""

import copy
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import DynamicCache

from harness_plugins.engines.transformers.sampling import CACHE, filters, inverse_cdf, uniforms

BATCH = 64


@dataclass
class PlainCovariance:
    """Σ̃⁻¹, μ and H as in the paper's proposition."""

    width: int
    lam: float
    count: int = 0
    inverse: np.ndarray = field(init=False)
    total: np.ndarray = field(init=False)

    def __post_init__(self):
        self.inverse, self.total = np.eye(self.width) / self.lam, np.zeros(self.width)

    def add(self, states: np.ndarray) -> None:
        """Sherman and Morrison, a token at a time."""
        for h in states:
            moved = self.inverse @ h
            self.inverse -= np.outer(moved, moved) / (1 + h @ moved)
            self.total += h
            self.count += 1

    def bonus(self, states: np.ndarray) -> np.ndarray:
        """(c,) of states (c, d)."""
        mean = self.total / self.count
        moved = self.inverse @ mean
        centred = self.inverse - np.outer(moved, moved) / (-1 / self.count + mean @ moved)
        g = states - mean
        return np.sqrt(np.einsum("ij,jk,ik->i", g, centred, g))


def states_by_expanded_caches(model, cache, candidates, position, with_head=False) -> torch.Tensor:
    """(c, d): the candidates' last hidden states, in batches of 64, each over a copy of the cache a candidate."""
    picks = []
    part = model if with_head else model.get_decoder()
    for batch in candidates.split(BATCH):
        expanded = copy.deepcopy(cache)
        expanded.batch_repeat_interleave(len(batch))
        places = torch.full((len(batch), 1), position)
        seen = torch.ones(len(batch), position + 1, dtype=torch.long)
        output = part(
            batch[:, None], **{CACHE: expanded}, position_ids=places, attention_mask=seen,
            **({"output_hidden_states": True} if with_head else {}),
        )  # fmt: skip
        picks.append((output.hidden_states[-1] if with_head else output[0])[:, -1])
    return torch.cat(picks)


@torch.inference_mode()
def responses(
    model, prompt_ids, sampler, *, n, max_tokens, seed, eos, with_head=False, report=lambda: None
) -> tuple[list[list[int]], list[np.ndarray]]:
    """The tokens of n responses sampled one after another, and their token states (T, d)."""
    covariance = PlainCovariance(model.config.hidden_size, sampler.lam)
    tokens, states, prompt = [], [], DynamicCache()
    if len(prompt_ids) > 1:  # once, as the engine does
        model.get_decoder()(torch.tensor([prompt_ids[:-1]]), **{CACHE: prompt})
    for i in range(n):
        stream = uniforms(seed, i, max_tokens)
        sampled = respond(model, prompt_ids, copy.deepcopy(prompt), sampler, covariance, stream, eos, with_head)
        tokens.append(sampled[0])
        states.append(sampled[1])
        covariance.add(sampled[1])
        report()
    return tokens, states


def respond(
    model, prompt_ids, cache, sampler, covariance, stream, eos, with_head=False
) -> tuple[list[int], np.ndarray]:
    """One response: tokens, and their states (T, d) float64."""
    fed = torch.tensor([prompt_ids[-1:]])
    tokens, states = [], []
    for uniform in [*stream, None]:
        output = model(fed, **{CACHE: cache}, output_hidden_states=True)
        if tokens:
            states.append(output.hidden_states[-1][0, -1].double().numpy())
        if uniform is None or (tokens and tokens[-1] in eos):
            return tokens, np.array(states)
        logits = output.logits[:, -1].float()
        for warp in filters(sampler):
            logits = warp(fed, logits)
        candidates = logits[0].isfinite().nonzero()[:, 0]
        if covariance.count and sampler.beta:
            position = len(prompt_ids) + len(tokens)
            hidden = states_by_expanded_caches(model, cache, candidates, position, with_head)
            bonus = covariance.bonus(hidden.double().numpy())
            logits[0, candidates] += torch.tensor(sampler.beta * bonus).float()
        tokens.append(int(inverse_cdf(logits, torch.tensor([uniform], dtype=torch.float64))))
        fed = torch.tensor([[tokens[-1]]])
    raise AssertionError("the last uniform is None")
