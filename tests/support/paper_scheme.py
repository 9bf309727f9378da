"""Token-level RepExp as the paper describes it (Tuyls et al. 2025), slow and plain: what the engine is held against.

A step passes the last token through the model for its logits, then each candidate over a cache of its own; the
covariance is numpy's, updated token by token and centred by its rank-one correction.
"""

import copy

import numpy as np
import torch
from transformers import DynamicCache

from harness_plugins.engines.transformers.sampling import CACHE, filters, inverse_cdf, uniforms


class PlainCovariance:
    """Σ̃⁻¹, μ and H as in the paper's proposition."""

    def __init__(self, width, lam):
        self.inverse, self.total, self.count = np.eye(width) / lam, np.zeros(width), 0

    def add(self, states):
        """Sherman and Morrison, a token at a time."""
        for h in states:
            moved = self.inverse @ h
            self.inverse -= np.outer(moved, moved) / (1 + h @ moved)
            self.total, self.count = self.total + h, self.count + 1

    def bonus(self, states):
        """(c,) of states (c, d)."""
        mean = self.total / self.count
        moved, g = self.inverse @ mean, states - mean
        centred = self.inverse - np.outer(moved, moved) / (-1 / self.count + mean @ moved)
        return np.sqrt(np.einsum("ij,jk,ik->i", g, centred, g))


def states_by_expanded_caches(model, cache, candidates, position) -> torch.Tensor:
    """(c, d): the candidates' last hidden states, in batches of 64, each over a copy of the cache a candidate."""
    picks = []
    for batch in candidates.split(64):
        expanded = copy.deepcopy(cache)
        expanded.batch_repeat_interleave(len(batch))
        places = torch.full((len(batch), 1), position)
        seen = torch.ones(len(batch), position + 1, dtype=torch.long)
        fed = {CACHE: expanded, "position_ids": places, "attention_mask": seen}
        picks.append(model.get_decoder()(batch[:, None], **fed)[0][:, -1])
    return torch.cat(picks)


@torch.inference_mode()
def responses(model, prompt_ids, sampler, *, n, max_tokens, seed, eos) -> tuple[list[list[int]], list[np.ndarray]]:
    """The tokens of n responses sampled one after another, and their token states (T, d) float64."""
    covariance, tokens, states, prompt = PlainCovariance(model.config.hidden_size, sampler.lam), [], [], DynamicCache()
    model.get_decoder()(torch.tensor([prompt_ids[:-1]]), **{CACHE: prompt})  # once, as the engine does
    for i in range(n):
        stream = uniforms(seed, i, max_tokens)
        sampled = _respond(model, prompt_ids, copy.deepcopy(prompt), sampler, covariance, stream, eos)
        tokens.append(sampled[0])
        states.append(sampled[1])
        covariance.add(sampled[1])
    return tokens, states


def _respond(model, prompt_ids, cache, sampler, covariance, stream, eos):
    fed, tokens, states = torch.tensor([prompt_ids[-1:]]), [], []
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
            hidden = states_by_expanded_caches(model, cache, candidates, len(prompt_ids) + len(tokens))
            bonus = covariance.bonus(hidden.double().numpy())
            logits[0, candidates] += torch.tensor(sampler.beta * bonus).float()
        tokens.append(int(inverse_cdf(logits, torch.tensor([uniform], dtype=torch.float64))))
        fed = torch.tensor([[tokens[-1]]])
