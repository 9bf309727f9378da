"""GP-UCB and Thompson sampling pick by the posterior of a Gaussian process, written out here."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare
from support.selector_pools import pool_of, ranked

from harness import Outcome
from harness_selectors.gp_ucb import GpThompson, GpUcb, standardised

RNG = np.random.default_rng(0)


def posterior(h, rows, values, noise, length):
    """Mean (n,) and covariance (n, n) given values of rows, from the definition."""
    h = h.astype(float)
    distance = np.linalg.norm(h[:, None] - h, axis=2)
    scale = length * np.median(distance[np.triu_indices(len(h), 1)])
    k = np.exp(-(distance**2) / (2 * scale**2))
    solved = np.linalg.solve(k[np.ix_(rows, rows)] + noise**2 * np.eye(len(rows)), k[rows])
    return solved.T @ np.asarray(values), k - k[:, rows] @ solved


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("values", [[0.0, 0.0], [1.0, 0.0, 0.0], [3.0, -2.0, 7.5, 1.0]])
def test_gp_ucb_picks_the_largest_mean_plus_deviation(seed, values):
    h = np.random.default_rng(seed).normal(size=(8, 3)).astype(np.float32)
    selector, rows = GpUcb(c=0.7, noise=0.3, length=0.8), [5, 0, 3, 7][: len(values)]
    mean, covariance = posterior(h, rows, standardised(values), 0.3, 0.8)
    score = mean + 0.7 * np.sqrt(np.diag(covariance))
    score[rows] = -np.inf
    outcomes = [Outcome(row, value) for row, value in zip(rows, values, strict=True)]
    assert selector.pick_after(pool_of(embeddings=h), outcomes, RNG) == score.argmax()


def test_an_outcome_that_is_not_known_counts_as_the_mean_there():
    h = np.random.default_rng(3).normal(size=(8, 3)).astype(np.float32)
    mean, _ = posterior(h, [5, 0], [1.0, -1.0], 0.1, 1.0)
    mean, covariance = posterior(h, [5, 0, 2], [1.0, -1.0, mean[2]], 0.1, 1.0)
    score = mean + np.sqrt(np.diag(covariance))
    score[[5, 0, 2]] = -np.inf
    outcomes = [Outcome(5, 1.0), Outcome(2, None), Outcome(0, 0.0)]
    assert GpUcb().pick_after(pool_of(embeddings=h), outcomes, RNG) == score.argmax()


def test_without_outcomes_gp_ucb_goes_where_it_knows_least():
    h = np.random.default_rng(1).normal(size=(9, 2)).astype(np.float32)
    order = ranked(GpUcb(), pool_of(embeddings=h))
    for t in range(1, 9):
        _, covariance = posterior(h, order[:t], np.zeros(t), 0.1, 1.0)
        left = np.diag(covariance)[order[t:]]
        assert left[0] == pytest.approx(left.max(), abs=1e-9)
        unknown = [Outcome(index, None) for index in order[:t]]
        assert GpUcb().pick_after(pool_of(embeddings=h), unknown, RNG) == order[t]


def test_a_failure_sends_both_elsewhere_and_a_success_near():
    h = np.concatenate([np.full((6, 2), -3.0), np.full((6, 2), 3.0)]).astype(np.float32)
    h += np.random.default_rng(2).normal(size=h.shape).astype(np.float32) / 10
    pool = pool_of(embeddings=h)
    for selector in (GpUcb(c=0.1), GpThompson()):
        after_failure, after_success = (
            [selector.pick_after(pool, [Outcome(0, value)], np.random.default_rng(seed)) < 6 for seed in range(60)]
            for value in (0.0, 1.0)
        )
        assert sum(after_failure) < 30, selector
        assert sum(after_success) > 40, selector


def test_thompson_picks_each_as_often_as_the_posterior_puts_it_first():
    h = np.random.default_rng(4).normal(size=(5, 2)).astype(np.float32)
    outcomes = [Outcome(1, 2.0), Outcome(3, 5.0)]
    mean, covariance = posterior(h, [1, 3], [-1.0, 1.0], 0.1, 1.0)
    rest = [0, 2, 4]
    draws = np.random.default_rng(5).multivariate_normal(mean[rest], covariance[np.ix_(rest, rest)], size=200_000)
    expected = np.bincount(draws.argmax(axis=1), minlength=3) / 200_000
    pool = pool_of(embeddings=h)
    picks = Counter(GpThompson().pick_after(pool, outcomes, np.random.default_rng(seed)) for seed in range(1000))
    assert chisquare([picks[i] for i in rest], expected * 1000).pvalue > 0.001


def test_thompson_draws_over_at_most_so_many_of_the_rest():
    h = np.random.default_rng(6).normal(size=(40, 2)).astype(np.float32)
    few = {
        GpThompson(most=1).pick_after(pool_of(embeddings=h), [Outcome(0, 1.0)], np.random.default_rng(s))
        for s in range(300)
    }
    assert few == set(range(1, 40))


def test_a_copy_of_a_picked_row_waits_until_no_other_is_left():
    h = np.array([[0, 1], [0, 1], [0, 1], [9, 9], [5, 2]], np.float32)
    pool = pool_of(embeddings=h)
    for selector in (GpUcb(c=0.01), GpThompson()):
        picks = [Outcome(0, 7.0)]
        for seed in range(4):
            picks.append(Outcome(selector.pick_after(pool, picks, np.random.default_rng(seed)), 0.0))
        assert {pick.index for pick in picks[1:3]} == {3, 4}, selector


def test_vectors_that_are_all_equal_are_no_trouble():
    pool = pool_of(embeddings=np.ones((6, 3), np.float32))
    for selector in (GpUcb(), GpThompson()):
        outcomes = [Outcome(0, 2.0), Outcome(1, 2.0), Outcome(2, None)]
        assert selector.pick_after(pool, outcomes, np.random.default_rng(0)) in (3, 4, 5)
        assert sorted(ranked(selector, pool)) == list(range(6))
