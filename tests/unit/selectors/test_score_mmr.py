"""Maximal marginal relevance by a score: every pick has the best mix of score and unlikeness to the picks."""

import numpy as np
import pytest
from support.kernels import reference_cosines
from support.selector_pools import after, pool_of, ranked
from support.vector_pools import FAMILIES, assert_greedy, on_every_family, some_verified

from harness_selectors.mmr import ScoreMMR, reference_scores


def scored_pool(h, seed=0):
    """A pool with a score that is unknown for one response, and with another."""
    scores = 40 + 9 * np.random.default_rng(seed).normal(size=len(h))
    scores[len(h) // 2] = np.nan
    return pool_of(embeddings=h, scores={"rm": scores, "other": -scores})


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_every_pick_has_the_best_value_from_the_start_and_after_what_was_verified(lam):
    def check(h):
        n, pool, verified, selector = len(h), scored_pool(h), some_verified(len(h)), ScoreMMR(lam, "rm")
        known = np.where(np.isnan(pool.scores["rm"]), np.nanmin(pool.scores["rm"]), pool.scores["rm"])
        z, cosines = (known - known.mean()) / known.std(), reference_cosines(h)

        def value(picked):
            return reference_scores(cosines, z, lam, picked)

        order = ranked(selector, pool)
        assert order[0] == known.argmax()
        assert_greedy(order, n, value, atol=1e-8)
        assert_greedy(verified + after(selector, pool, verified), n, value, start=len(verified), atol=1e-8)

    on_every_family(check)


def test_scores_have_no_scale_and_no_zero():
    h = FAMILIES["gaussian"]
    pool = scored_pool(h)
    moved = pool_of(embeddings=h, scores={"rm": 1e6 + 1e-3 * pool.scores["rm"]})
    assert ranked(ScoreMMR(), moved) == ranked(ScoreMMR(by="rm"), pool) != ranked(ScoreMMR(by="other"), pool)
