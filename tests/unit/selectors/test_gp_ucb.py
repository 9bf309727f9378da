"""GP-UCB and Thompson sampling pick by the posterior of a Gaussian process, written out here."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare
from support.kernels import reference_tanimoto
from support.selector_pools import pool_of, ranked

from harness import Outcome, Pool
from harness_selectors import gp_ucb
from harness_selectors.gp_ucb import GpThompson, GpUcb, known

RNG = np.random.default_rng(0)
MEASURED = [3.0, -2.0, 7.5, 1.0]
STANDARDISED = [(value - np.mean(MEASURED)) / np.std(MEASURED) for value in MEASURED]


def rbf(h, length):
    """The kernel by its definition: its length is in units of the median distance to the nearest other row."""
    distance = np.linalg.norm(h[:, None].astype(float) - h, axis=2)
    nearest = np.where(distance > 0, distance, np.inf).min(axis=1)
    return np.exp(-(distance**2) / (2 * (length * np.median(nearest)) ** 2))


def posterior(k, rows, values, noise):
    """Mean (n,) and covariance (n, n) given values of rows, from the definition."""
    solved = np.linalg.solve(k[np.ix_(rows, rows)] + noise**2 * np.eye(len(rows)), k[rows])
    return solved.T @ np.asarray(values), k - k[:, rows] @ solved


def best(mean, covariance, c, rows):
    """The row with the largest mean + c · deviation, of those not in `rows`."""
    score = mean + c * np.sqrt(np.maximum(np.diag(covariance), 0))
    score[rows] = -np.inf
    return score.argmax()


def outcomes_of(rows, values):
    return [Outcome(row, value) for row, value in zip(rows, values, strict=True)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("given", "values"), [([0.0, 0.0], [0, 0]), ([1.0, 0.0, 0.0], [3, 0, 0]), (MEASURED, STANDARDISED)]
)
def test_gp_ucb_picks_the_largest_mean_plus_deviation(seed, given, values):
    rng, rows = np.random.default_rng(seed), [5, 0, 3, 7][: len(given)]
    h, counts = rng.normal(size=(8, 3)).astype(np.float32), rng.poisson(1.0, size=(8, 12)).astype(np.float32)
    pick = GpUcb(c=0.7, noise=0.3, length=0.8).pick_after(pool_of(embeddings=h), outcomes_of(rows, given), RNG)
    assert pick == best(*posterior(rbf(h, 0.8), rows, values, 0.3), 0.7, rows)
    mean = counts.mean(axis=0)
    centred = Pool(["x"] * 8, counts - mean, np.zeros(8), np.ones(8, np.int64), [None] * 8, mean=mean)
    pick = GpUcb(c=0.7, noise=0.3, kernel="tanimoto").pick_after(centred, outcomes_of(rows, given), RNG)
    assert pick == best(*posterior(reference_tanimoto(counts), rows, values, 0.3), 0.7, rows)


def test_an_outcome_that_is_not_known_counts_as_the_mean_there_and_without_any_it_goes_where_it_knows_least():
    h = np.random.default_rng(3).normal(size=(8, 3)).astype(np.float32)
    k, pool = rbf(h, 1.0), pool_of(embeddings=h)
    mean, _ = posterior(k, [5, 0], [3, 0], 0.5)
    expected = best(*posterior(k, [5, 0, 2], [3, 0, mean[2]], 0.5), 1.0, [5, 0, 2])
    assert GpUcb().pick_after(pool, outcomes_of([5, 2, 0], [1.0, None, 0.0]), RNG) == expected
    order = ranked(GpUcb(), pool)
    for t in range(1, 8):
        left = np.diag(posterior(k, order[:t], np.zeros(t), 0.5)[1])[order[t:]]
        assert left[0] == pytest.approx(left.max(), abs=1e-9)
        assert GpUcb().pick_after(pool, outcomes_of(order[:t], [None] * t), RNG) == order[t]


def test_thompson_picks_each_as_often_as_the_posterior_puts_it_first():
    h = np.random.default_rng(4).normal(size=(5, 2)).astype(np.float32)
    mean, covariance = posterior(rbf(h, 1.0), [1, 3], [-1.0, 1.0], 0.5)
    rest, noise = [0, 2, 4], np.random.default_rng(5)
    draws = noise.multivariate_normal(np.zeros(3), covariance[np.ix_(rest, rest)], size=200_000)
    expected = np.bincount((mean[rest] + 0.8 * draws).argmax(axis=1), minlength=3) / 200_000
    pool, selector, outcomes = pool_of(embeddings=h), GpThompson(c=0.8), outcomes_of([1, 3], [2.0, 5.0])
    picks = Counter(selector.pick_after(pool, outcomes, np.random.default_rng(seed)) for seed in range(600))
    assert chisquare([picks[i] for i in rest], expected * 600).pvalue > 0.001


def test_thompson_draws_over_at_most_so_many_of_the_rest_half_of_them_the_likeliest():
    pool, hit = pool_of(embeddings=np.arange(40, dtype=np.float32)[:, None] ** 1.5), [Outcome(0, 1.0)]
    one, two = (
        {GpThompson(most=most).pick_after(pool, hit, np.random.default_rng(seed)) for seed in range(300)}
        for most in (1, 2)
    )
    assert one == set(range(1, 40))
    assert 1 in two  # the nearest to the hit, in every draw


def test_what_is_kept_of_a_pool_changes_no_pick_and_goes_with_the_pool():
    h, rng = np.random.default_rng(8).normal(size=(60, 4)).astype(np.float32), np.random.default_rng(9)
    pool, before, outcomes = pool_of(embeddings=h), len(gp_ucb._processes), []
    for t in range(40):
        for selector in (GpUcb(), GpThompson(most=20), GpUcb(length=2)):
            pools = (pool, pool_of(embeddings=h))
            pick, alone = (selector.pick_after(each, outcomes, np.random.default_rng(t)) for each in pools)
            assert pick == alone
        outcomes.append(Outcome(pick, None if t % 3 else float(rng.random() < 0.3)))
        if t % 7 == 6:  # outcomes come late, and for another search there are fewer
            outcomes = [Outcome(each.index, each.value or float(rng.random() < 0.3)) for each in outcomes]
        if t == 25:
            outcomes = outcomes[4:9]
    del pools
    assert len(gp_ucb._processes) == before + 1
    del pool
    assert len(gp_ucb._processes) == before


def test_a_copy_of_a_picked_row_waits_until_no_other_is_left_and_vectors_that_are_all_equal_are_no_trouble():
    pool = pool_of(embeddings=np.array([[0, 1], [0, 1], [0, 1], [9, 9], [5, 2]], np.float32))
    equal = pool_of(embeddings=np.ones((6, 3), np.float32))
    for selector in (GpUcb(c=0.01), GpThompson()):
        picks = [Outcome(0, 7.0)]
        for seed in range(4):
            picks.append(Outcome(selector.pick_after(pool, picks, np.random.default_rng(seed)), 0.0))
        assert {pick.index for pick in picks[1:3]} == {3, 4}, selector
        outcomes = outcomes_of([0, 1, 2], [2.0, 2.0, None])
        assert selector.pick_after(equal, outcomes, np.random.default_rng(0)) in (3, 4, 5)
        assert sorted(ranked(selector, equal)) == list(range(6))


def test_outcomes_of_zero_and_one_stay_what_they_are_and_measured_ones_are_standardised():
    assert known(outcomes_of([4, 2, 7], [1.0, None, 0.0]))[1].tolist() == [3.0, 0.0]
    assert known(outcomes_of(range(4), MEASURED))[1] == pytest.approx(STANDARDISED)
    assert known(outcomes_of([0, 1], [5.0, 5.0]))[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("selector", [GpUcb(), GpThompson()])
def test_hits_in_small_clusters_are_found(selector):
    """36 of 1,000 rows are hits, in two clusters; 60 calls at random find 2."""
    rng = np.random.default_rng(7)
    cluster = np.sort(rng.integers(60, size=1000))
    h = (2 * rng.normal(size=(60, 32))[cluster] + rng.normal(size=(1000, 32))).astype(np.float32)
    hits, outcomes = np.isin(cluster, [11, 47]) & (rng.random(1000) < 0.9), []
    for t in range(60):
        pick = selector.pick_after(pool_of(embeddings=h), outcomes, np.random.default_rng(t))
        outcomes.append(Outcome(pick, float(hits[pick])))
    assert hits.sum() == 36
    assert sum(outcome.value for outcome in outcomes) >= 10
