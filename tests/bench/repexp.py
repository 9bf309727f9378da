"""Time RepExp's full order against the textbook loop and the rank-one loop, and check that all pick the same.

    python tests/bench/repexp.py [--n 6400] [--d 512] [--lam 1.0] [--repeats 3] [--textbook 60] [--submodlib 1000]
    python tests/bench/repexp.py --pool POOL.jsonl [--lam 1.0]

One thread. All are timed in turn, `repeats` times, and the medians compared. The textbook loop runs for
`--textbook` picks only and is extrapolated by n / picks: its cost a pick does not change. submodlib's C++
LogDeterminant maximises the same function; where it is installed it makes its first `--submodlib` picks, once, from a
kernel that is made for it, and ours as many. With `--pool`, instead: how often the argmax over all responses, as
Algorithm 1 is printed, picks a vector of tfidf again that has been picked, although others have not.
Seconds are CPU seconds of the process, which other load on the machine disturbs less than wall time; both are printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from harness import Pool, Problem
from harness.columns.orders import centred
from harness.columns.vectors import project
from harness_plugins.embedders.tfidf import Tfidf
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


def log_determinant(kernel: Floats, lam: float, picks: int) -> list[int]:
    """submodlib's greedy maximiser of log det(lam I + kernel)."""
    from submodlib import LogDeterminantFunction

    function = LogDeterminantFunction(n=len(kernel), mode="dense", lambdaVal=lam, sijs=kernel)
    pairs = function.maximize(
        budget=picks, optimizer="LazyGreedy", stopIfZeroGain=False, stopIfNegativeGain=False, show_progress=False
    )
    return [index for index, _ in pairs]


def against_submodlib(h: Floats, lam: float, picks: int) -> None:
    if not find_spec("submodlib"):
        print("  submodlib is not installed")
        return
    theirs, _ = timed(lambda: log_determinant(h @ h.T, lam, picks))
    mine = [timed(lambda: ours(h, lam, picks, first="max"))[0] for _ in range(3)]
    print(f"  submodlib, {picks} picks: {theirs:.2f} s CPU, {theirs / median(mine):.1f} x ours ({median(mine):.2f} s)")


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


def compare(name: str, h: Floats, lam: float, repeats: int, picks: int, theirs: int) -> None:
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
    if theirs:
        against_submodlib(h, lam, min(theirs, n))


def picked_again(path: Path, lam: float) -> None:
    """Print how often Algorithm 1 as printed, and our order, pick a vector that was picked before."""
    printed, ours, picks = [], [], []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        problem = Problem(record["problem_id"], "")
        h = centred(project(Tfidf().embed(problem, record["responses"]), 512, 0, "tfidf")).astype(np.float64)
        kinds = np.unique(h.round(6), axis=0, return_inverse=True)[1].ravel()  # copies are of one kind
        for repeats, available in ((printed, None), (ours, np.zeros(len(h)))):
            bonus, cov_inv = np.square(h).sum(axis=1) / lam, np.eye(h.shape[1]) / lam
            index, seen, again = int(np.random.default_rng(0).integers(len(h))), set[int](), 0
            for _ in range(len(h)):
                again += kinds[index] in seen and len(seen) <= kinds.max()
                seen.add(kinds[index])
                v = cov_inv @ h[index]
                s = 1 + h[index] @ v
                cov_inv -= np.outer(v, v) / s
                bonus -= (h @ v) ** 2 / s
                if available is not None:
                    available[index] = -np.inf
                index = int((bonus if available is None else bonus + available).argmax())
            repeats.append(again)
        picks.append(len(h))
    print(f"lam = {lam:g}: of {np.mean(picks):.0f} picks are of a vector picked before although others are left:")
    print(f"{np.mean(printed):.1f} of Algorithm 1 as printed, {np.mean(ours):.1f} where no response is picked twice")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=6400)
    parser.add_argument("--d", type=int, default=512)
    parser.add_argument("--lam", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--textbook", type=int, default=60, help="picks that the textbook loop is timed on")
    parser.add_argument("--submodlib", type=int, default=1000, help="picks that submodlib is timed on; 0: none")
    parser.add_argument("--pool", type=Path, help="count picks of a vector picked before; time nothing")
    args = parsed(parser, n=200, d=16, repeats=1, textbook=5, submodlib=10)
    if args.pool:
        return picked_again(args.pool, args.lam)
    with threadpool_limits(1):
        for make in (gaussian, clustered, low_rank, duplicated, badly_scaled):
            h = make(args.n, args.d, np.random.default_rng(0))
            theirs = args.submodlib if make in (gaussian, clustered) else 0
            compare(make.__name__, h, args.lam, args.repeats, args.textbook, theirs)


if __name__ == "__main__":
    main()
