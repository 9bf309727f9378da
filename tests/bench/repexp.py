"""Time RepExp's full order against the textbook loop, and check its picks against the float64 rank-one loop's.

    python tests/bench/repexp.py [--n 6400] [--d 512] [--repeats 3]

One thread, CPU seconds, medians of all timed in turn. The textbook loop runs for 60 picks only and is extrapolated by
n / picks: its cost a pick does not change.
"""

from __future__ import annotations

import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from harness import Pool
from harness_selectors.repexp import RepExp

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import sizes

Floats = NDArray[np.floating]
RNG = np.random.default_rng(0)
POOLS = {  # every direction alike; 40 directions; a tenth of the rows distinct; directions from 0.001 to 1000
    "gaussian": lambda n, d: RNG.normal(size=(n, d)),
    "low rank": lambda n, d: RNG.normal(size=(n, 40)) @ RNG.normal(size=(40, d)),
    "duplicated": lambda n, d: RNG.normal(size=(n // 10, d))[RNG.integers(n // 10, size=n)],
    "badly scaled": lambda n, d: RNG.normal(size=(n, d)) * 10.0 ** RNG.uniform(-3, 3, size=d),
}


def textbook(h: Floats, order: list[int], picks: int) -> None:
    """Algorithm 1 as printed: all n quadratic forms at every pick, with a dense product (here for the first picks)."""
    cov_inv = np.eye(h.shape[1], dtype=h.dtype)
    for index in order[:picks]:
        v = cov_inv @ h[index]
        cov_inv -= np.outer(v, v) / (1 + h[index] @ v)
        np.einsum("nd,nd->n", h @ cov_inv, h).argmax()


def rank_one(h: Floats, first: int) -> list[int]:
    """Every bonus falls by (h · v)² / s after a pick."""
    cov_inv, bonus, order = np.eye(h.shape[1]), np.square(h).sum(axis=1), [first]
    while len(order) < len(h):
        v = cov_inv @ h[order[-1]]
        s = 1 + h[order[-1]] @ v
        cov_inv -= np.outer(v, v) / s
        bonus -= np.square(h @ v) / s
        bonus[order[-1]] = -np.inf
        order.append(int(bonus.argmax()))
    return order


def compare(name: str, h: Floats, repeats: int) -> None:
    pool = Pool([""] * len(h), h, np.zeros(len(h)), np.ones(len(h), int), [None] * len(h))

    def ours(picks: int | None = None) -> list[int]:
        return list(islice(RepExp().rank(pool, np.random.default_rng(0)), picks))

    order, picks, took = ours(), min(60, len(h)), []
    for _ in range(repeats):
        marks = [time.process_time()]
        for call in (ours, lambda: ours(16), lambda: textbook(h, order, picks)):
            call()
            marks.append(time.process_time())
        took.append(np.diff(marks))
    full, first, slow = np.median(took, axis=0)
    slow *= len(h) / picks
    same = sum(a == b for a, b in zip(order, rank_one(h.astype(float), order[0]), strict=True))
    print(f"{name}: {len(h)} picks {full:.3f} s CPU, 16 picks {first:.3f} s, textbook {slow:.1f} s", end="")
    print(f" = {slow / full:.1f} x ours; {same} picks where the float64 rank-one loop has them", flush=True)


if __name__ == "__main__":
    args = sizes(__doc__, n=(6400, 200), d=(512, 16), repeats=(3, 1))
    with threadpool_limits(1):
        for name, make in POOLS.items():
            compare(name, make(args.n, args.d).astype(np.float32), args.repeats)
