"""The distance to the nearest pick: first picks come at once, and few pairs need a close look."""

from itertools import islice

import numpy as np
from support.selector_pools import recorded
from support.vector_pools import vector_pool

from harness_selectors.kcenter import KCenter
from harness_selectors.kmeans_pp import KMeansPP
from harness_selectors.mmr import MMR
from harness_selectors.numerics import nearest_pick


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
