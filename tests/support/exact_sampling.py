"""A sampler's exact distribution, and a test of whether tokens follow it."""

import numpy as np
from scipy.stats import chisquare

from harness import Sampler


def probabilities(sampler: Sampler, logits: np.ndarray) -> np.ndarray:
    """(V,) probabilities by the definitions: temperature, then top-k, top-p, min-p, each on what is left."""
    p = np.exp(logits / sampler.temperature)
    if sampler.top_k:
        p[np.argsort(-p)[sampler.top_k :]] = 0
    p /= p.sum()
    order = np.argsort(-p)
    p[order[np.cumsum(p[order]) - p[order] >= sampler.top_p]] = 0  # keeps the token that crosses top_p
    p[p < sampler.min_p * p.max()] = 0
    return p / p.sum()


def assert_sampled_from(tokens: np.ndarray, p: np.ndarray) -> None:
    """A chi-square test, rare tokens taken together; no token that has no probability."""
    counts = np.bincount(tokens, minlength=len(p))
    assert not counts[p == 0].any()
    common = p * len(tokens) >= 8
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(p[common], p[~common].sum()) * len(tokens)
    assert chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 1e-3
