"""The store by kind of file: responses written and read a second, bytes a response, and what many files cost.

    python tests/bench/store_throughput.py [--full] [--n 1600] [--problems 2] [--repeats 3]

Responses are CodeGen's HumanEval programs where that pool lies beside the project (`../shared`), else text made of
words. Token ids are made: one for four bytes, as varied as a vocabulary of 50,000 by Zipf's law. Seconds are wall
seconds, medians; responses are waited for until they are on the disk, which the CPU does not see. What checksums cost
is CPU seconds, of a 13 MB file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from parallel import columns

from harness.columns.column import Question
from harness.columns.orders import Choices
from harness.columns.responses import response_rows, responses_of
from harness.columns.store import Memo, Rows, Store, filed, read, stem, table
from harness.columns.verdicts import verdict_rows
from harness.records import Problem, Responses, Verdict
from harness.system.files import write_parts

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

SHARED = Path(__file__).parents[3] / "shared" / "data" / "pools"


def texts(n: int) -> tuple[str, list[str]]:
    """n realistic responses to one problem, and where they are from: real ones as far as they reach, varied beyond."""
    pool = SHARED / "codet_humaneval_codegen16B_n100.jsonl"
    if pool.is_file():
        lines = [json.loads(line)["samples"] for line in pool.read_text().splitlines()[: -(-n // 100)]]
        return "CodeGen's programs", [text for samples in lines for text in samples][:n]
    rng, words = np.random.default_rng(0), [f"word{i}" for i in range(2000)]
    return "made text", [" ".join(words[w] for w in rng.zipf(1.3, 80) % 2000) for _ in range(n)]


def made(n: int) -> tuple[str, Responses]:
    source, pool_vectors = texts(n)
    rng = np.random.default_rng(1)
    ids = [(rng.zipf(1.2, max(1, len(text.encode()) // 4)) % 50_000).tolist() for text in pool_vectors]
    lengths = np.array([len(row) for row in ids])
    return source, Responses(pool_vectors, ["stop"] * n, lengths, -rng.gamma(4.0, 10.0, n), ids)


def kinds(n: int, d: int) -> Iterator[tuple[str, str, Callable[[], Rows], Callable[[Any], Any]]]:
    """(kind, of what, the rows to be written, what a reader makes of rows) for each kind of column."""
    source, responses = made(n)
    plain = Responses(responses.texts, responses.finish, responses.lengths, responses.logprobs)
    vectors = np.random.default_rng(2).standard_normal((n, d), np.float32)
    verdicts = [Verdict("correct" if i % 3 else "wrong", "value" if i % 3 == 0 else "") for i in range(n)]
    answers = [str(i % 40) for i in range(n)]
    picks = {"trial": range(5), "k": [0] * 5, "picks": [list(range(min(n, 100)))] * 5}
    tokens = f"{source}, {responses.lengths.mean():.0f} tokens each"
    yield "responses", tokens, lambda: response_rows(responses), responses_of
    yield "responses-text", "the same without token ids", lambda: response_rows(plain), responses_of
    yield "vectors", f"{d} float32", lambda: vectors, np.asarray
    yield "verdicts", "40 distinct answers", lambda: verdict_rows(verdicts, answers, {"tier": "1"}), pa.Table.to_pylist
    yield "orders", "5 orders of 100", lambda: table(picks, {"kind": "order"}), lambda rows: rows.to_pylist()


def seconds(call: Callable, items: list[Any]) -> float:
    started = time.perf_counter()
    for item in items:
        call(item)
    return time.perf_counter() - started


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def throughput(root: Path, n: int, d: int, count: int, repeats: int) -> None:
    for kind, what, rows, reader in kinds(n, d):
        folder, times = root / "pool" / f"{kind}.x.y", []
        folder.mkdir(parents=True)
        write = partial(_write, folder, rows, kind.startswith("responses"))
        for _ in range(repeats):
            wrote = seconds(write, list(range(count)))
            times.append((wrote, seconds(lambda path, reader=reader: reader(read(path)), list(folder.iterdir()))))
        show(kind, what, count * n, times, size_of(folder))
    known = [(f"{i:032x}", ["wrong", "", "value"]) for i in range(n // 4)]
    paths = [root / "memo" / f"p-{i}.jsonl" for i in range(count)]
    values = dict(known)

    def fill(path: Path) -> None:
        path.unlink(missing_ok=True)
        Memo(path).filled(list(values), lambda names: [values[name] for name in names])

    times = [(seconds(fill, paths), seconds(lambda path: Memo(path).values, paths)) for _ in range(repeats)]
    show("memo", "a quarter of the responses distinct", count * n, times, size_of(root / "memo"))


def _write(folder: Path, rows: Callable[[], Rows], durable: bool, i: int) -> None:
    write_parts(*filed(folder, f"p-{i}.0", rows()), durable=durable)


def show(kind: str, what: str, responses: int, times: list[tuple[float, float]], size: int) -> None:
    rates = [responses / median(column) for column in zip(*times, strict=True)]
    shown = f"{rates[0]:10,.0f} written/s {rates[1]:10,.0f} read/s {size / responses:8.1f} bytes each"
    print(f"  {kind:14} {shown} ({what})")


def listing(root: Path, problems: int) -> None:
    """Empty files as a run of `problems` leaves them, and what asking for what is missing costs."""
    questions = [Question(Problem(f"algebra/test-{i}", f"prompt {i}")) for i in range(problems)]
    responses, vectors, verdicts, orders = columns(8)
    every, store = [responses, vectors, verdicts, orders, Choices(responses, verdicts, None, None)], Store(root)
    for column in every:
        store.folder(column).mkdir(parents=True)
        for question in questions:
            name = stem(column, question, ["0" * 16] * len(column.reads))
            (store.folder(column) / f"{name}.{'0' * 16}.parquet").touch()
    started, cpu = time.perf_counter(), time.process_time()
    missing = sum(len(store.missing(column, questions)) for column in every)
    took, used = time.perf_counter() - started, time.process_time() - cpu
    assert not missing
    print(
        f"  {problems:,} problems x {len(every)} columns = {problems * len(every):,} files: what is missing is known "
        f"after {took:.2f} s ({used:.2f} CPU s), {1e6 * used / problems / len(every):.0f} µs of CPU a file"
    )


def checksum_cost(root: Path, repeats: int) -> None:
    """CPU time of the hash of a file of 6,400 vectors of 512, beside all of reading it."""
    vectors = np.random.default_rng(0).standard_normal((6400, 512), np.float32)
    path, parts = filed(root / "pool" / "vectors.x.y", "p.0", vectors)
    write_parts(path, parts)
    content = path.read_bytes()
    calls = {"the hash": lambda: hashlib.sha256(content).digest(), "the whole read": lambda: read(path)}
    times = {name: 1e3 * median(_cpu(call) for _ in range(3 * repeats)) for name, call in calls.items()}
    shown = ", ".join(f"{name} {took:.1f} ms" for name, took in times.items())
    print(f"  a file of {len(content) / 1e6:.1f} MB: {shown} (CPU)")


def _cpu(call: Callable) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="n = 6,400")
    parser.add_argument("--n", type=int)
    parser.add_argument("--d", type=int, default=512)
    parser.add_argument("--problems", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--files", type=int, default=5000, help="of each of five columns that are listed")
    args = parsed(parser, n=16, d=8, problems=1, repeats=1, files=50)
    n = args.n or (6400 if args.full else 1600)
    print(f"n = {n}, {args.problems} problems, medians of {args.repeats}, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        throughput(Path(folder), n, args.d, args.problems, args.repeats)
    with tempfile.TemporaryDirectory() as folder:
        listing(Path(folder), args.files)
    with tempfile.TemporaryDirectory() as folder:
        checksum_cost(Path(folder), args.repeats)


if __name__ == "__main__":
    main()
