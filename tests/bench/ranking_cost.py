"""CPU time to rank a whole pool, by every ranker of the published results; the column "cost" of docs/which-selector.md.

    python tests/bench/ranking_cost.py [--n 100] [--d 384] [--out results/cost.csv]

One thread. Pools have n short texts of 60 common words, 20 answers, and normal vectors of width d; selectors that learn
are told that every pick is wrong. The median of five pools counts, after one that is not counted. Vectors are given:
what an embedder costs is not in it.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from harness import Outcome, Pool
from harness.contracts import LearnsFromOutcomes
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.results.leaderboard import boards, gather

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

POOLS = Path(__file__).parents[2] / "results" / "pools"


def pool_of(n: int, d: int, seed: int) -> Pool:
    rng = np.random.default_rng(seed)
    texts = [" ".join(f"word{word}" for word in rng.zipf(1.5, 20) % 60) for _ in range(n)]
    answers = [f"answer {answer}" for answer in rng.zipf(1.5, n) % 20]
    vectors = rng.normal(size=(n, d)).astype(np.float32)
    return Pool(texts, vectors, -rng.gamma(4.0, 5.0, n), rng.integers(20, 400, n), answers)


def rank(selector: object, pool: Pool) -> None:
    if isinstance(selector, LearnsFromOutcomes):
        outcomes: list[Outcome] = []
        while len(outcomes) < len(pool):
            pick = selector.pick_after(pool, tuple(outcomes), np.random.default_rng([0, len(outcomes)]))
            outcomes.append(Outcome(pick, 0.0))
    else:
        list(selector.rank(pool, np.random.default_rng(0)))  # type: ignore[attr-defined]


def cpu_ms(selector: object, pools: list[Pool]) -> float:
    times = []
    for pool in pools:
        start = time.process_time()
        rank(selector, pool)
        times.append(1000 * (time.process_time() - start))
    return float(f"{median(times[1:]):.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--d", type=int, default=384)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cells", type=Path, default=POOLS, help="whose rankers are timed")
    options = parsed(parser, n=8, d=4, cells=POOLS / "humanevalplus_answer_by=behaviour")
    tables = boards(gather([options.cells]))
    names = sorted({row.selector for table in tables for row in table.rows if row.samples_to_correct is not None})
    registry, pools = load_registry(()), [pool_of(options.n, options.d, seed) for seed in range(6)]
    with threadpool_limits(1):
        costs = {name: cpu_ms(build(registry, "selector", name), pools) for name in names}
    text = "selector,n,d,cpu_ms\n" + "".join(f"{name},{options.n},{options.d},{ms:g}\n" for name, ms in costs.items())
    if options.out:
        options.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
