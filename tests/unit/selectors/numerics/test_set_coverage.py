"""Greedy set coverage: which text has which n-gram, and columns without weight."""

import numpy as np

from harness_selectors.numerics import set_coverage


def test_no_ngram_runs_from_one_text_into_the_next():
    has = set_coverage.incidence(["a b", "c", "", "d e f"], 3, str.split)
    assert has.indptr.tolist() == [0, 3, 4, 4, 10]
    assert has.shape == (4, 10)


def test_rows_without_weight_come_last_by_index():
    has = set_coverage.incidence(["a", "b", "a", "c"], 1, str.split)
    assert list(set_coverage.coverage_rounds(has, np.array([0.0, 0.0, 1.0]))) == [3, 0, 1, 2]
