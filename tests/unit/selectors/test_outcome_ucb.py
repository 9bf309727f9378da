"""Outcome UCB: every pick has the best share plus bonus of the answers that are left."""

import math
from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.selector_pools import after, assert_equally_often, pool_of, ranked

from harness_selectors.outcome_ucb import OutcomeUcb

ANSWERS = st.lists(st.sampled_from(["1", "2", "3", "4", None]), min_size=1, max_size=12)


def scores(selector: OutcomeUcb, answers, order, t) -> list[float]:
    """The scores of pick t and of all that were left, from the definition."""
    before = Counter(answers[index] for index in order[:t])

    def score(answer):
        share = answers.count(answer) / len(answers) if selector.value == "share" else 0.0
        others = before[answer]
        bonus = min(1, math.sqrt(1 / (others + 1))) if selector.bonus == "historical" else -others / (t + 1)
        return share + selector.c * bonus

    return [score(answers[index]) for index in order[t:] if answers[index] is not None]


@given(
    selector=st.builds(
        OutcomeUcb,
        c=st.sampled_from([0.0, 0.2, 1.0, 50.0]),
        bonus=st.sampled_from(["historical", "batch"]),
        value=st.sampled_from(["share", "none"]),
    ),
    answers=ANSWERS,
    seed=st.integers(0, 99),
)
def test_every_pick_has_the_best_score_left(selector, answers, seed):
    order = ranked(selector, pool_of(answers=answers), seed)
    assert sorted(order) == list(range(len(answers)))
    for t in range(sum(answer is not None for answer in answers)):
        left = scores(selector, answers, order, t)
        assert left[0] == pytest.approx(max(left), abs=1e-12)


def test_ties_are_broken_and_responses_of_an_answer_chosen_at_random():
    answers = ["a", "b", "a", "b"]
    allowed = (answers, answers[::-1])
    orders = {(*order, 4) for order in permutations(range(4)) if [answers[index] for index in order] in allowed}
    assert_equally_often(OutcomeUcb(), pool_of(answers=[*answers, None]), orders, 2000)


def test_what_was_verified_lowers_the_bonus_of_its_answer():
    answers = ["a", "a", "a", "a", "b", "b", "c", None]
    for seed in range(10):
        order = after(OutcomeUcb(), pool_of(answers=answers), (1, 3, 4), seed)
        assert [answers[index] for index in order[:2]] == ["c", "a"]  # 1/8 + 1, then 4/8 + √(1/3)
