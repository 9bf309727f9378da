"""CPU time to rank a whole pool, by every ranker of the published results; the column "cost" of docs/which-selector.md.

    python tests/bench/ranking_cost.py [--n 100] [--d 384] [--out results/cost.csv]

One thread. Pools have n short texts of 60 common words, 20 answers, and normal vectors of width d; selectors that learn
are told that every pick is wrong. The median of five pools counts, after one that is not counted. Vectors are given:
what an embedder costs is not in it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from harness import Outcome, Pool
from harness.contracts import LearnsFromOutcomes
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.results.leaderboard import gather

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import sizes
from support.paths import ROOT


def pool_of(n: int, d: int, seed: int) -> Pool:
    rng = np.random.default_rng(seed)
    texts = [" ".join(f"word{word}" for word in rng.zipf(1.5, 20) % 60) for _ in range(n)]
    answers = [f"answer {answer}" for answer in rng.zipf(1.5, n) % 20]
    vectors = rng.normal(size=(n, d)).astype(np.float32)
    return Pool(texts, vectors, -rng.gamma(4.0, 5.0, n), rng.integers(20, 400, n), answers)


def cpu_ms(selector: Any, pool: Pool) -> float:
    start = time.process_time()
    if isinstance(selector, LearnsFromOutcomes):
        outcomes: list[Outcome] = []
        while len(outcomes) < len(pool):
            pick = selector.pick_after(pool, tuple(outcomes), np.random.default_rng([0, len(outcomes)]))
            outcomes.append(Outcome(pick, 0.0))
    else:
        list(selector.rank(pool, np.random.default_rng(0)))
    return 1000 * (time.process_time() - start)


def main() -> None:
    options = sizes(__doc__, n=(100, 8), d=(384, 4), out=("", ""), selectors=(100, 3))
    measured = gather([ROOT / "results" / "pools"]).measured.values()
    names = sorted({cell["labels"]["selector"] for cell in measured if "ranks" in cell["problems"][0]})
    names = names[: options.selectors]
    registry, pools = load_registry(()), [pool_of(options.n, options.d, seed) for seed in range(6)]
    text = "selector,n,d,cpu_ms\n"
    with threadpool_limits(1):
        for name in names:
            selector = build(registry, "selector", name)
            ms = float(f"{median([cpu_ms(selector, pool) for pool in pools][1:]):.2g}")
            text += f"{name},{options.n},{options.d},{ms:g}\n"
    if options.out:
        Path(options.out).write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
