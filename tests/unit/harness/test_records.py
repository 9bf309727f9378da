"""The scores of a pool's responses: what a `Pool` takes, refuses and keeps of them."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from support.refusals import refusal_of

from harness import Pool
from harness.testing.examples import without_ties as example


def scored(**scores) -> Pool:
    return replace(example(3), scores=scores)


def test_scores_follow_the_rows_of_a_part_and_survive_a_pickle():
    pool = scored(rm=[1, np.nan, 3], judge=[0, 1, 2])
    for each in (pool, pickle.loads(pickle.dumps(pool))):
        part = each.part([2, 1])
        assert list(part.scores) == ["rm", "judge"]
        np.testing.assert_array_equal(part.scores["rm"], [3, np.nan])
        assert each.scores["judge"].dtype == np.float64


def test_scores_cannot_be_changed():
    pool = scored(rm=[1, 2, 3])
    with pytest.raises(ValueError, match="read-only"):
        pool.scores["rm"][0] = 5
    with pytest.raises(TypeError):
        pool.scores["rm"] = np.zeros(3)


def test_an_infinite_score_and_one_of_another_length_are_refused():
    assert refusal_of(scored, rm=[0, -np.inf, 1]) == (
        "pool: score 'rm' of response 1 is -inf; NaN says that it is unknown"
    )
    assert refusal_of(scored, rm=[0, 1]) == "pool: score 'rm' has 2 rows for 3 texts"
