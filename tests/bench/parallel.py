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
from types import SimpleNamespace
from typing import Any

import numpy as np

from harness.columns.column import Column, Out, Part, Question, Todo
from harness.columns.orders import Orders
from harness.columns.responses import Imported, response_rows
from harness.columns.store import Rows, Store
from harness.columns.vectors import OwnVectors
from harness.columns.verdicts import GivenVerdicts, verdict_rows
from harness.records import Problem, Responses, Verdict
from harness_plugins.executors.local import _in_processes

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed


def columns(d: int) -> tuple[Imported, OwnVectors, GivenVerdicts, Orders]:
    """The columns of a pool file with vectors and verdicts; the files themselves are not read."""
    pool: Any = SimpleNamespace(path=Path("pool.jsonl"))
    responses = Imported("made", "", "", pool)
    vectors, verdicts = OwnVectors("made", responses, d, 0, pool), GivenVerdicts(None, responses)
    selector = Part("selector", "repexp:first=max")
    return responses, vectors, verdicts, Orders(selector, responses, verdicts, vectors, None, None, 5, 0)


def kept(store: Store, questions: list[Question], n: int, d: int) -> tuple[Orders, list[Any]]:
    """Keep pools, vectors and verdicts; the column of orders, and an item of work for each problem."""
    responses, vectors, verdicts, orders = columns(d)
    texts = response_rows(Responses([""] * n, ["stop"] * n, np.ones(n, np.int64), np.zeros(n)))
    only_last = verdict_rows([Verdict("wrong")] * (n - 1) + [Verdict("correct")], [None] * n, {"conditions": {}})
    for i, question in enumerate(questions):
        keep(store, responses, question, texts)
        keep(store, vectors, question, np.random.default_rng(i).normal(size=(n, d)).astype(np.float32))
        keep(store, verdicts, question, only_last)
    store.begin(orders)
    return orders, [[todo(store, orders, question)] for question in questions]


def keep(store: Store, column: Column, question: Question, rows: Rows) -> None:
    """Write one problem's rows."""
    Out(store.root, column).keep(todo(store, column, question), rows)
    store.forget()


def todo(store: Store, column: Column, question: Question) -> Todo:
    """One problem's rows, to be made from the files that are there."""
    return Todo(question, [store.required(each, question) for each in column.reads])


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


def ranking(root: Path, orders: Orders, items: list[Any], repeats: int) -> None:
    function, n = partial(orders.make, out=Out(root, orders)), len(items)
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
    questions = [Question(Problem(str(i), "")) for i in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        orders, items = kept(Store(Path(folder)), questions, args.n, args.d)
        print(f"RepExp on {count} problems of {args.n} x {args.d}, medians of {repeats}, load {os.getloadavg()[0]:.1f}")
        starting(repeats)
        ranking(Path(folder), orders, items, repeats)


if __name__ == "__main__":
    main()
