"""The greedy order by the elliptical bonus: blocks of sure picks, cheap first picks, bonuses that fall far."""

from itertools import islice

import numpy as np
import pytest
from support.selector_pools import pool_of, ranked, recorded

from harness_selectors.numerics import elliptical
from harness_selectors.repexp import RepExp, reference_order


def mixture(rng: np.random.Generator, n: int):
    """More distinct rows than fit into the active set, so near to each other that few picks are sure at once."""
    return (3 * rng.normal(size=(30, 24))[rng.integers(30, size=n)] + rng.normal(size=(n, 24))).astype(np.float32)


@pytest.mark.parametrize("size", [8, 256])
def test_blocks_of_sure_picks_give_the_order_of_the_reference(size, monkeypatch):
    h = mixture(np.random.default_rng(20), 1500)
    blocks = recorded(monkeypatch, elliptical.Linear, "explain", lambda _, left, active, slots, lower: len(slots))
    monkeypatch.setattr(elliptical, "ACTIVE", size)
    order = ranked(RepExp(), pool_of(embeddings=h))
    assert order == reference_order(h, 1.0, order[:1])
    assert sum(blocks) <= 1500
    assert len(blocks) < 1500 / (1.5 if size == 8 else 10)


def test_pulling_few_picks_does_little_of_the_work(monkeypatch):
    blocks = recorded(monkeypatch, elliptical.Linear, "explain", lambda _, left, active, slots, lower: len(slots))
    h = np.random.default_rng(9).normal(size=(3000, 16)).astype(np.float32)
    ranking = RepExp().rank(pool_of(embeddings=h), np.random.default_rng(0))
    list(islice(ranking, 16))
    few = len(blocks)
    list(ranking)
    assert few <= 16
    assert few * 10 < len(blocks)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e60])
def test_bonuses_are_as_exact_after_they_have_fallen_by_many_digits(scale, monkeypatch):
    renewed = recorded(monkeypatch, elliptical.Linear, "residuals", lambda _, left: len(left.rows))
    directions = 10.0 ** np.arange(0, 6, 0.25)
    h = scale * directions * np.random.default_rng(22).normal(size=(900, 24))
    order = ranked(RepExp(lam=scale**2), pool_of(embeddings=h))
    assert order == reference_order(h / scale, 1.0, order[:1])
    assert len(renewed) > 2  # at first, and each time that the best has fallen by FALL
