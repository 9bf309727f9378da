"""The greedy order by the elliptical bonus: how blocks end, bounds that stay bounds, first picks that cost little."""

from itertools import islice

import numpy as np
import pytest
from support.selector_pools import pool_of, ranked, recorded

from harness_selectors.numerics import elliptical
from harness_selectors.numerics.elliptical_bounds import OutsideRows
from harness_selectors.repexp import RepExp, reference_order


def mixture(rng: np.random.Generator, n: int):
    """More distinct rows than fit into the active set, so near to each other that few picks are sure at once."""
    return (3 * rng.normal(size=(30, 24))[rng.integers(30, size=n)] + rng.normal(size=(n, 24))).astype(np.float32)


@pytest.mark.parametrize("margin", [-1e3, 0.1, 1.0])
def test_a_block_goes_on_after_its_sure_picks_and_is_cut_before_the_first_wrong_one(margin, monkeypatch):
    def note(right, rows, bound, v, best, sure, active):
        return sure, right, len(v)

    h, blocks = mixture(np.random.default_rng(20), 1500), recorded(monkeypatch, OutsideRows, "fall", note)
    monkeypatch.setattr(elliptical, "MARGIN", margin)
    order = ranked(RepExp(), pool_of(embeddings=h))
    assert order == reference_order(h, 1.0, order[:1])
    assert all(1 <= sure <= right <= tried for sure, right, tried in blocks)
    assert (sum(right for _, right, _ in blocks) > 1.3 * sum(sure for sure, _, _ in blocks)) == (margin < 1)
    assert any(right < tried for _, right, tried in blocks) == (margin < 1)


def test_pulling_few_picks_does_little_of_the_work(monkeypatch):
    joins = recorded(monkeypatch, elliptical._ActiveSet, "join", lambda _, active, rows, g: len(rows))
    falls = recorded(monkeypatch, OutsideRows, "fall", lambda *_: 1)
    h = np.random.default_rng(9).normal(size=(3000, 16)).astype(np.float32)
    ranking = RepExp().rank(pool_of(embeddings=h), np.random.default_rng(0))
    assert not joins
    list(islice(ranking, 16))
    few_joins, few_falls = sum(joins), len(falls)
    list(ranking)
    assert few_falls <= 16
    assert few_falls * 10 < len(falls)
    assert few_joins * 5 < sum(joins)
