"""Maximal marginal relevance: every pick has the best mix of log-probability and unlikeness to the picks."""

import numpy as np
import pytest
from support.kernels import reference_cosines
from support.selector_pools import after, pool_of, ranked
from support.vector_pools import (
    FAMILIES,
    assert_greedy,
    large_pool,
    on_every_family,
    some_verified,
    tiny_sets,
    vector_pool,
)

from harness_selectors.mmr import MMR, reference_order, reference_quality, reference_scores


def scores(pool, alpha: float, per_token: bool = True):
    """What is maximised, from the picks so far to the score of every row."""
    quality = reference_quality(pool.logprobs / pool.lengths if per_token else pool.logprobs)
    cosines = reference_cosines(pool.embeddings)
    return lambda picked: reference_scores(cosines, quality, alpha, picked)


@tiny_sets
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.9, 1.0])
def test_every_pick_has_the_best_score_from_the_start_and_after_what_was_verified(alpha):
    def check(h):
        n, pool, verified = len(h), vector_pool(h), some_verified(len(h))
        best = scores(pool, alpha)
        assert_greedy(ranked(MMR(alpha), pool), n, best, start=0, atol=1e-9)
        assert_greedy(verified + after(MMR(alpha), pool, verified), n, best, start=len(verified), atol=1e-9)

    on_every_family(check)


def test_it_can_take_the_whole_log_probability():
    pool = vector_pool(FAMILIES["gaussian"])
    order = ranked(MMR(0.5, "logprob"), pool)
    assert_greedy(order, len(pool), scores(pool, 0.5, per_token=False), start=0, atol=1e-9)
    assert order != ranked(MMR(0.5), pool)


def test_a_large_pool_has_the_order_of_the_reference():
    pool = vector_pool(large_pool()[:1000])
    quality = reference_quality(pool.logprobs / pool.lengths)
    assert ranked(MMR(0.5), pool) == reference_order(reference_cosines(pool.embeddings), quality, 0.5)


def test_equal_log_probabilities_count_half():
    logprobs = np.random.default_rng(30).choice([-3.0, -2.0, -1.0], size=60, p=[0.1, 0.8, 0.1])
    pool = pool_of(embeddings=FAMILIES["gaussian"], logprobs=logprobs)
    assert_greedy(ranked(MMR(0.5), pool), 60, scores(pool, 0.5), start=0, atol=1e-9)


def test_a_response_without_tokens_counts_as_one_token():
    pool = pool_of(["", "x"], embeddings=np.eye(2, dtype=np.float32), logprobs=[-1.0, -0.5], lengths=[0, 1])
    assert ranked(MMR(), pool) == [1, 0]


def test_copies_of_picks_with_equal_log_probabilities_come_by_index():
    rng = np.random.default_rng(32)
    row, logprobs = rng.integers(9, size=90), rng.choice([-3.0, -2.0, -1.0], size=90)
    order = ranked(MMR(0.5), pool_of(embeddings=rng.normal(size=(9, 12))[row], logprobs=logprobs))
    for k, pick in enumerate(order):
        copies = np.isin(row[order[k:]], row[order[:k]]) & (logprobs[order[k:]] == logprobs[pick])
        assert not copies[0] or pick == np.array(order[k:])[copies].min()
