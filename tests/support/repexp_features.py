"""Features of many kinds for RepExp, and a check of its picks by the definition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness_selectors.repexp import reference_bonuses

Floats = NDArray[np.floating]


def assert_greedy(h: Floats, order: list[int], lam: float, first: int = 1) -> None:
    """Every pick has the best bonus of those left, within 1e-9 of it: the definition at every prefix."""
    assert sorted(order) == list(range(len(h)))
    for k in range(first, len(order)):
        bonus = reference_bonuses(h, lam, order[:k])
        best = bonus[order[k:]].max()
        assert bonus[order[k]] >= best * (1 - 1e-9), f"pick {k}: {bonus[order[k]]} < {best}"


def gaussian(rng: np.random.Generator) -> Floats:
    """Rows of a standard normal distribution."""
    return rng.normal(size=(90, 12))


def clustered(rng: np.random.Generator) -> Floats:
    """Seven tight clusters."""
    return 3 * rng.normal(size=(7, 12))[rng.integers(7, size=90)] + 0.2 * rng.normal(size=(90, 12))


def low_rank(rng: np.random.Generator) -> Floats:
    """Rank 3 in 24 dimensions."""
    return rng.normal(size=(90, 3)) @ rng.normal(size=(3, 24))


def duplicated(rng: np.random.Generator) -> Floats:
    """Each of nine rows about ten times."""
    return rng.normal(size=(9, 12))[rng.integers(9, size=90)]


def fewer_than_dimensions(rng: np.random.Generator) -> Floats:
    """30 rows in 70 dimensions."""
    return rng.normal(size=(30, 70))


def one_dimension(rng: np.random.Generator) -> Floats:
    """A single column."""
    return rng.normal(size=(60, 1))


def with_zero_rows(rng: np.random.Generator) -> Floats:
    """About half of the rows are zero."""
    return rng.normal(size=(60, 8)) * (rng.random(60) < 0.5)[:, None]


def badly_scaled(rng: np.random.Generator) -> Floats:
    """Columns whose scales differ by up to six orders of magnitude."""
    return rng.normal(size=(60, 10)) * 10.0 ** rng.uniform(-3, 3, size=10)


def badly_scaled_rows(rng: np.random.Generator) -> Floats:
    """Rows whose scales differ by up to six orders of magnitude."""
    return rng.normal(size=(60, 10)) * 10.0 ** rng.uniform(-3, 3, size=(60, 1))


def nearly_parallel(rng: np.random.Generator) -> Floats:
    """Rows that point almost the same way."""
    return 100 * rng.normal(size=10) + 0.01 * rng.normal(size=(60, 10))


ORDINARY = [gaussian, clustered, low_rank, duplicated, fewer_than_dimensions, one_dimension, with_zero_rows]
HARSH = [badly_scaled, badly_scaled_rows, nearly_parallel]
