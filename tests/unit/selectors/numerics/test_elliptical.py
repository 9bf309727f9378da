"""The greedy order by the elliptical bonus: how blocks end, bounds that stay bounds, first picks that cost little."""

from itertools import islice

import numpy as np
import pytest
from support.selector_pools import after, pool_of, ranked, recorded

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


@pytest.mark.parametrize("margin", [-1e3, 0.1])
def test_copies_come_in_the_order_of_their_indices_however_their_block_ends(margin, monkeypatch):
    monkeypatch.setattr(elliptical, "MARGIN", margin)
    monkeypatch.setattr(elliptical, "WHOLE", 330)
    rng = np.random.default_rng(21)
    row = rng.permutation(np.repeat(np.arange(400), 2))
    pool = pool_of(embeddings=mixture(rng, 400)[row])
    order = ranked(RepExp(), pool)
    early = np.flatnonzero(np.isin(row, row[order[:9]]))[::-2].tolist()  # of copies the later ones among them
    for before, rest in ((order[:1], order[1:]), (early, after(RepExp(), pool, early))):
        assert sorted(before + rest) == list(range(800))
        assert row[rest].tolist() == row[reference_order(pool.embeddings, 1.0, before)[len(before) :]].tolist()
        assert all((np.diff([index for index in rest if row[index] == i]) > 0).all() for i in range(400))


@pytest.mark.parametrize("renew", [10, 10**9])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e60])
def test_bounds_stay_bounds_and_are_nearly_exact_once_computed_anew(renew, scale, monkeypatch):
    h = scale * mixture(np.random.default_rng(22), 1500).astype(np.float64)
    excess, activate_largest = [], elliptical._Greedy._activate_largest

    def checked(self, forced):
        if self.factor is not None:
            left = self.bound > -np.inf
            exact = np.square(self.h[left].astype(np.float64) @ self.factor).sum(axis=1)
            assert (self.bound[left] >= exact * (1 - 1e-9)).all()
            excess.append(np.median(self.bound[left] / exact) - 1)
        activate_largest(self, forced)

    monkeypatch.setattr(elliptical, "RENEW", renew)
    monkeypatch.setattr(elliptical, "STALE", 1e-4)
    monkeypatch.setattr(elliptical._Greedy, "_activate_largest", checked)
    ranked(RepExp(lam=scale**2), pool_of(embeddings=h))
    assert len(excess) > 5
    assert (max(excess) < 1e-3) == (renew == 10)


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
