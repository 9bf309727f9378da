"""Rank many problems in one process and in two: the ratio of the wall times. Each process computes in one thread.

    python tests/bench/parallel.py [--problems 40] [--n 3200] [--d 512] [--repeats 3]

The pools are random vectors without texts, kept in a store as a run keeps them. Of each only the last response is
correct, so that RepExp's orders are pulled half way on average. On two idle cores 2.0 would be all that there is;
starting the workers, and importing numpy in them, is in it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from harness import store
from harness.records import Problem, Responses, Verdict
from harness.store import Store
from harness.work import Work, over, rank_problems
from harness_plugins.local_processes import _in_processes


def kept(folder: Path, problems: list[Problem], n: int, d: int) -> Work:
    """A store with pools, vectors and verdicts."""
    stages = Store(folder)
    work = Work(
        task=None,
        data=None,
        plugin_files=(),
        pool=stages.stage("pool", {}, ".parquet"),
        verdicts=stages.stage("verdict", {}, ".parquet"),
        graded=stages.stage("graded", {}, ".parquet"),
        audits=stages.stage("audit", {}, ".json"),
        embeddings=stages.stage("embedding", {}, ".safetensors"),
        rankings=stages.stage("ranking", {}, ".json"),
        selector="repexp:first=max",
    )
    for stage in (work.pool, work.verdicts, work.embeddings, work.rankings):
        assert stage is not None
        stage.begin()
    for i, problem in enumerate(problems):
        vectors = np.random.default_rng(i).normal(size=(n, d)).astype(np.float32)
        responses = Responses([""] * n, ["stop"] * n, np.ones(n, np.int64), np.zeros(n))
        store.write_responses(work.pool, problem, responses)
        assert work.embeddings is not None
        store.write_vectors(work.embeddings, problem, vectors)
        store.write_verdicts(work.verdicts, problem, [Verdict("wrong")] * (n - 1) + [Verdict("correct")], [None] * n)
    return work


def seconds(work: Work, problems: list[Problem], workers: int) -> float:
    function, items = over(work, rank_problems), [[problem] for problem in problems]
    started = time.perf_counter()
    for _ in map(function, items) if workers == 1 else _in_processes(function, items, workers):
        pass
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=40)
    parser.add_argument("--n", type=int, default=3200)
    parser.add_argument("--d", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    problems = [Problem(str(i), "") for i in range(args.problems)]
    with tempfile.TemporaryDirectory() as folder:
        work = kept(Path(folder), problems, args.n, args.d)
        found: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(args.repeats):
            for workers in found:
                found[workers].append(seconds(work, problems, workers))
    one, two = median(found[1]), median(found[2])
    print(f"{args.problems} problems of {args.n} x {args.d}, full orders of RepExp: {one:.2f} s in one process")
    print(f"two processes {two:.2f} s: {one / two:.2f} times as fast")


if __name__ == "__main__":
    main()
