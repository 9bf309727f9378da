"""The greedy order by the elliptical bonus: how blocks end, cheap first picks; and `elliptical_batch.py` on torch."""

from itertools import islice

import numpy as np
import pytest
from support.refusals import refusal_of
from support.selector_pools import pool_of, ranked, recorded
from support.vector_pools import FAMILIES

from harness_selectors.numerics import elliptical, elliptical_batch
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


def together(pools, trials=2, **params):
    """The orders of all pools and trials by one batch, and by one selector after the other."""
    batched = RepExp(device="cpu", **params).rank_many(pools, streams(len(pools), trials))
    alone = RepExp(**params)
    both = zip(pools, streams(len(pools), trials), strict=True)
    orders = [[list(alone.rank(pool, rng)) for rng in rngs] for pool, rngs in both]
    return [[list(order) for order in trial] for trial in batched], orders


def streams(pools, trials):
    return [[np.random.default_rng([pool, trial]) for trial in range(trials)] for pool in range(pools)]


@pytest.mark.parametrize("first", ["random", "max"])
def test_a_batch_gives_the_orders_that_the_pools_get_alone(first):
    rng = np.random.default_rng(0)
    pools = [pool_of(embeddings=rng.normal(size=(n, 12)).astype(np.float32)) for n in (90, 70, 90, 1)]
    batched, alone = together(pools, trials=3, first=first, lam=0.3)
    assert batched == alone
    pools = [pool_of(embeddings=h) for h in (np.empty((0, 4)), np.ones((2, 4)), np.empty((0, 4)))]
    batched, alone = together(pools, first=first)
    assert batched == alone
    assert ranked(RepExp(first=first, device="cpu"), pools[0]) == []


def test_the_order_is_that_of_the_reference_with_ties_to_the_lowest_index():
    h = FAMILIES["gaussian"]
    order = ranked(RepExp(lam=0.3, device="cpu"), pool_of(embeddings=h))
    assert order == reference_order(h, 0.3, order[:1])
    tied = pool_of(embeddings=np.tile(np.eye(4, dtype=np.float32), (3, 1)))
    assert ranked(RepExp(first="max", device="cpu"), tied) == list(range(12))


def test_picks_are_made_as_far_as_they_are_pulled(monkeypatch):
    steps_made = recorded(monkeypatch, elliptical_batch.BatchedOrders, "_advance", lambda _, batch, steps: steps)
    pools = [pool_of(embeddings=np.random.default_rng(3).normal(size=(500, 8)).astype(np.float32))] * 2
    orders = RepExp(device="cpu").rank_many(pools, streams(2, 2))
    assert not steps_made
    for order in orders[0] + orders[1]:
        list(islice(order, 40))
    assert sum(steps_made) == 64


def test_a_device_that_is_not_there_is_refused_before_anything_is_ranked():
    assert refusal_of(RepExp, device="abacus").startswith("repexp: device 'abacus' cannot be used on this machine (")


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
