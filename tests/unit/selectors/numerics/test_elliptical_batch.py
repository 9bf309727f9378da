"""RepExp on a torch device: many pools and trials at once, the same orders as one after the other."""

from itertools import islice

import numpy as np
import pytest
from support.refusals import refusal_of
from support.selector_pools import pool_of, ranked, recorded
from support.vector_pools import FAMILIES

from harness_selectors.numerics import elliptical_batch
from harness_selectors.repexp import RepExp, reference_order


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
