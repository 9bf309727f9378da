"""The store by kind of shard: responses written and read a second, bytes a response, and what many files cost.

    python tests/bench/store_throughput.py [--full] [--n 1600] [--problems 2] [--repeats 3] [--main-job]

Responses are CodeGen's HumanEval programs where that pool lies beside the project (`../shared`), else text made of
words. Token ids are made: one for four bytes, as varied as a vocabulary of 50,000 by Zipf's law. Seconds are wall
seconds, medians; responses and verdicts are waited for until they are on the disk, which the CPU does not see. What
checksums cost is CPU seconds: of a 13 MB shard, and (`--main-job`) of the run that `make run` makes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from unittest import mock

import numpy as np

from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.records import Problem, Responses, Verdict
from harness.store import checksums, shard_files, shards
from harness.store.json_files import read_record, write_record
from harness.store.stage import Stage, Store
from harness.system.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

SHARED = Path(__file__).parents[3] / "shared" / "data" / "pools"
FILES = (*("pool", "embedding", "verdict", "graded"), "ranking")


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


def kinds(stages: dict[str, Stage], n: int, d: int) -> Iterator[tuple[str, str, Callable, Callable]]:
    """(kind, of what, write(problem), read(problem)) for each kind of shard."""
    source, responses = made(n)
    plain = Responses(responses.texts, responses.finish, responses.lengths, responses.logprobs)
    vectors = np.random.default_rng(2).standard_normal((n, d), np.float32)
    verdicts = [Verdict("correct" if i % 3 else "wrong", "value" if i % 3 == 0 else "") for i in range(n)]
    answers = [str(i % 40) for i in range(n)]
    known = {f"{i:032x}": verdict for i, verdict in enumerate(verdicts[: n // 4])}
    orders = {"kind": "order", "n": n, "trials": [list(range(min(n, 100)))] * 5}
    pool, embedding = stages["pool"], stages["embedding"]
    yield (
        "pool",
        f"{source}, {responses.lengths.mean():.0f} tokens each",
        *(
            lambda p: shards.write_responses(pool.path(p), p, responses),
            lambda p: shards.read_responses(pool.path(p)),
        ),
    )
    without = Stage(pool.folder.with_name("without"), "", pool.suffix, {})
    yield (
        "pool, no ids",
        "the same without token ids",
        *(
            lambda p: shards.write_responses(without.path(p), p, plain),
            lambda p: shards.read_responses(without.path(p)),
        ),
    )
    yield (
        "embedding",
        f"{d} float32",
        *(
            lambda p: shards.write_vectors(embedding.path(p), vectors),
            lambda p: shards.read_vectors(embedding.path(p)),
        ),
    )
    yield (
        "verdict",
        "40 distinct answers",
        *(
            lambda p: shards.write_verdicts(stages["verdict"].path(p), verdicts, answers, {"tier": "1"}),
            lambda p: shards.read_verdicts(stages["verdict"].path(p)),
        ),
    )
    yield (
        "graded",
        "a quarter of the responses distinct",
        *(
            lambda p: shards.write_graded(stages["graded"].path(p), known),
            lambda p: shards.read_graded(stages["graded"].path(p)),
        ),
    )
    yield (
        "ranking",
        "5 orders of 100",
        *(
            lambda p: write_record(stages["ranking"].path(p), orders),
            lambda p: read_record(stages["ranking"].path(p)),
        ),
    )


def seconds(call: Callable, problems: list[Problem]) -> float:
    started = time.perf_counter()
    for problem in problems:
        call(problem)
    return time.perf_counter() - started


def throughput(folder: Path, n: int, d: int, count: int, repeats: int) -> None:
    stages = {
        kind: Store(folder).stage(
            kind, {}, ".json" if kind == "ranking" else ".safetensors" if kind == "embedding" else ".parquet"
        )
        for kind in FILES
    }
    problems = [Problem(f"p-{i}", "a prompt") for i in range(count)]
    for kind, what, write, read in kinds(stages, n, d):
        before = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        times = [(seconds(write, problems), seconds(read, problems)) for _ in range(repeats)]
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) - before
        rates = [count * n / median(column) for column in zip(*times, strict=True)]
        shown = f"{rates[0]:10,.0f} written/s {rates[1]:10,.0f} read/s {size / count / n:8.1f} bytes each"
        print(f"  {kind:13} {shown} ({what})")


def listing(folder: Path, problems: int, stages: int) -> None:
    """Empty files as a run of `problems` with two selectors leaves them, and what asking for what is missing costs."""
    names = [Problem(f"algebra/test-{i}", f"prompt {i}") for i in range(problems)]
    made_of = [Stage(folder / str(s), "", ".parquet", {}) for s in range(stages)]
    for stage in made_of:
        stage.folder.mkdir(parents=True)
        for problem in names:
            stage.path(problem).touch()
    started, cpu = time.perf_counter(), time.process_time()
    missing = sum(len(stage.missing(names)) for stage in made_of)
    took, used = time.perf_counter() - started, time.process_time() - cpu
    assert not missing
    print(
        f"  {problems:,} problems x {stages} stages = {problems * stages:,} files: what is missing is known after "
        f"{took:.2f} s ({used:.2f} CPU s), {1e6 * used / problems / stages:.0f} µs of CPU a file"
    )


def checksum_cost(folder: Path, repeats: int) -> None:
    """CPU time to make and to look at the checksum of a shard of 6,400 vectors of 512, beside all of reading it."""
    stage, problem = Store(folder).stage("embedding", {}, ".safetensors"), Problem("p", "a prompt")
    vectors = np.random.default_rng(0).standard_normal((6400, 512), np.float32)
    shards.write_vectors(stage.path(problem), vectors)
    path = stage.path(problem)
    content = path.read_bytes()
    start = content.index(b"sha256=") + len(b"sha256=")
    empty = content[:start] + b"0" * 64 + content[start + 64 :]
    calls = {
        "made": lambda: checksums.sealed(path, empty),
        "looked at": lambda: checksums.check(path, content),
        "the whole read": lambda: shards.read_vectors(stage.path(problem)),
    }
    times = {name: 1e3 * median(_cpu(call) for _ in range(3 * repeats)) for name, call in calls.items()}
    shown = ", ".join(f"{name} {took:.1f} ms" for name, took in times.items())
    print(f"  checksum of a shard of {len(content) / 1e6:.1f} MB: {shown} (CPU)")


def _cpu(call: Callable) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def main_job(folder: Path) -> None:
    """The share of the main job's CPU time that goes into checksums: all stages made, and all of them there."""
    spent = {"checksums": 0.0}

    def timed(function: Callable) -> Callable:
        def call(*arguments: object) -> object:
            started = time.thread_time()
            try:
                return function(*arguments)
            finally:
                spent["checksums"] += time.thread_time() - started

        return call

    selectors = ("repexp", "uniform", "facility-location")
    config = RunConfig(selectors=selectors, task="game24", store=folder, executor="local:workers=1")
    with (
        mock.patch.object(shards, "sealed", timed(checksums.sealed)),
        mock.patch.object(shard_files, "sealed", timed(checksums.sealed)),
        mock.patch.object(shard_files, "check", timed(checksums.check)),
    ):
        for what in ("made", "there"):
            spent["checksums"] = 0.0
            took = _cpu(lambda: pipeline.run(config, Progress(quiet=True)))
            share = f"{1e3 * spent['checksums']:.1f} ms of them checksums ({spent['checksums'] / took:.2%})"
            print(f"  main job, all {what}: {took:.1f} CPU s, {share}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="n = 6,400")
    parser.add_argument("--n", type=int)
    parser.add_argument("--d", type=int, default=512)
    parser.add_argument("--problems", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--files", type=int, default=5000, help="of each of six stages that are listed")
    parser.add_argument("--main-job", action="store_true", help="the checksums' share of `make run` (a minute)")
    args = parsed(parser, n=16, d=8, problems=1, repeats=1, files=50)
    n = args.n or (6400 if args.full else 1600)
    print(f"n = {n}, {args.problems} problems, medians of {args.repeats}, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        throughput(Path(folder), n, args.d, args.problems, args.repeats)
    with tempfile.TemporaryDirectory() as folder:
        listing(Path(folder), args.files, 6)
    with tempfile.TemporaryDirectory() as folder:
        checksum_cost(Path(folder), args.repeats)
        if args.main_job:
            main_job(Path(folder) / "runs")


if __name__ == "__main__":
    main()
