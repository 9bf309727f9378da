"""RepExp: every pick has the largest elliptical bonus, on every kind of vectors, also after what was verified."""

from functools import partial

import numpy as np
import pytest
from support.selector_pools import after, pool_of, ranked
from support.vector_pools import FAMILIES, assert_greedy, on_every_family

from harness_selectors.numerics import elliptical
from harness_selectors.repexp import RepExp, reference_bonuses, reference_order


def repexp(h, lam=1.0, first="random", seed=0):
    return ranked(RepExp(lam=lam, first=first), pool_of(embeddings=h), seed)


def bonuses(h, lam):
    return partial(reference_bonuses, h, lam)


@pytest.fixture(params=["tiny active set", "usual active set"])
def active(request, monkeypatch):
    """Small pools fit into the usual active set whole; a tiny one sends them through many blocks."""
    if request.param.startswith("tiny"):
        for name, value in {"ACTIVE": 4, "FEW": 2, "BLOCK": 5}.items():
            monkeypatch.setattr(elliptical, name, value)


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e3])
def test_every_pick_has_the_best_bonus_from_the_start_and_after_what_was_verified(lam):
    def check(h):
        verified = np.random.default_rng(13).permutation(len(h))[:7].tolist()
        assert_greedy(repexp(h, lam), len(h), bonuses(h, lam))
        order = verified + after(RepExp(lam=lam), pool_of(embeddings=h), verified)
        assert_greedy(order, len(h), bonuses(h, lam), start=len(verified))

    on_every_family(check)


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("lam", [1e-38, 1e38])
def test_bonuses_that_float32_cannot_hold_are_ordered_too(lam):
    sizes = np.random.default_rng(19).uniform(1, 9, size=30).astype(np.float32)
    order = repexp(np.diag(sizes), lam)
    assert order[1:] == [i for i in np.argsort(-sizes) if i != order[0]]


@pytest.mark.parametrize("family", ["gaussian", "clustered", "fewer than dimensions", "more than the active set"])
def test_the_order_is_that_of_the_reference(family):
    rng = np.random.default_rng(4)
    large = rng.normal(size=(1000, 24)) @ rng.normal(size=(24, 48)) + 0.3 * rng.normal(size=(1000, 48))
    h = FAMILIES.get(family, (large - large.mean(axis=0)).astype(np.float32))
    order = repexp(h)
    assert order == reference_order(h, 1.0, order[:1])


@pytest.mark.usefixtures("active")
def test_ties_go_to_the_lowest_index():
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 10, np.float32)
    assert repexp(signs, first="max")[:3] == [0, 1, 2]
    for rows in (np.ones((40, 3)), np.zeros((40, 3)), np.tile(np.eye(5)[: elliptical.ACTIVE], (10, 1))[:40]):
        assert repexp(rows.astype(np.float32), first="max") == list(range(40))
    hypercube = np.array([[1 - 2 * (i >> bit & 1) for bit in range(7)] for i in range(128)], np.float32)
    assert repexp(hypercube, first="max")[0] == 0
    copies = repexp(np.zeros((9, 2), np.float32), seed=5)
    assert copies[1:] == sorted(copies[1:])


def test_the_reference_bonuses_are_those_of_the_inverse():
    h = np.random.default_rng(5).normal(size=(8, 3))
    for k in range(9):
        inverse = np.linalg.inv(0.7 * np.eye(3) + sum((np.outer(row, row) for row in h[:k]), np.zeros((3, 3))))
        assert reference_bonuses(h, 0.7, range(k)) == pytest.approx([row @ inverse @ row for row in h], rel=1e-12)


def test_the_bonuses_of_picks_are_those_at_their_turns():
    h = np.random.default_rng(6).normal(size=(8, 5))
    expected = [reference_bonuses(h, 0.7, range(k))[k] for k in range(8)]
    assert RepExp(lam=0.7).bonuses(h) == pytest.approx(expected, rel=1e-9)
