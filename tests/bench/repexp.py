"""Time RepExp's full order against the textbook loop, and check its picks against the float64 rank-one loop's.

    python tests/bench/repexp.py [--n 6400] [--d 512] [--repeats 3]

One thread, CPU seconds of the process, which other load disturbs less than wall time; medians of all timed in turn. The
textbook loop runs for 60 picks only and is extrapolated by n / picks: its cost a pick does not change.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from harness import Pool
from harness_selectors.repexp import RepExp

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import sizes

Floats = NDArray[np.floating]
LAM = 1.0


def gaussian(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Every direction alike: bonuses lie as close together as they can."""
    return rng.normal(size=(n, d))


def clustered(n: int, d: int, rng: np.random.Generator) -> Floats:
    """40 clusters in 64 directions of falling size, with noise: something like pooled hidden states."""
    centres = rng.normal(size=(40, 64))
    z = centres[rng.integers(40, size=n)] + 0.6 * rng.normal(size=(n, 64))
    return (z * np.exp(-np.arange(64) / 20)) @ rng.normal(size=(64, d)) + 0.45 * rng.normal(size=(n, d))


def low_rank(n: int, d: int, rng: np.random.Generator) -> Floats:
    """40 directions: bonuses fall to nothing together."""
    return rng.normal(size=(n, 40)) @ rng.normal(size=(40, d))


def duplicated(n: int, d: int, rng: np.random.Generator) -> Floats:
    """A tenth of the rows are distinct, as in a pool of short answers."""
    return rng.normal(size=(n // 10, d))[rng.integers(n // 10, size=n)]


def badly_scaled(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Directions from 0.001 to 1000."""
    return rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3, size=d)


def textbook(h: Floats, order: list[int], picks: int) -> None:
    """Algorithm 1 as printed: all n quadratic forms at every pick, with a dense product (here for the first picks)."""
    cov_inv = np.eye(h.shape[1], dtype=h.dtype) / h.dtype.type(LAM)
    for index in order[:picks]:
        v = cov_inv @ h[index]
        cov_inv -= np.outer(v, v) / (1 + h[index] @ v)
        np.einsum("nd,nd->n", h @ cov_inv, h).argmax()


def rank_one(h: Floats, first: int) -> list[int]:
    """Every bonus falls by (h · v)² / s after a pick."""
    cov_inv = np.eye(h.shape[1]) / LAM
    bonus = np.square(h).sum(axis=1) / LAM  # (n,)
    order = [first]
    while len(order) < len(h):
        picked = h[order[-1]]
        v = cov_inv @ picked
        s = 1 + picked @ v
        cov_inv -= np.outer(v, v) / s
        bonus -= np.square(h @ v) / s
        bonus[order[-1]] = -np.inf
        order.append(int(bonus.argmax()))
    return order


def pool_of(h: Floats) -> Pool:
    n, rng = len(h), np.random.default_rng(1)
    lengths = rng.integers(20, 400, n)
    return Pool([""] * n, h, -0.3 * lengths * rng.gamma(4.0, 0.25, n), lengths, [None] * n)


def medians(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """CPU seconds of each call, all taken in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            started = time.process_time()
            call()
            seconds[name].append(time.process_time() - started)
    return {name: median(times) for name, times in seconds.items()}


def compare(name: str, h: Floats, repeats: int) -> None:
    def ours(picks: int | None = None) -> list[int]:
        return list(islice(RepExp(lam=LAM).rank(pool_of(h), np.random.default_rng(0)), picks))

    order, picks = ours(), min(60, len(h))
    took = medians({"ours": ours, "first 16": lambda: ours(16), "textbook": lambda: textbook(h, order, picks)}, repeats)
    slow = took["textbook"] * len(h) / picks
    print(f"{name}: all {len(h)} picks {took['ours']:.3f} s CPU, the first 16 {took['first 16']:.3f} s", end="")
    print(f", the textbook loop (from {picks} picks) {slow:.1f} s = {slow / took['ours']:.1f} x ours", end="")
    same = sum(a == b for a, b in zip(order, rank_one(h.astype(np.float64), order[0]), strict=True))
    print(f"; {same} picks at the place where the float64 rank-one loop has them", flush=True)


def main() -> None:
    args = sizes(__doc__, n=(6400, 200), d=(512, 16), repeats=(3, 1))
    with threadpool_limits(1):
        for make in (gaussian, clustered, low_rank, duplicated, badly_scaled):
            h = make(args.n, args.d, np.random.default_rng(0))
            centred = h - h.mean(axis=0) if make in (gaussian, clustered) else h
            compare(make.__name__, centred.astype(np.float32), args.repeats)


if __name__ == "__main__":
    main()
