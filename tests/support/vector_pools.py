"""Vectors of many kinds, pools of them, and a check of greedy picks by a score's definition."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import pytest
from numpy.typing import NDArray

from harness import Pool

Floats = NDArray[np.floating]
Score = Callable[[list[int]], Floats]  # from the picks so far to the score of every row


def vector_pool(h: Floats, seed: int = 0) -> Pool:
    """Lengths from 1 to 40 and log-probabilities to match; equal rows have unequal ones."""
    n, rng = len(h), np.random.default_rng([seed, 99])
    lengths = rng.integers(1, 40, n)
    return Pool(["x"] * n, h, -lengths * rng.gamma(2.0, 0.5, n), lengths, [None] * n)


def families() -> dict[str, Floats]:
    """Vectors of each kind, by its name."""
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(9, 12))
    return {
        "gaussian": rng.normal(size=(60, 12)),
        "clustered": 3 * centres[rng.integers(9, size=60)] + 0.2 * rng.normal(size=(60, 12)),
        "tight clusters": 30 * centres[rng.integers(9, size=60)] + 1e-4 * rng.normal(size=(60, 12)),
        "duplicated": centres[rng.integers(9, size=60)],
        "low rank": rng.normal(size=(60, 3)) @ rng.normal(size=(3, 24)),
        "fewer than dimensions": rng.normal(size=(30, 70)),
        "one dimension": rng.normal(size=(40, 1)),
        "zero rows": rng.normal(size=(40, 8)) * (rng.random(40) < 0.5)[:, None],
        "badly scaled rows": rng.normal(size=(40, 10)) * 10.0 ** rng.uniform(-3, 3, size=(40, 1)),
        "badly scaled columns": rng.normal(size=(40, 10)) * 10.0 ** rng.uniform(-3, 3, size=10),
        "far from the origin": 1000 * rng.normal(size=10) + 0.01 * rng.normal(size=(40, 10)),
        "one outlier": np.vstack([rng.normal(size=(40, 10)), 1e6 * np.ones((1, 10))]),
        "small grid": rng.integers(-1, 2, size=(60, 3)).astype(float),
    }


FAMILIES = {name: h.astype(np.float32) for name, h in families().items()}
tiny_sets = pytest.mark.parametrize("active", [4, None], ids=["tiny blocks", "usual blocks"])


def large_pool() -> Floats:
    """(1500, 24) in 25 wide clusters: more rows than any selector's block holds."""
    rng = np.random.default_rng(5)
    h = rng.normal(size=(25, 24))[rng.integers(25, size=1500)] + 0.4 * rng.normal(size=(1500, 24))
    return (h - h.mean(axis=0)).astype(np.float32)


def on_every_family(check: Callable[[Floats], None], without: Collection[str] = ()) -> None:
    """Call `check` with the vectors of each family; AssertionError with the families on which it fails."""
    faults = {}
    for name, h in FAMILIES.items():
        if name in without:
            continue
        try:
            check(h)
        except AssertionError as fault:
            faults[name] = str(fault)
    assert not faults


def assert_greedy(
    order: list[int], n: int, score: Score, start: int = 1, *, end: int | None = None, rtol=1e-9, atol=0.0
) -> None:
    """Every pick from `start` on (and before `end`) has the best score of those left."""
    assert sorted(order) == list(range(n))
    for k in range(start, n if end is None else end):
        left = score(order[:k])[order[k:]]
        assert left[0] >= left.max() - rtol * abs(left.max()) - atol, f"pick {k}: {left[0]} < {left.max()}"


def some_verified(n: int) -> list[int]:
    """A quarter of n rows, in random order."""
    return np.random.default_rng(n).permutation(n)[: n // 4].tolist()
