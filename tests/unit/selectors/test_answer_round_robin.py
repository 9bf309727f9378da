"""Answer round-robin, one response of each answer in turn; and `dedup.py`, uniform selection without repeats."""

from collections import Counter
from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.selector_pools import after, assert_equally_often, assert_law, mixed_pool, pool_of, ranked

from harness_selectors.majority import AnswerRoundRobin
from harness_selectors.uniform import Dedup, Uniform

ANSWERS = st.lists(st.sampled_from(["1", "2", "3", "4", None]), min_size=1, max_size=12)


def turns(answers, order) -> list[tuple[int, int]]:
    """For each pick that has an answer: how often that answer came before, and minus how often it is in the pool."""
    votes, seen, picks = Counter(answers), Counter(), []
    for index in order:
        if answers[index] is not None:
            picks.append((seen[answers[index]], -votes[answers[index]]))
            seen[answers[index]] += 1
    return picks


@given(answers=ANSWERS, seed=st.integers(0, 99))
def test_answers_come_in_turn_the_commonest_first_and_what_has_none_last(answers, seed):
    order = ranked(AnswerRoundRobin(), pool_of(answers=answers), seed)
    assert turns(answers, order) == sorted(turns(answers, order))
    without = [index for index in order if answers[index] is None]
    assert order[len(order) - len(without) :] == without


@given(answers=ANSWERS, seed=st.integers(0, 99))
def test_no_answer_can_be_a_cluster_like_the_others(answers, seed):
    named = ["none" if answer is None else answer for answer in answers]
    order = ranked(AnswerRoundRobin(unanswered="cluster"), pool_of(answers=answers), seed)
    assert order == ranked(AnswerRoundRobin(), pool_of(answers=named), seed)


def test_every_order_that_the_turns_allow_comes_equally_often():
    pool = pool_of(answers=["a", "b", "a", "c", None, None])
    orders = {
        (*first, *others, *second, *rest)
        for first, second in (((0,), (2,)), ((2,), (0,)))
        for others in permutations((1, 3))
        for rest in permutations((4, 5))
    }
    assert_equally_often(AnswerRoundRobin(), pool, orders, 2000)


def test_in_random_order_a_common_answer_is_no_more_likely_to_be_first():
    pool, rng = pool_of(answers=["a"] * 8 + ["b", "c"]), np.random.default_rng(7)
    selector = AnswerRoundRobin(order="random")
    assert_law(lambda: pool.answers[next(selector.rank(pool, rng))], dict.fromkeys("abc", 1 / 3), 2000)


def test_an_answer_has_had_as_many_turns_as_responses_with_it_were_verified():
    answers = ["a", "a", "a", "a", "b", "b", "c", None]
    for seed in range(10):
        order = after(AnswerRoundRobin(), pool_of(answers=answers), (1, 3, 6, 7), seed)
        assert [answers[index] for index in order] == ["b", "b", "a", "a"]  # a has had two turns, b none


def test_it_is_uniform_with_the_repeats_moved_to_the_end():
    pool = mixed_pool(50)
    for selector, keys in ((Dedup(), pool.texts), (Dedup(by="answer"), pool.answers)):
        firsts, repeats, seen = [], [], {None}
        for index in ranked(Uniform(), pool, 8):
            (repeats if keys[index] in seen else firsts).append(index)
            seen.add(keys[index])
        assert ranked(selector, pool, 8) == firsts + repeats


def test_trailing_whitespace_makes_no_other_text_and_leading_does():
    pool = pool_of(["x", "x \n", " x"])
    assert all(2 in ranked(Dedup(), pool, seed)[:2] for seed in range(8))


def test_repeats_of_what_was_verified_come_after_all_that_is_new():
    pool = pool_of(["a", "b ", "b", "c", "a", "d"])
    for seed in range(10):
        order = after(Dedup(), pool, (1, 0), seed)
        assert (set(order[:2]), set(order[2:])) == ({3, 5}, {2, 4})
