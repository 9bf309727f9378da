"""The scores of a pool's responses: what a `Pool` takes, refuses and keeps of them; and one line of an exception."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from support.refusals import refusal_of

from harness.errors import error_text
from harness.testing.examples import without_ties as example


def test_scores_follow_the_rows_of_a_part_survive_a_pickle_and_cannot_be_changed():
    pool = replace(example(3), scores={"rm": [1, np.nan, 3], "judge": [0, 1, 2]})
    for each in (pool, pickle.loads(pickle.dumps(pool))):
        np.testing.assert_array_equal(each.part([2, 1]).scores["rm"], [3, np.nan])
        assert each.scores["judge"].dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        pool.scores["rm"][0] = 5
    with pytest.raises(TypeError):
        pool.scores["rm"] = np.zeros(3)
    line = refusal_of(replace, pool, scores={"rm": [0, -np.inf, 1]})
    assert line == "pool: score 'rm' of response 1 is -inf; NaN says that it is unknown"
    assert refusal_of(replace, pool, scores={"rm": [0, 1]}) == "pool: score 'rm' has 2 rows for 3 texts"


def test_the_line_of_an_exception_is_the_plugins_own_also_where_a_library_raised():
    with pytest.raises(ValueError, match="need at least one array") as caught:
        np.stack([])
    line = f"(test_records.py:{caught.traceback[0].lineno + 1})"
    assert error_text(caught.value) == f"raised ValueError: need at least one array to stack {line}"
