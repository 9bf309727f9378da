"""Selectors by answers: majority, round-robin, coverage, outcome UCB; and `dedup`, uniform without repeats."""

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.selector_pools import after, assert_equally_often, assert_law, mixed_pool, pool_of, ranked

from harness import Outcome
from harness_selectors.answer_coverage import AnswerCoverage
from harness_selectors.facility_location import FacilityLocation
from harness_selectors.majority import AnswerRoundRobin, Majority
from harness_selectors.outcome_ucb import OutcomeUcb, OutcomeUcbSeen
from harness_selectors.uniform import Dedup, Uniform

ANSWERS = st.lists(st.sampled_from(["1", "2", "3", "4", None]), min_size=1, max_size=12)
SEEDS = st.integers(0, 99)


@given(answers=ANSWERS, seed=SEEDS)
def test_answers_come_whole_or_in_turn_the_commonest_first_and_what_has_none_last(answers, seed):
    votes = Counter(answer for answer in answers if answer is not None)
    picked = [answers[index] for index in ranked(Majority(), pool_of(answers=answers), seed)]
    runs = [answer for i, answer in enumerate(picked) if i == 0 or picked[i - 1] != answer]
    assert sorted(set(runs), key=lambda answer: (answer is None, -votes[answer], runs.index(answer))) == runs
    order = ranked(AnswerRoundRobin(), pool_of(answers=answers), seed)
    seen, turns = Counter(), []
    for answer in (answers[index] for index in order):
        turns.append((answer is None, seen[answer] if answer else 0, -votes[answer]))
        seen[answer] += 1
    assert turns == sorted(turns)
    named = pool_of(answers=["none" if answer is None else answer for answer in answers])
    order = ranked(AnswerRoundRobin(unanswered="cluster"), pool_of(answers=answers), seed)
    assert order == ranked(AnswerRoundRobin(), named, seed)


def test_every_order_that_votes_turns_and_ties_allow_comes_equally_often():
    pool = pool_of(answers=["a", "b", "a", "c", None])
    orders = [(*first, *others, 4) for first in permutations((0, 2)) for others in permutations((1, 3))]
    assert_equally_often(Majority(), pool, orders, 800)
    orders = [(a, *others, b, 4) for a, b in ((0, 2), (2, 0)) for others in permutations((1, 3))]
    assert_equally_often(AnswerRoundRobin(), pool, orders, 800)
    orders = {o for o in permutations(range(5)) if o[4] == 4 and [i % 2 for i in o[:4]] in ([0, 1, 0, 1], [1, 0, 1, 0])}
    assert_equally_often(OutcomeUcb(), pool_of(answers=["a", "b", "a", "b", None]), orders, 800)
    pool, rng = pool_of(answers=["a"] * 8 + ["b", "c"]), np.random.default_rng(7)
    law = dict.fromkeys("abc", 1 / 3)  # in random order a common answer is no more likely to be first
    assert_law(lambda: pool.answers[next(AnswerRoundRobin(order="random").rank(pool, rng))], law, 600)


def test_votes_are_the_sum_of_the_scores_and_the_highest_is_first_inside():
    answers, judge = ["a", "a", "a", "b", "b", "c"], [0.1, 0.3, np.nan, 0.9, 0.1, 0.7]
    pool = pool_of(answers=answers, scores={"judge": judge, "rm": [1, 2, 3, 4, 5, 6]})
    assert ranked(Majority(weight="judge", by="judge"), pool) == [3, 4, 5, 1, 0, 2]
    assert ranked(Majority(by="rm"), pool) == [2, 1, 0, 4, 3, 5]
    assert ranked(Majority(weight="judge", by="rm", turns=True), pool) == [4, 5, 2, 3, 1, 0]
    options = [{}, {"weight": "rm"}, {"by": "logprob"}, {"weight": "rm", "by": "logprob"}]
    assert [Majority(**each).needs for each in options] == [(), ("scores",), ("logprobs",), ("scores", "logprobs")]
    pool, rng = pool_of(answers=list("aaabbb"), scores={"rm": [0.1, 0.2, 0.3, 0.3, 0.2, 0.1]}), np.random.default_rng(1)
    law = dict.fromkeys("ab", 1 / 2)  # equal votes, although their sums round otherwise
    assert_law(lambda: pool.answers[next(Majority(weight="rm").rank(pool, rng))], law, 600)


@pytest.mark.parametrize(("weight", "expected"), [("logprob", "c"), ("mean-logprob", "b")])
def test_log_probabilities_vote_as_probabilities(weight, expected):
    lengths, logprobs = np.array([1, 1, 9, 9, 1]), np.log([0.1, 0.1, 0.2, 0.2, 0.5])
    pool = pool_of(answers=["a", "a", "b", "b", "c"], logprobs=logprobs, lengths=lengths)
    assert pool.answers[ranked(Majority(weight=weight), pool)[0]] == expected
    far = pool_of(answers=pool.answers, logprobs=logprobs - 5000, lengths=np.ones(5))
    assert far.answers[ranked(Majority(weight=weight), far)[0]] == "c"


def test_what_was_verified_counts_as_vote_as_turn_and_lowers_its_answers_bonus():
    answers = ["a", "a", "a", "a", "b", "b", "c", None]
    pool = pool_of(answers=answers)
    for seed in range(8):
        assert [answers[index] for index in after(Majority(), pool, (0, 1, 6), seed)] == ["a", "a", "b", "b", None]
        order = after(AnswerRoundRobin(), pool, (1, 3, 6, 7), seed)
        assert [answers[index] for index in order] == ["b", "b", "a", "a"]  # a has had two turns, b none
        order = after(OutcomeUcb(), pool, (1, 3, 4), seed)
        assert [answers[index] for index in order[:2]] == ["c", "a"]  # 1/8 + 1, then 4/8 + √(1/3)


def test_each_answer_has_its_turn_by_the_place_of_its_first_response_over_a_power_of_its_size():
    rng = np.random.default_rng(3)
    h = rng.normal(size=(30, 6)).astype(np.float32)
    letters = [None if value == 7 else str(value) for value in rng.integers(8, size=30)]
    pool = pool_of(embeddings=h, answers=letters)
    places = list(FacilityLocation().rank(pool, rng))
    for power in (0.0, 0.5, 2.0):
        order, groups = ranked(AnswerCoverage(power=power), pool), {}
        assert sorted(order) == list(range(30))
        for index in places:
            groups.setdefault(letters[index], []).append(index)
        unanswered = groups.pop(None)
        assert order[-len(unanswered) :] == unanswered
        key = {answer: (1 + places.index(group[0])) / len(group) ** power for answer, group in groups.items()}
        assert [letters[index] for index in order[: len(groups)]] == sorted(groups, key=key.get)
        assert all([index for index in order if letters[index] == answer] == groups[answer] for answer in groups)
    order = ranked(AnswerCoverage(), pool)
    assert after(AnswerCoverage(), pool, order[:5]) == order[5:]  # a verified response was the turn of its answer
    late = next(index for index in reversed(order) if letters[index] == letters[order[0]])
    rest = after(AnswerCoverage(), pool, [late])
    assert letters[late] not in [letters[index] for index in rest[: len(set(letters) - {None}) - 1]]
    bare = pool_of(embeddings=h, answers=[None] * 30)
    assert ranked(AnswerCoverage(), bare) == ranked(FacilityLocation(), bare)


SELECTORS = st.builds(
    OutcomeUcb,
    c=st.sampled_from([0.0, 0.2, 1.0, 50.0]),
    bonus=st.sampled_from(["historical", "batch"]),
    value=st.sampled_from(["share", "none"]),
)


@given(selector=SELECTORS, answers=ANSWERS, seed=SEEDS)
def test_every_pick_has_the_best_share_plus_bonus_left(selector, answers, seed):
    order = ranked(selector, pool_of(answers=answers), seed)
    assert sorted(order) == list(range(len(answers)))
    for t in range(sum(answer is not None for answer in answers)):
        before, left = Counter(answers[index] for index in order[:t]), []
        for answer in (answers[index] for index in order[t:] if answers[index] is not None):
            share = answers.count(answer) / len(answers) if selector.value == "share" else 0.0
            historical = math.sqrt(1 / (before[answer] + 1))
            left.append(share + selector.c * (historical if selector.bonus != "batch" else -before[answer] / (t + 1)))
        assert left[0] == pytest.approx(max(left), abs=1e-12)


@given(
    c=st.sampled_from([0.0, 0.2, 1.0]),
    answers=st.lists(st.sampled_from(["1", "2", "3"]), min_size=2, max_size=9),
    values=st.lists(st.sampled_from([0.0, 1.0, None, 0.4]), max_size=8),
    seed=st.integers(0, 9),
)
def test_with_verdicts_an_answer_that_was_wrong_waits_and_one_that_was_right_comes_again(c, answers, values, seed):
    values = values[: len(answers) - 1]
    outcomes = [Outcome(index, value) for index, value in enumerate(values)]

    def score(answer):
        seen = [value for index, value in enumerate(values) if answers[index] == answer and value is not None]
        value = sum(seen) / len(seen) if seen else answers.count(answer) / len(answers)
        return value + c / math.sqrt(1 + answers[: len(values)].count(answer))

    pick = OutcomeUcbSeen(c).pick_after(pool_of(answers=answers), outcomes, np.random.default_rng(seed))
    assert pick >= len(values)
    assert score(answers[pick]) == pytest.approx(max(score(answer) for answer in answers[len(values) :]))


def test_responses_without_an_answer_come_last_and_without_outcomes_it_is_outcome_ucb():
    pool = pool_of(answers=[None, "a", None, "a", "b"])
    wrong = [Outcome(index, 0.0) for index in (1, 3, 4)]
    assert {OutcomeUcbSeen().pick_after(pool, wrong, np.random.default_rng(seed)) for seed in range(40)} == {0, 2}
    assert ranked(OutcomeUcbSeen(), pool, 3) == ranked(OutcomeUcb(), pool, 3)


def test_dedup_is_uniform_with_the_repeats_and_those_of_what_was_verified_moved_to_the_end():
    pool = mixed_pool(50)
    for selector, keys in ((Dedup(), pool.texts), (Dedup(by="answer"), pool.answers)):
        firsts, repeats, seen = [], [], {None}
        for index in ranked(Uniform(), pool, 8):
            (repeats if keys[index] in seen else firsts).append(index)
            seen.add(keys[index])
        assert ranked(selector, pool, 8) == firsts + repeats
    pool, blanks = pool_of(["a", "b ", "b", "c", "a", "d"]), pool_of(["x", "x \n", " x"])
    for seed in range(8):
        order = after(Dedup(), pool, (1, 0), seed)
        assert (set(order[:2]), set(order[2:])) == ({3, 5}, {2, 4})
        assert 2 in ranked(Dedup(), blanks, seed)[:2]  # trailing blanks make no other text, leading ones do
