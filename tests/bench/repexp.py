"""Time RepExp's full order against the textbook loop and the rank-one loop, and check that all pick the same.

    python tests/bench/repexp.py [--n 6400] [--d 512] [--lam 1.0] [--repeats 3] [--textbook 60]

One thread. All are timed in turn, `repeats` times, and the medians compared. The textbook loop runs for
`--textbook` picks only and is extrapolated by n / picks: its cost a pick does not change. Seconds are CPU seconds of
the process, which other load on the machine disturbs less than wall time; both are printed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from harness import Pool
from harness_selectors.repexp import RepExp

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

Floats = NDArray[np.floating]


def gaussian(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Every direction alike: bonuses lie as close together as they can."""
    h = rng.normal(size=(n, d))
    return (h - h.mean(axis=0)).astype(np.float32)


def clustered(n: int, d: int, rng: np.random.Generator) -> Floats:
    """40 clusters in 64 directions of falling size, with noise: something like pooled hidden states."""
    centres = rng.normal(size=(40, 64))
    z = centres[rng.integers(40, size=n)] + 0.6 * rng.normal(size=(n, 64))
    h = (z * np.exp(-np.arange(64) / 20)) @ rng.normal(size=(64, d)) + 0.45 * rng.normal(size=(n, d))
    return (h - h.mean(axis=0)).astype(np.float32)


def textbook(h: Floats, lam: float, order: list[int], picks: int) -> None:
    """Algorithm 1 as printed: all n quadratic forms at every pick, with a dense product (here for the first picks)."""
    cov_inv = np.eye(h.shape[1], dtype=h.dtype) / h.dtype.type(lam)
    for index in order[:picks]:
        v = cov_inv @ h[index]
        cov_inv -= np.outer(v, v) / (1 + h[index] @ v)
        bonus = np.einsum("nd,nd->n", h @ cov_inv, h)  # (n,)
        bonus.argmax()


def rank_one(h: Floats, lam: float, first: int) -> list[int]:
    """Every bonus falls by (h · v)² / s after a pick; products with h in h's dtype, the rest in float64."""
    n, d = h.shape
    cov_inv = np.eye(d) / lam
    bonus = np.square(h, dtype=np.float64).sum(axis=1) / lam  # (n,)
    order = [first]
    while len(order) < n:
        picked = h[order[-1]].astype(np.float64)
        v = cov_inv @ picked
        s = 1 + picked @ v
        cov_inv -= np.outer(v, v) / s
        bonus -= np.square(h @ v.astype(h.dtype), dtype=np.float64) / s
        bonus[order[-1]] = -np.inf
        order.append(int(bonus.argmax()))
    return order


def largest_shortfall(h: Floats, lam: float, order: list[int]) -> float:
    """How far, relatively, any pick but the first falls short of the best bonus then, in float64: 0 = never."""
    h = h.astype(np.float64)
    cov_inv = np.eye(h.shape[1]) / lam
    bonus = np.square(h).sum(axis=1) / lam
    worst = 0.0
    for step, index in enumerate(order):
        if step:
            worst = max(worst, 1 - bonus[index] / bonus.max())
        v = cov_inv @ h[index]
        s = 1 + h[index] @ v
        cov_inv -= np.outer(v, v) / s
        bonus -= (h @ v) ** 2 / s
        bonus[index] = -np.inf
    return float(worst)


def pool_of(h: Floats) -> Pool:
    n = len(h)
    return Pool(texts=[""] * n, embeddings=h, logprobs=np.zeros(n), lengths=np.ones(n, np.int64), answers=[None] * n)


def ours(h: Floats, lam: float, picks: int | None = None, first: Literal["random", "max"] = "random") -> list[int]:
    ranking = RepExp(lam=lam, first=first).rank(pool_of(h), np.random.default_rng(0))
    return list(ranking) if picks is None else [next(ranking) for _ in range(picks)]


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    return time.process_time() - cpu, time.perf_counter() - wall


def low_rank(n: int, d: int, rng: np.random.Generator) -> Floats:
    """40 directions: bonuses fall to nothing together."""
    return (rng.normal(size=(n, 40)) @ rng.normal(size=(40, d))).astype(np.float32)


def duplicated(n: int, d: int, rng: np.random.Generator) -> Floats:
    """A tenth of the rows are distinct, as in a pool of short answers."""
    return rng.normal(size=(n // 10, d)).astype(np.float32)[rng.integers(n // 10, size=n)]


def badly_scaled(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Directions from 0.001 to 1000."""
    return (rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3, size=d)).astype(np.float32)


def compare(name: str, h: Floats, lam: float, repeats: int, picks: int) -> None:
    n = len(h)
    order = ours(h, lam)
    calls: dict[str, Callable[[], object]] = {
        "textbook": lambda: textbook(h, lam, order, picks),
        "rank-one": lambda: rank_one(h, lam, order[0]),
        "ours": lambda: ours(h, lam),
        "first 16": lambda: ours(h, lam, 16),
    }
    seconds: dict[str, list[tuple[float, float]]] = {key: [] for key in calls}
    for _ in range(repeats):
        for key, call in calls.items():
            factor = n / min(picks, n) if key == "textbook" else 1.0
            cpu, wall = timed(call)
            seconds[key].append((cpu * factor, wall * factor))
    cpus = {key: median(cpu for cpu, _ in pairs) for key, pairs in seconds.items()}
    walls = {key: median(wall for _, wall in pairs) for key, pairs in seconds.items()}
    print(f"{name}, n = {n}, d = {h.shape[1]}, lam = {lam:g}; medians of {repeats}")
    for key in calls:
        note = f" (extrapolated from {picks} picks)" if key == "textbook" else ""
        ratio = f"{cpus[key] / cpus['ours']:9.3f} x ours"
        print(f"  {key:9}{cpus[key]:9.3f} s CPU{walls[key]:9.3f} s wall{ratio}{note}")
    same = sum(a == b for a, b in zip(order, rank_one(h.astype(np.float64), lam, order[0]), strict=True))
    print(f"  {same} of {n} picks at the place where the float64 rank-one loop has them;")
    print(f"  largest relative shortfall of a pick's bonus: {largest_shortfall(h, lam, order):.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=6400)
    parser.add_argument("--d", type=int, default=512)
    parser.add_argument("--lam", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--textbook", type=int, default=60, help="picks that the textbook loop is timed on")
    args = parsed(parser, n=200, d=16, repeats=1, textbook=5)
    with threadpool_limits(1):
        for make in (gaussian, clustered, low_rank, duplicated, badly_scaled):
            h = make(args.n, args.d, np.random.default_rng(0))
            compare(make.__name__, h, args.lam, args.repeats, args.textbook)


if __name__ == "__main__":
    main()
