"""A quality-diversity DPP: every pick adds most to the log-determinant of the kernel weighted by the score."""

import numpy as np
import pytest
from support.kernels import reference_cosines
from support.selector_pools import after, pool_of, ranked
from support.vector_pools import FAMILIES, assert_greedy, on_every_family, some_verified

from harness_selectors.dpp_map import RIDGE, DPPMap, ScoreDPP, reference_residuals


def weighted_kernel(h, scores, theta):
    """L(x, y) = q(x) cos(x, y) q(y), the largest q being 1."""
    z = (scores - scores.mean()) / scores.std()
    quality = np.exp(theta * (z - z.max()) / 2)
    return quality[:, None] * reference_cosines(h) * quality


@pytest.mark.parametrize("theta", [0.5, 3.0])
def test_every_pick_has_the_largest_residual_from_the_start_and_after_what_was_verified(theta):
    def check(h):
        scores = np.random.default_rng(3).normal(size=len(h))
        n, pool, verified = len(h), pool_of(embeddings=h, scores={"rm": scores}), some_verified(len(h))
        kernel, selector = weighted_kernel(h, scores, theta), ScoreDPP(theta)

        def residual(picked):
            return reference_residuals(kernel, RIDGE, picked)

        order = ranked(selector, pool)
        assert order[0] == scores.argmax()
        assert_greedy(order, n, residual, rtol=1e-7, atol=1e-11)
        order = verified + after(selector, pool, verified)
        assert_greedy(order, n, residual, start=len(verified), rtol=1e-7, atol=1e-11)

    on_every_family(check)


def test_up_to_the_rank_a_pick_adds_its_score_and_the_logarithm_of_what_is_left_of_it():
    h = np.random.default_rng(4).normal(size=(8, 12)).astype(np.float32)
    scores = np.random.default_rng(5).normal(size=8)
    order = ranked(ScoreDPP(theta=2.0), pool_of(embeddings=h, scores={"rm": scores}))
    z, cosines = (scores - scores.mean()) / scores.std(), reference_cosines(h)
    for k in range(1, 8):
        gain = 2.0 * z + np.log(np.maximum(reference_residuals(cosines, 0.0, order[:k]), 1e-300))
        assert gain[order[k]] == pytest.approx(gain[order[k:]].max(), abs=1e-4)


def test_without_weight_on_the_score_it_is_the_dpp_of_the_cosine_kernel_but_for_the_first_pick():
    h = FAMILIES["gaussian"]
    pool = pool_of(embeddings=h, scores={"rm": np.arange(len(h))})
    first = len(h) - 1
    assert ranked(ScoreDPP(theta=0), pool) == [first, *after(DPPMap("cosine"), pool, [first])]
