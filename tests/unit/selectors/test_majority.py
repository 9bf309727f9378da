"""Majority: all of the answer with most votes, then the next; votes and the order inside by a score."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.selector_pools import after, assert_equally_often, assert_law, pool_of, ranked

from harness_selectors.majority import Majority

ANSWERS = st.lists(st.sampled_from(["1", "2", "3", None]), min_size=1, max_size=12)


@given(answers=ANSWERS, seed=st.integers(0, 99))
def test_clusters_come_whole_the_largest_first_and_what_has_no_answer_last(answers, seed):
    picked = [answers[index] for index in ranked(Majority(), pool_of(answers=answers), seed)]
    runs = [answer for i, answer in enumerate(picked) if i == 0 or picked[i - 1] != answer]
    votes = Counter(answer for answer in answers if answer is not None)
    assert sorted(runs, key=lambda answer: (answer is None, -votes[answer])) == runs
    assert len(set(runs)) == len(runs)


def test_every_order_that_the_votes_allow_comes_equally_often():
    pool = pool_of(answers=["a", "b", "a", "c", None])
    orders = [(*first, *others, 4) for first in permutations((0, 2)) for others in permutations((1, 3))]
    assert_equally_often(Majority(), pool, orders, 2000)


def test_votes_are_the_sum_of_the_scores_and_the_highest_is_first_inside():
    answers, judge = ["a", "a", "a", "b", "b", "c"], [0.1, 0.3, np.nan, 0.9, 0.1, 0.7]
    pool = pool_of(answers=answers, scores={"judge": judge, "rm": [1, 2, 3, 4, 5, 6]})
    assert ranked(Majority(weight="judge", by="judge"), pool) == [3, 4, 5, 1, 0, 2]
    assert ranked(Majority(by="rm"), pool) == [2, 1, 0, 4, 3, 5]
    assert ranked(Majority(weight="judge", by="rm", turns=True), pool) == [4, 5, 2, 3, 1, 0]


@pytest.mark.parametrize(("weight", "expected"), [("logprob", "c"), ("mean-logprob", "b")])
def test_log_probabilities_vote_as_probabilities(weight, expected):
    lengths, logprobs = np.array([1, 1, 9, 9, 1]), np.log([0.1, 0.1, 0.2, 0.2, 0.5])
    pool = pool_of(answers=["a", "a", "b", "b", "c"], logprobs=logprobs, lengths=lengths)
    assert pool.answers[ranked(Majority(weight=weight), pool)[0]] == expected
    far = pool_of(answers=pool.answers, logprobs=logprobs - 5000, lengths=np.ones(5))
    assert far.answers[ranked(Majority(weight=weight), far)[0]] == "c"


def test_equal_votes_come_in_random_order_although_their_sums_round_otherwise():
    scores = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1]
    pool, rng = pool_of(answers=list("aaabbb"), scores={"rm": scores}), np.random.default_rng(1)
    law = dict.fromkeys("ab", 1 / 2)
    assert_law(lambda: pool.answers[next(Majority(weight="rm").rank(pool, rng))], law, 1000)


def test_votes_of_verified_responses_still_count():
    answers = ["a", "a", "a", "b", "b"]
    for seed in range(5):
        order = after(Majority(), pool_of(answers=answers), (0, 1), seed)
        assert [answers[index] for index in order] == ["a", "b", "b"]


def test_it_reads_the_columns_of_its_scores_and_none_without():
    options = [{}, {"weight": "rm"}, {"by": "logprob"}, {"weight": "rm", "by": "logprob"}]
    assert [Majority(**each).needs for each in options] == [(), ("scores",), ("logprobs",), ("scores", "logprobs")]
