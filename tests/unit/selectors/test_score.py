"""By score, log-probability, length or norm, the best first; how a score is named and standardised."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import refusal_of
from support.selector_pools import assert_equally_often, mixed_pool, pool_of, ranked

from harness_selectors.numerics.columns import standardised
from harness_selectors.repexp import RepExp
from harness_selectors.score import Length, Logprob, Norm, Score, Unlikely

NUMBERS = st.lists(st.one_of(st.floats(-1e300, 1e300), st.just(np.nan)), min_size=1, max_size=9)


@given(values=NUMBERS, seed=st.integers(0, 9))
def test_scores_fall_and_unknown_ones_are_last(values, seed):
    ordered = np.array(values)[ranked(Score(), pool_of(scores={"rm": values}), seed)]
    np.testing.assert_array_equal(ordered, -np.sort(-np.array(values)))  # NaN sorts last


def test_a_score_is_taken_by_its_name_and_the_only_one_without_equal_ones_in_random_order():
    pool = pool_of(scores={"rm": [1, 2, 2, np.nan, np.nan]})
    orders = [(*high, 0, *unknown) for high in permutations((1, 2)) for unknown in permutations((3, 4))]
    assert_equally_often(Score(), pool, orders, 600)
    pool = pool_of(scores={"rm": [1, 2, 3], "judge": [3, 1, 2]}, lengths=[1, 2, 0], logprobs=[-3.0, -4.0, -8.0])
    orders = [ranked(Score(by=name), pool) for name in ("rm", "judge", "logprob", "mean-logprob")]
    assert orders == [[2, 1, 0], [0, 2, 1], [0, 1, 2], [1, 0, 2]]
    rng = np.random.default_rng(0)
    lines = [refusal_of(Score(by=name).rank, pool, rng) for name in (None, "rn")]
    assert lines == [
        "score: the pool has several scores: say by=NAME, one of rm, judge",
        "score: the pool has no score 'rn'; it has rm, judge",
    ]
    assert "score: the pool has no scores: give them in the pool file" in refusal_of(Score().rank, mixed_pool(3), rng)
    needs = [Score(by=name).needs for name in (None, "rm", "logprob", "mean-logprob")]
    assert needs == [("scores",), ("scores",), ("logprobs",), ("logprobs",)]
    assert ranked(Score(), pool_of(scores={"rm": []}, texts=[])) == []


def test_standardised_scores_have_mean_0_and_deviation_1_and_an_unknown_one_is_the_lowest():
    values = np.array([3.0, np.nan, 1.0, 7.0])
    known = np.array([3.0, 1.0, 1.0, 7.0])
    assert standardised(values) == pytest.approx((known - known.mean()) / known.std())
    assert standardised(1e300 * values) == pytest.approx((known - known.mean()) / known.std())
    for equal in ([0.1] * 7, [np.nan] * 2, [0.1, np.nan], []):
        assert standardised(np.array(equal)).tolist() == [0] * len(equal)


@given(rows=st.lists(st.tuples(st.integers(-6, 0), st.integers(0, 3)), min_size=1, max_size=12))
def test_orders_are_sorted_by_likelihood_or_length_with_ties_to_the_lowest_index(rows):
    n, length = range(len(rows)), [length for _, length in rows]
    pool = pool_of(logprobs=[logprob for logprob, _ in rows], lengths=length)
    mean = [logprob / max(length, 1) for logprob, length in rows]
    assert ranked(Logprob(), pool) == sorted(n, key=lambda i: -rows[i][0])
    assert ranked(Unlikely(), pool) == sorted(n, key=lambda i: rows[i][0])
    assert ranked(Logprob(per="token"), pool) == sorted(n, key=lambda i: -mean[i])
    assert ranked(Unlikely(per="token"), pool) == sorted(n, key=lambda i: mean[i])
    assert ranked(Length(), pool) == sorted(n, key=lambda i: length[i])
    assert ranked(Length(first="long"), pool) == sorted(n, key=lambda i: -length[i])


@given(seed=st.integers(0, 99), lam=st.sampled_from([1e7, 1e9]))
def test_norm_takes_the_largest_row_first_which_repexp_does_where_lam_is_large(seed, lam):
    h = np.random.default_rng(seed).normal(size=(8, 3)).astype(np.float32)
    pool = pool_of(embeddings=h)
    largest = sorted(range(8), key=lambda i: -sum(float(x) ** 2 for x in h[i]))
    assert ranked(Norm(), pool) == largest == ranked(RepExp(lam=lam, first="max"), pool)
    assert ranked(Norm(), pool_of(embeddings=np.array([[0, 1], [3, 0], [1, 0], [0, -3]], np.float32))) == [1, 3, 0, 2]
    assert "norm: the pool has no embeddings" in refusal_of(Norm().rank, pool_of(texts=["x"]), np.random.default_rng(0))
