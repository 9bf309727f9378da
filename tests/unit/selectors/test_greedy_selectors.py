"""Greedy selectors: every pick is the best by its score, on all kinds of vectors, also after what was verified."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from support.kernels import reference_cosines, reference_gaussian, reference_similarities
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

from harness_selectors import dpp_map, facility_location, kcenter, mmr, repexp
from harness_selectors.dpp_map import DPPMap, ScoreDPP, reference_residuals
from harness_selectors.facility_location import FacilityLocation, reference_gains
from harness_selectors.kcenter import KCenter, reference_distances
from harness_selectors.mmr import MMR, ScoreMMR, reference_quality, reference_scores
from harness_selectors.numerics import elliptical, similarity
from harness_selectors.repexp import RepExp, reference_bonuses


def standard(scores):
    return (scores - scores.mean()) / scores.std()


def weighted(pool, theta):
    """L(x, y) = q(x) cos(x, y) q(y), the largest q being 1."""
    z = standard(pool.scores["rm"])
    quality = np.exp(theta * (z - z.max()) / 2)
    return quality[:, None] * reference_cosines(pool.embeddings) * quality


def gains(pool, kind):
    return partial(reference_gains, reference_similarities(pool.embeddings, kind))


def residuals(kernel, ridge, pool):
    return partial(reference_residuals, kernel(pool.embeddings), ridge)


def mixed(pool, alpha, per_token=True):
    quality = reference_quality(pool.logprobs / pool.lengths if per_token else pool.logprobs)
    return partial(reference_scores, reference_cosines(pool.embeddings), quality, alpha)


def by_score(pool, lam):
    return partial(reference_scores, reference_cosines(pool.embeddings), standard(pool.scores["rm"]), lam)


# selector, from the pool to the function that it maximises, its first greedy pick, the tolerance; dpp-map's are exact
# up to its ridge; facility location's similarities are float32: a gain is known to that share of sums of n of them
CASES = [
    *((RepExp(lam), lambda p, lam=lam: partial(reference_bonuses, p.embeddings, lam), 1, {}) for lam in (1e-3, 1, 1e3)),
    (KCenter(), lambda p: partial(reference_distances, p.embeddings), 1, {}),
    *((MMR(a), partial(mixed, alpha=a), 0, {"atol": 1e-9}) for a in (0.0, 0.3, 1.0)),
    (MMR(0.5, "logprob"), partial(mixed, alpha=0.5, per_token=False), 0, {"atol": 1e-9}),
    *((FacilityLocation(kind), partial(gains, kind=kind), 0, "sums") for kind in ("cosine", "rbf", "euclidean")),
    (DPPMap(ridge=1e-6), partial(residuals, reference_gaussian, 1e-6), 1, {"rtol": 1e-7, "atol": 1e-12}),
    (DPPMap("cosine", ridge=1e-4), partial(residuals, reference_cosines, 1e-4), 1, {"rtol": 1e-7, "atol": 1e-11}),
    *((ScoreMMR(lam, "rm"), partial(by_score, lam=lam), 0, {"atol": 1e-8}) for lam in (0.0, 0.3)),
    *(
        (ScoreDPP(t), lambda p, t=t: partial(reference_residuals, weighted(p, t), dpp_map.RIDGE), 1, {"atol": 1e-11})
        for t in (0.5, 3.0)
    ),
]


@tiny_sets
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_every_pick_has_the_best_score_from_the_start_and_after_what_was_verified(case):
    selector, best, start, tolerance = case

    def check(h):
        n, verified, scores = len(h), some_verified(len(h)), np.random.default_rng(3).normal(size=len(h))
        pool = replace(vector_pool(h), scores={"rm": scores})
        score = best(pool)
        known = {"rtol": 1e-6, "atol": 1e-6 * np.max(score([]))} if tolerance == "sums" else tolerance
        order = ranked(selector, pool)
        assert "Score" not in type(selector).__name__ or order[0] == scores.argmax()
        assert_greedy(order, n, score, start=start, **known)
        assert_greedy(verified + after(selector, pool, verified), n, score, start=len(verified), **known)

    on_every_family(check)


def test_the_references_are_the_textbooks_definitions():
    h, picked = np.random.default_rng(35).normal(size=(8, 3)), [5, 0, 3]
    squares = cdist(h, h) ** 2
    assert reference_distances(h, picked) == pytest.approx(squares[:, picked].min(axis=1), rel=1e-12)
    s = reference_similarities(h, "rbf")
    sums = [s[:, [*picked, i]].max(axis=1).sum() - s[:, picked].max(axis=1).sum() for i in range(8)]
    assert reference_gains(s, picked) == pytest.approx(sums, abs=1e-12)
    full, others = s + 1e-3 * np.eye(8), [1, 2, 4, 6, 7]
    growth = [np.linalg.det(full[np.ix_([*picked, i], [*picked, i])]) for i in others]
    determinant = np.linalg.det(full[np.ix_(picked, picked)])
    residual = reference_residuals(s, 1e-3, picked)[others] + 1e-3
    assert residual == pytest.approx(np.array(growth) / determinant, rel=1e-9)
    for k in range(9):
        inverse = np.linalg.inv(0.7 * np.eye(3) + sum((np.outer(row, row) for row in h[:k]), np.zeros((3, 3))))
        assert reference_bonuses(h, 0.7, range(k)) == pytest.approx([row @ inverse @ row for row in h], rel=1e-12)
    expected = [reference_bonuses(h, 0.7, range(k))[k] for k in range(8)]
    assert RepExp(lam=0.7).bonuses(h) == pytest.approx(expected, rel=1e-9)


@tiny_sets
@pytest.mark.usefixtures("blocks")
def test_a_larger_pool_has_the_order_of_the_reference():
    h = large_pool()[:500]
    pool = vector_pool(h)
    quality = reference_quality(pool.logprobs / pool.lengths)
    cosines, nearness = reference_cosines(h), reference_similarities(h, "cosine")
    dpp, centres, bonus = (ranked(selector, pool) for selector in (DPPMap(), KCenter(), RepExp()))
    assert ranked(MMR(0.5), pool) == mmr.reference_order(cosines, quality, 0.5)
    assert ranked(FacilityLocation(), pool)[:50] == facility_location.reference_order(nearness, 50)
    assert dpp == dpp_map.reference_order(reference_gaussian(h), 1e-6, dpp[:1])
    assert centres == kcenter.reference_order(h, centres[:1])
    assert bonus == repexp.reference_order(h, 1.0, bonus[:1])


@tiny_sets
@pytest.mark.usefixtures("blocks")
def test_ties_go_to_the_lowest_index_left_and_bonuses_that_float32_cannot_hold_are_ordered_too():
    first = RepExp(first="max")
    for rows in (np.ones((40, 3)), np.zeros((40, 3)), np.tile(np.eye(5)[: elliptical.ACTIVE], (10, 1))[:40]):
        assert ranked(first, vector_pool(rows.astype(np.float32))) == list(range(40))
    hypercube = np.array([[1 - 2 * (i >> bit & 1) for bit in range(7)] for i in range(128)], np.float32)
    assert ranked(first, vector_pool(hypercube))[0] == 0
    assert ranked(DPPMap(first="max"), vector_pool(np.eye(2, dtype=np.float32)[[0, 1, 0, 1, 1, 0]])) == list(range(6))
    sizes = np.random.default_rng(19).uniform(1, 9, size=30).astype(np.float32)
    for lam in (1e-38, 1e38):
        order = ranked(RepExp(lam=lam), vector_pool(np.diag(sizes)))
        assert order[1:] == [i for i in np.argsort(-sizes) if i != order[0]]


def test_what_gains_nothing_is_ranked_by_index_and_a_bandwidth_given_takes_the_place_of_the_median():
    """Rows of a cluster differ by less than float32 similarities can tell."""
    rng = np.random.default_rng(29)
    which = rng.integers(8, size=400)
    h = 30 * rng.normal(size=(8, 3))[which] + 1e-6 * rng.normal(size=(400, 3))
    order = ranked(FacilityLocation("rbf", bandwidth=12), vector_pool(h))
    assert sorted(which[order[:8]]) == list(range(8))
    assert order[8:] == sorted(order[8:])
    pool = vector_pool(large_pool()[:200])
    median = similarity.median_distance(similarity.centred(pool.embeddings))
    assert ranked(DPPMap(bandwidth=median), pool) == ranked(DPPMap(), pool) != ranked(DPPMap(bandwidth=0.5), pool)


def test_mmr_takes_equal_log_probabilities_as_half_no_tokens_as_one_and_copies_by_index():
    rng = np.random.default_rng(30)
    logprobs = rng.choice([-3.0, -2.0, -1.0], size=60, p=[0.1, 0.8, 0.1])
    pool = pool_of(embeddings=FAMILIES["gaussian"], logprobs=logprobs)
    assert_greedy(ranked(MMR(0.5), pool), 60, mixed(pool, 0.5), start=0, atol=1e-9)
    pool = pool_of(["", "x"], embeddings=np.eye(2, dtype=np.float32), logprobs=[-1.0, -0.5], lengths=[0, 1])
    assert ranked(MMR(), pool) == [1, 0]
    row, logprobs = rng.integers(9, size=90), rng.choice([-3.0, -2.0, -1.0], size=90)
    order = ranked(MMR(0.5), pool_of(embeddings=rng.normal(size=(9, 12))[row], logprobs=logprobs))
    for k, pick in enumerate(order):
        copies = np.isin(row[order[k:]], row[order[:k]]) & (logprobs[order[k:]] == logprobs[pick])
        assert not copies[0] or pick == np.array(order[k:])[copies].min()


def test_scores_have_no_scale_an_unknown_one_is_the_lowest_and_without_weight_it_is_the_dpp_of_cosines():
    h = FAMILIES["gaussian"]
    scores = 40 + 9 * np.random.default_rng(0).normal(size=len(h))
    scores[30] = np.nan
    lowest = np.where(np.isnan(scores), np.nanmin(scores), scores)
    moved, filled, pool = (pool_of(embeddings=h, scores={"rm": each}) for each in (1e6 + 1e-3 * scores, lowest, scores))
    assert ranked(ScoreMMR(), moved) == ranked(ScoreMMR(), pool) == ranked(ScoreMMR(), filled)
    pool = pool_of(embeddings=h, scores={"rm": np.arange(60)})
    assert ranked(ScoreDPP(theta=0), pool) == [59, *after(DPPMap("cosine"), pool, [59])]
