"""The median distance; incidence and coverage of n-grams; and `nearest_pick.py`: first picks are cheap."""

from itertools import islice

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from support.selector_pools import recorded
from support.vector_pools import vector_pool

from harness_selectors.kcenter import KCenter
from harness_selectors.kmeans import KMeansPP
from harness_selectors.mmr import MMR
from harness_selectors.ngram_coverage import coverage_rounds, incidence
from harness_selectors.numerics import nearest_pick, similarity


def test_the_median_distance_keeps_its_digits_and_that_of_many_rows_is_near_that_of_all_and_depends_on_no_order():
    rng = np.random.default_rng(7)
    h = rng.normal(size=(3000, 5)) * [5, 1, 1, 1, 1]
    h -= h.mean(axis=0)
    median = similarity.median_distance(h)
    assert median == pytest.approx(np.median(pdist(h)), rel=0.02)
    assert similarity.median_distance(h[::-1].copy()) == pytest.approx(median, rel=1e-12)
    h = np.where(rng.random((60, 1)) < 0.2, 9 * rng.normal(size=(60, 6)), 1) + 1e-9 * rng.normal(size=(60, 6))
    assert similarity.median_distance(similarity.centred(h)) == pytest.approx(np.median(pdist(h)), rel=1e-5)


def test_no_ngram_runs_from_one_text_into_the_next_and_rows_without_weight_come_last_by_index():
    has = incidence(["a b", "c", "", "d e f"], 3, str.split)
    assert (has.indptr.tolist(), has.shape) == ([0, 3, 4, 4, 10], (4, 10))
    has = incidence(["a", "b", "a", "c"], 1, str.split)
    assert list(coverage_rounds(has, np.array([0.0, 0.0, 1.0]))) == [3, 0, 1, 2]


def test_pulling_few_picks_does_little_of_the_work(monkeypatch):
    pairs = recorded(monkeypatch, nearest_pick.NearestPick, "near", lambda near, *_: near.size)
    h = np.random.default_rng(27).normal(size=(3000, 16)).astype(np.float32)
    for ranker in (KCenter(), MMR(), KMeansPP()):
        pairs.clear()
        ranking = ranker.rank(vector_pool(h), np.random.default_rng(0))
        assert not pairs
        list(islice(ranking, 16))
        few = sum(pairs)
        assert few <= 64 * 3000
        list(ranking)
        assert few * 20 < sum(pairs)
