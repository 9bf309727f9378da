"""What is broken, hostile or absurd is refused in one line, by every reader; nothing is taken at its word."""

import gzip
import json
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.paths import ROOT
from support.refusals import refusal_of

from harness import HarnessError, Problem
from harness.errors import LONGEST
from harness.pools.given import GivenVectors
from harness.pools.reading import read_pool
from harness.stages.embed import embedded

POOL = {"problem_id": "a", "responses": ["x", "y"], "correct": [True, False]}
HEADER = "{'descr': %s, 'fortran_order': False, 'shape': %s, }\n"


def test_2000_mutated_files_of_every_layout_are_read_or_refused_in_one_line():
    command = [sys.executable, "tests/campaigns/fuzz_readers.py", "--count", "2000"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    child = subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert "mutations, 0 faults" in child.stdout


@pytest.fixture
def refusal(tmp_path):
    """The one line that a pool file is refused with."""

    def call(content, name="pool.jsonl"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return refusal_of(lambda: list(read_pool(path)))

    return call


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"logprobs": [10**400, 1]}, "(a): logprobs must hold numbers only"),
        ({"logprobs": [-1, float("inf")]}, "(a): logprobs must hold numbers only"),
        ({"logprob_kind": ["sum"]}, "(a): logprob_kind must be a text, got ['sum']"),
        ({"reference": json.loads("[" * 120 + "]" * 120)}, "more than 100 inside one another"),
    ],
)
def test_absurd_values_of_a_pool_are_refused(refusal, changed, message):
    assert message in refusal(POOL | changed)


def test_a_gzip_bomb_is_not_unpacked(refusal):
    bomb = gzip.compress(json.dumps(POOL).encode() + b" " * 2**28)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "over 100 times its size" in refusal(bomb, "pool.jsonl.gz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 250_000  # KiB


def npy(dtype, shape, content=b"\0" * 48):
    header = (HEADER % (dtype, shape)).encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def archive(path, *members, how=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", how) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_a_header_is_not_believed(tmp_path):
    path = archive(tmp_path / "v.npz", ("a.npy", npy("'<f4'", "(6000000000000, 1)")))
    with pytest.raises(HarnessError, match="header is of 24,000,000,000,000 bytes, 48 are there"):
        GivenVectors(path).get("a", 6_000_000_000_000)


def test_a_member_of_a_gigabyte_in_a_tiny_archive_is_not_unpacked(tmp_path):
    path = tmp_path / "v.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("a.npy", "w") as member:
        member.write(npy("'<f4'", f"(4, {75 * 2**20})", b""))
        for _ in range(75):
            member.write(bytes(2**24))
    assert path.stat().st_size < 2_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(HarnessError, match=r"'a' expands to 1,258,\d\d\d,\d\d\d bytes, over 100 times its size"):
        GivenVectors(path).get("a", 4)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_an_array_takes_no_more_memory_than_is_allowed(tmp_path, kind):
    from safetensors.numpy import save_file

    path, vectors = tmp_path / f"v.{kind}", {"a": np.ones((1000, 300), np.float32)}
    saved(path, **vectors) if kind == "npz" else save_file(vectors, path)
    assert GivenVectors(path, max_gb=0.002).get("a", 1000).shape == (1000, 300)
    with pytest.raises(
        HarnessError, match=r"'a' would take 0\.0012 GB of memory, more than --max-vectors-gb 0\.001 allows"
    ):
        GivenVectors(path, max_gb=0.001).get("a", 1000)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy("'<f4'", "(4, 3)"), "is a .npy file, whose one array has no name"),
        (b"PK\x03\x04 and no more", "cannot be read (File is not a zip file)"),
        (b"", "it is no zip archive"),
    ],
)
def test_what_is_no_npz_is_refused(tmp_path, content, message):
    path = tmp_path / "v.npz"
    path.write_bytes(content)
    assert message in refusal_of(GivenVectors, path)


def test_a_truncated_or_garbled_npz_is_refused(tmp_path):
    content = saved(tmp_path / "v.npz", a=np.ones((4, 3))).read_bytes()
    (tmp_path / "short.npz").write_bytes(content[:-30])
    with pytest.raises(HarnessError, match=r"short\.npz cannot be read"):
        GivenVectors(tmp_path / "short.npz")
    (tmp_path / "garbled.npz").write_bytes(content[:140] + b"\xff" + content[141:])
    with pytest.raises(HarnessError, match="'a' cannot be read"):
        GivenVectors(tmp_path / "garbled.npz").get("a", 4)


@pytest.mark.parametrize("value", [1e300, -1e39, 1e20])
def test_vectors_that_float32_cannot_work_with_name_the_file(tmp_path, value):
    path = saved(tmp_path / "mine.npz", a=np.full((4, 3), value))
    with pytest.raises(HarnessError, match=r"mine\.npz: 'a' holds .*float32 vectors must stay within 1e\+15"):
        GivenVectors(path).get("a", 4)


class Listing:
    """An embedder that gives what it was made with."""

    def __init__(self, given):
        self.given = given

    def embed(self, problem, texts):
        return self.given


@pytest.mark.parametrize("given", [[[1, 2], [3, 4]], ((1.0, 2.0), (3.0, 4.0)), [np.array([1, 2]), np.array([3, 4])]])
def test_an_embedder_may_give_lists(given):
    assert embedded(Listing(given), "mine", Problem("a", ""), ["x", "y"]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("given", [None, [[1, 2], [3]], [["a", "b"], ["c", "d"]], [[{}], [{}]], 3.0, [[1, 2]]])
def test_an_embedder_that_gives_no_array_is_named(given):
    with pytest.raises(HarnessError, match="embedder 'mine': gave "):
        embedded(Listing(given), "mine", Problem("a", ""), ["x", "y"])


def no_store(tmp_path, kind):
    path = tmp_path / kind
    if kind == "file":
        path.write_text("")
    elif kind == "fifo":
        os.mkfifo(path)
    return {"under": tmp_path / "file" / "runs", "proc": Path("/proc/harness"), "long": tmp_path / ("x" * 300)}.get(
        kind, path
    )


@pytest.mark.parametrize("kind", ["file", "under", "proc", "fifo", "long"])
@pytest.mark.parametrize("command", ["run", "import"])
def test_a_store_where_nothing_can_be_made_is_one_line(harness, tmp_path, kind, command):
    (tmp_path / "file").write_text("")
    pool = tmp_path / "pool.jsonl"
    pool.write_text(json.dumps(POOL))
    options = ["--selector", "uniform", "--pool", pool] if command == "run" else [pool]
    words = ["run"] if command == "run" else ["pool", "import"]
    outcome = harness(*words, *options, "--store", no_store(tmp_path, kind))
    *_, line = outcome.err.strip().splitlines()
    assert (outcome.code, line[:7]) == (2, "error: ")
    assert "choose another --store" in line


@pytest.mark.parametrize(
    "options",
    [
        ["run", "--selector", "uniform", "--pool", "x" * 5000],
        ["select", "--selector", "uniform", "-k", "1", "--embeddings", "x" * 5000 + ".npz"],
        ["run", "--selector", "uniform", "--task", "gsm8k", "--data", "x" * 5000],
        ["run", "--selector", "uniform", "--task", "game24", "--data", "x" * 5000],
        ["run", "--selector", "uniform", "--pool", "pool.jsonl", "--plugin", "x" * 5000 + ".py"],
        ["leaderboard", "x" * 5000],
        ["compare", "x" * 5000, "y"],
        ["report", "--cell", "x" * 5000],
        ["pool", "inspect", "x" * 5000],
        ["pool", "export", "x" * 5000, "--out", "y"],
        ["plot", "passk", "x" * 5000],
        ["new", "selector", "x" * 5000],
        ["results", "publish", "x" * 5000],
    ],
)
def test_a_name_too_long_is_one_line(harness, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pool.jsonl").write_text(json.dumps(POOL))
    outcome = harness(*options)
    *_, line = outcome.err.strip().splitlines()
    assert (outcome.code, line[:7]) == (2, "error: ")
    assert "Traceback" not in outcome.err
    assert len(line) < LONGEST + 20


def test_a_message_is_one_printable_line_whatever_a_file_calls_things():
    message = str(HarnessError("pool p.csv, line 3 (a\nb\x1b[2J\ud800): " + "x" * 10_000 + ": say which"))
    assert message.startswith("pool p.csv, line 3 (a b\\x1b[2J\\ud800): xxx")
    assert message.endswith("xxx: say which")
    assert len(message) < LONGEST + 20


def test_a_table_whose_header_only_looks_like_sequences_is_one_line(refusal):
    assert "no sequence" in refusal(b'name,"sequence"""\na,MKT\n', "p.csv")
