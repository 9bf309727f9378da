"""Outcome UCB with verdicts: an answer that was wrong waits, one that was right comes again."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.selector_pools import pool_of, ranked

from harness import Outcome
from harness_selectors.outcome_ucb import OutcomeUcb, OutcomeUcbSeen

VALUES = st.sampled_from([0.0, 1.0, None, 0.4])


@given(
    c=st.sampled_from([0.0, 0.2, 1.0]),
    answers=st.lists(st.sampled_from(["1", "2", "3"]), min_size=2, max_size=9),
    values=st.lists(VALUES, max_size=8),
    seed=st.integers(0, 9),
)
def test_every_pick_has_the_best_score_left(c, answers, values, seed):
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
    picks = Counter(OutcomeUcbSeen().pick_after(pool, wrong, np.random.default_rng(seed)) for seed in range(40))
    assert set(picks) == {0, 2}
    assert ranked(OutcomeUcbSeen(), pool, 3) == ranked(OutcomeUcb(), pool, 3)


def test_a_common_wrong_answer_is_not_tried_twice_before_the_others():
    pool = pool_of(answers=["a"] * 8 + ["b", "c"])
    for seed in range(9):
        rng = np.random.default_rng(seed)
        assert OutcomeUcb().rank_after(pool, [0], rng).__next__() < 8  # 0.8 + √½ is above 0.1 + 1
        assert OutcomeUcbSeen().pick_after(pool, [Outcome(0, 0.0)], rng) >= 8
