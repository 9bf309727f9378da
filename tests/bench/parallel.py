"""Rank many problems in one process and in two: the ratio of the wall times, and what starting the two costs.

    python tests/bench/parallel.py [--full] [--problems 12] [--n 6400] [--d 512] [--repeats 2]

Each process computes in one thread. The pools are random vectors without texts, kept in a store as a run keeps them. Of
each only the last response is correct, so that RepExp's orders are pulled half way on average. On two idle cores 2.0
would be all that there is; starting the workers, and importing numpy in them, is in it. On a machine that others use
too, what the processes got of it is CPU seconds / (processes x wall seconds).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from harness.records import Problem, Responses, Verdict
from harness.stages.rank import rank_problems
from harness.stages.work import Work, over
from harness.store import shards
from harness.store.stage import Store
from harness_plugins.executors.local import _in_processes

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed


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
        shards.write_responses(work.pool.path(problem), problem, responses)
        assert work.embeddings is not None
        shards.write_vectors(work.embeddings.path(problem), vectors)
        shards.write_verdicts(
            work.verdicts.path(problem), [Verdict("wrong")] * (n - 1) + [Verdict("correct")], [None] * n
        )
    return work


def timed(function: Callable[[Any], Any], item: Any) -> float:
    """CPU seconds of one item, where it is done: workers are the forkserver's children, and `os.times` sees none."""
    started = time.process_time()
    function(item)
    return time.process_time() - started


def took(function: Callable[[Any], Any], items: list[Any], workers: int) -> tuple[float, float]:
    """Wall seconds of all, and the CPU seconds of the items."""
    call, started = partial(timed, function), time.perf_counter()
    cpu = sum(map(call, items) if workers == 1 else _in_processes(call, items, workers))
    return time.perf_counter() - started, cpu


def nothing(item: Any) -> None:
    """What a worker does when only its start is timed."""


def ranking(work: Work, problems: list[Problem], repeats: int) -> None:
    function, items, n = over(work, rank_problems), [[problem] for problem in problems], len(problems)
    measured: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for _ in range(repeats):
        for workers in measured:
            measured[workers].append(took(function, items, workers))
    walls = {workers: median(wall for wall, _ in times) for workers, times in measured.items()}
    for workers, times in measured.items():
        cpu = median(cpu_time for _, cpu_time in times)
        got = cpu / (workers * walls[workers])
        print(f"  {workers} process(es): {walls[workers]:6.2f} s, {n / walls[workers]:.2f} problems/s; "
              f"{cpu / n:.2f} CPU s a problem, {got:.0%} of its cores")  # fmt: skip
    print(f"  two processes are {walls[1] / walls[2]:.2f} times as fast")


def starting(repeats: int) -> None:
    """Two workers that do nothing: what is paid before the first problem; they import what this file does."""
    walls = [took(nothing, [0, 1], 2)[0] for _ in range(repeats)]
    print(f"  starting two workers: {median(walls):.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="40 problems, 3 repeats")
    parser.add_argument("--problems", type=int)
    parser.add_argument("--n", type=int, default=6400)
    parser.add_argument("--d", type=int, default=512)
    parser.add_argument("--repeats", type=int)
    args = parsed(parser, problems=2, n=32, d=8, repeats=1)
    count, repeats = (40, 3) if args.full else (12, 2)
    count, repeats = args.problems or count, args.repeats or repeats
    problems = [Problem(str(i), "") for i in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        work = kept(Path(folder), problems, args.n, args.d)
        print(f"RepExp on {count} problems of {args.n} x {args.d}, medians of {repeats}, load {os.getloadavg()[0]:.1f}")
        starting(repeats)
        ranking(work, problems, repeats)


if __name__ == "__main__":
    main()
