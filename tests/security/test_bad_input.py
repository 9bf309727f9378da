"""Hostile files, names and stores: nothing is taken at its word, memory stays small, one line is all that is said."""

import gzip
import json
import os
import resource
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from corpora.long_names import WITH_LONG_NAMES
from support.paths import ROOT
from support.pool_files import pool_refusal
from support.processes import run_to_end
from support.refusals import refusal_of

from harness import HarnessError
from harness.pools.given import GivenVectors

POOL = {"problem_id": "a", "responses": ["x", "y"], "correct": [True, False]}


@pytest.mark.parametrize("count", [128, pytest.param(2000, marks=pytest.mark.slow)])
def test_mutated_files_of_every_layout_are_read_or_refused_in_one_line(count):
    command = [sys.executable, "tests/campaigns/fuzz_readers.py", "--count", count]
    options = {"cwd": ROOT, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
    minute = (60, 60)  # of processor time
    child = run_to_end(command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, minute), **options)
    assert child.returncode == 0, child.stdout + child.stderr
    assert "mutations, 0 faults" in child.stdout


def test_bombs_are_not_unpacked(written, tmp_path):
    """A gzip file and a large member of a tiny archive: the largest size of this process grows by less."""
    path, vectors = (
        written(gzip.compress(json.dumps(POOL).encode() + b" " * 2**27, 1), "pool.jsonl.gz"),
        tmp_path / "v.npz",
    )
    with (
        zipfile.ZipFile(vectors, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("a.npy", "w") as member,
    ):
        shape = {"descr": "<f4", "fortran_order": False, "shape": (4, 15 * 2**20)}
        np.lib.format.write_array_header_1_0(member, shape)
        for _ in range(15):
            member.write(bytes(2**24))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = refusal_of(GivenVectors(vectors).get, "a", 4)
    assert "'a' expands to 251,658,3" in line
    assert "over 100 times its size" in line
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB
    assert "over 100 times its size" in pool_refusal(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 250_000


def refused_in_one_line(outcome):
    """The last line of a command that was refused."""
    *_, line = outcome.err.strip().splitlines()
    assert (outcome.code, line[:7]) == (2, "error: ")
    assert "Traceback" not in outcome.err
    assert len(line) < 4_020
    return line


def test_a_store_where_nothing_can_be_made_is_one_line(harness, written, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    pool, file = written([POOL]), written("", "file")
    for store in (file / "runs", tmp_path / "fifo", Path("/proc/harness"), tmp_path / ("x" * 300)):
        line = refused_in_one_line(harness("pool", "import", pool, "--store", store))
        assert "choose another --store" in line


@pytest.mark.slow
def test_a_name_too_long_is_one_line(harness, written, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written([POOL])
    for arguments in WITH_LONG_NAMES:
        refused_in_one_line(harness(*arguments))


def test_a_message_is_one_printable_line_whatever_a_file_calls_things():
    message = str(HarnessError("pool p.csv, line 3 (a\nb\x1b[2J\ud800): " + "x" * 10_000 + ": say which"))
    assert message.startswith("pool p.csv, line 3 (a b\\x1b[2J\\ud800): xxx")
    assert message.endswith("xxx: say which")
    assert len(message) < 4_020
