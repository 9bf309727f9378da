"""Token-level RepExp as the paper describes it (Tuyls et al. 2025), slow and plain: what the engine is held against.

A step passes the last token through the model for its logits, then each candidate over a cache of its own; the
covariance is summed and inverted anew.
"""

import copy

import numpy as np
import torch
from transformers import DynamicCache

from harness_plugins.engines.transformers.sampling import CACHE, filters, inverse_cdf, uniforms


def bonus(earlier, states, lam):
    """b (c,) of states (c, d) after responses with the token states `earlier`, as it is written."""
    h = np.concatenate(earlier)
    sigma, g = lam * np.eye(h.shape[1]) + (h - h.mean(0)).T @ (h - h.mean(0)), states - h.mean(0)
    return np.sqrt(np.einsum("ij,jk,ik->i", g, np.linalg.inv(sigma), g))


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
    tokens, states, prompt = [], [], DynamicCache()
    model.get_decoder()(torch.tensor([prompt_ids[:-1]]), **{CACHE: prompt})  # once, as the engine does
    for i in range(n):
        stream = uniforms(seed, i, max_tokens)
        sampled = _respond(model, prompt_ids, copy.deepcopy(prompt), sampler, states, stream, eos)
        tokens.append(sampled[0])
        states.append(sampled[1])
    return tokens, states


def _respond(model, prompt_ids, cache, sampler, earlier, stream, eos):
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
        if earlier and sampler.beta:
            hidden = states_by_expanded_caches(model, cache, candidates, len(prompt_ids) + len(tokens))
            b = bonus(earlier, hidden.double().numpy(), sampler.lam)
            logits[0, candidates] += torch.tensor(sampler.beta * b).float()
        tokens.append(int(inverse_cdf(logits, torch.tensor([uniform], dtype=torch.float64))))
        fed = torch.tensor([[tokens[-1]]])
