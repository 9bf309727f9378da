"""Similarities by scipy; the median distance; `set_coverage.py`; and `nearest_pick.py`: first picks are cheap."""

from itertools import islice

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from support.selector_pools import recorded
from support.vector_pools import vector_pool

from harness_selectors.kcenter import KCenter
from harness_selectors.kmeans_pp import KMeansPP
from harness_selectors.mmr import MMR
from harness_selectors.numerics import nearest_pick, set_coverage, similarity
from harness_selectors.numerics.similarity import reference_cosines, reference_gaussian


def median_bandwidth(h) -> float:
    return float(np.median(pdist(np.unique(h.astype(np.float64), axis=0))))


def test_the_reference_kernels_are_those_of_scipy():
    h = np.random.default_rng(34).normal(size=(8, 3)).astype(np.float32)
    wide = h.astype(np.float64)
    assert reference_cosines(h) == pytest.approx(1 - cdist(h, h, "cosine"), abs=1e-12)
    assert reference_gaussian(h, 0.7) == pytest.approx(np.exp(-(cdist(wide, wide) ** 2) / (2 * 0.7**2)), rel=1e-12)
    twice = np.vstack([h, h, -0.0 * h[:2]])
    assert reference_gaussian(twice) == pytest.approx(reference_gaussian(twice, median_bandwidth(twice)), rel=1e-12)
    assert reference_cosines(twice)[16:, 14:].tolist() == [[0, 0, 1, 1]] * 2


def test_the_median_distance_of_many_rows_is_near_that_of_all_and_depends_on_no_order():
    h = np.random.default_rng(7).normal(size=(3000, 5)) * [5, 1, 1, 1, 1]
    h -= h.mean(axis=0)
    median = similarity.median_distance(h)
    assert median == pytest.approx(np.median(pdist(h)), rel=0.02)
    assert similarity.median_distance(h[::-1].copy()) == pytest.approx(median, rel=1e-12)


def test_the_median_distance_of_near_copies_keeps_its_digits():
    rng = np.random.default_rng(33)
    h = np.where(rng.random((60, 1)) < 0.2, 9 * rng.normal(size=(60, 6)), 1) + 1e-9 * rng.normal(size=(60, 6))
    assert similarity.median_distance(similarity.centred(h)) == pytest.approx(median_bandwidth(h), rel=1e-5)


def test_no_ngram_runs_from_one_text_into_the_next():
    has = set_coverage.incidence(["a b", "c", "", "d e f"], 3, str.split)
    assert has.indptr.tolist() == [0, 3, 4, 4, 10]
    assert has.shape == (4, 10)


def test_rows_without_weight_come_last_by_index():
    has = set_coverage.incidence(["a", "b", "a", "c"], 1, str.split)
    assert list(set_coverage.coverage_rounds(has, np.array([0.0, 0.0, 1.0]))) == [3, 0, 1, 2]


def test_pulling_few_picks_does_little_of_the_work(monkeypatch):
    pairs = recorded(monkeypatch, nearest_pick.Sieve, "near", lambda near, *_: near.size)
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
