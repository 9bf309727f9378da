"""k-medoids: no single swap lowers the sum of distances, and the extra is named where it is missing."""

import sys

import numpy as np
import pytest
from support.refusals import refusal_of
from support.vector_pools import vector_pool

from harness_selectors.kmedoids import KMedoids, reference_swap_gain


def test_no_single_swap_lowers_the_sum_of_distances():
    pytest.importorskip("kmedoids")
    h = np.random.default_rng(20).normal(size=(12, 3)).astype(np.float32)
    for k in (1, 3, 6):
        assert reference_swap_gain(h, KMedoids().select(vector_pool(h), k, np.random.default_rng(0))) <= 1e-5


def test_distances_are_summed_and_not_their_squares():
    pytest.importorskip("kmedoids")
    h = np.array([[0], [1], [2], [3], [100]], np.float32)
    assert KMedoids().select(vector_pool(h), 1, np.random.default_rng(0)) == [2]


def test_the_extra_is_named_where_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "kmedoids", None)
    assert "kmedoids: needs the package kmedoids: pip install 'diversity-harness[kmedoids]'" in refusal_of(KMedoids)
