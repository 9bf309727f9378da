"""`answer-coverage`: one of each answer in turn, the answers by their first place in facility location's order."""

import numpy as np
import pytest
from support.refusals import refusal_of
from support.selector_pools import pool_of

from harness_selectors.answer_coverage import AnswerCoverage
from harness_selectors.facility_location import FacilityLocation

RNG = np.random.default_rng(3)
H = RNG.normal(size=(30, 6)).astype(np.float32)
ANSWERS = [None if value == 7 else str(value) for value in RNG.integers(8, size=30)]
POOL = pool_of(embeddings=H, answers=ANSWERS)


def ranked(selector, pool=POOL, verified=()):
    return list(selector.rank_after(pool, verified, np.random.default_rng(0)))


def test_each_answer_has_its_turn_by_the_place_of_its_first_response_over_a_power_of_its_size():
    places = list(FacilityLocation().rank(POOL, RNG))
    for power in (0.0, 0.5, 2.0):
        order = ranked(AnswerCoverage(power=power))
        assert sorted(order) == list(range(30))
        groups = {}
        for index in places:
            groups.setdefault(ANSWERS[index], []).append(index)
        unanswered = groups.pop(None)
        assert order[-len(unanswered) :] == unanswered
        first = order[: len(groups)]
        key = {answer: (1 + places.index(group[0])) / len(group) ** power for answer, group in groups.items()}
        assert [ANSWERS[index] for index in first] == sorted(groups, key=key.get)
        assert set(first) == {group[0] for group in groups.values()}
        for answer, group in groups.items():
            assert [index for index in order if ANSWERS[index] == answer] == group


def test_a_verified_response_was_the_turn_of_its_answer():
    order = ranked(AnswerCoverage())
    assert ranked(AnswerCoverage(), verified=order[:5]) == order[5:]
    late = next(index for index in reversed(order) if ANSWERS[index] == ANSWERS[order[0]])
    assert late != order[0]
    after = ranked(AnswerCoverage(), verified=[late])
    count = len(set(ANSWERS) - {None})
    assert ANSWERS[order[0]] not in [ANSWERS[index] for index in after[: count - 1]]


def test_without_answers_it_is_facility_location_and_a_wrong_power_is_refused():
    bare = pool_of(embeddings=H, answers=[None] * 30)
    assert ranked(AnswerCoverage(), bare) == list(FacilityLocation().rank(bare, RNG))
    for power in (-1.0, float("inf"), float("nan")):
        assert refusal_of(AnswerCoverage, power).startswith("answer-coverage: power must be >= 0")


@pytest.mark.parametrize("n", [0, 1])
def test_a_pool_of_one_or_none(n):
    assert ranked(AnswerCoverage(), POOL.part(range(n))) == list(range(n))
