"""Every JSON file that a command reads may be damaged, edited or a stranger's: one line that names it, no traceback."""

import json
import os
import re
import sys
import traceback

import pytest
from support.cells import cell, entry, keep
from support.json_edits import edits
from support.training_runs import COUNTING, counted_run

from harness.results import cells

RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture
def faults(harness):
    """Which of the damaged versions of a file a command answers with anything but one line that names the file.

    A version may be good enough for the command: then it says nothing, and ends with 0.
    """

    def call(path, versions, *command, named=None, good=()):
        bad, refused = [], 0
        for name, content in versions:
            path.write_bytes(content)
            try:
                outcome = harness(*command)
            except BaseException as failure:
                where = traceback.extract_tb(failure.__traceback__)[-1]
                bad.append(f"{name}: {type(failure).__name__}: {failure!s:.90} ({where.filename[-30:]}:{where.lineno})")
                continue
            lines = [line for line in outcome.err.splitlines() if line.startswith(("error: ", "not counted: "))]
            refused += bool(lines)
            if RAW.search(outcome.out + outcome.err):
                bad.append(f"{name}: raw control characters")
            if outcome.code not in (0, 1, 2) or (outcome.code == 2 and len(lines) != 1):
                bad.append(f"{name}: exit code {outcome.code}, {outcome.err[-200:]}")
            elif lines and str(named or path) not in lines[0]:
                bad.append(f"{name}: does not name the file: {lines[0]:.200}")
        assert refused > 10
        return bad

    return call


@pytest.mark.slow
def test_an_evaluation_after_rl(faults, tmp_path):
    file = tmp_path / "rl-eval.json"
    policy = {"trainer": "trl", "seed": 1, "step": 2, "dev_pass_at_1": 0.5, "c": [1, 2], "likelihoods": [-1.0]}
    policies = [{"bonus": bonus, **policy} for bonus in ("base", "repexp")]
    about = {"kind": "diversity-harness rl eval", "schema": 1, "task": "t", "split": "test", "model": "m", "n": 4}
    good = json.dumps({**about, "reward": "verifier", "problems": ["a", "b"], "policies": policies})
    versions = list(edits(good))
    found = faults(file, versions, "plot", "rl-passk", file, "--out", tmp_path / "figure")
    assert not found, found


@pytest.mark.slow
def test_the_record_of_a_training_run(faults, tmp_path):
    run = counted_run(tmp_path, 1)
    file = run.folder / "run.json"
    text = file.read_text()
    found = faults(file, edits(text), "rl", "eval", run.folder, "--plugin", COUNTING, "--step", "99", named=run.folder)
    assert not found, found


JOURNAL = [
    {"problem_id": "a", "index": 0, "outcome": "wrong", "value": 1.5, "reason": "no"}, {"asked": [["a", 1]]},
    {"verifier_files": {"check.py": "sha256:00"}},
]  # fmt: skip


@pytest.fixture
def journal(harness, written):
    """The journal of a search that has begun, and the command that goes on with it."""
    pool = written([{"problem_id": "a", "responses": ["x", "y", "z"]}, {"problem_id": "b", "responses": ["x", "y"]}])
    path = pool.with_name("journal.jsonl")
    verifier = f"{sys.executable} -c 0 {{response_file}}"
    command = ("verify", "--pool", pool, "--selector", "uniform", "--verifier", verifier, "--journal", path)
    command += ("--budget", "1")
    assert harness(*command).code == 0
    return path, command


@pytest.mark.slow
def test_a_journal(faults, journal):
    path, command = journal
    first, *_ = path.read_text().splitlines()
    found = faults(path, [(name, content + b"\n") for name, content in edits(first)], *command)
    for line in JOURNAL:
        versions = [(name, first.encode() + b"\n" + content + b"\n") for name, content in edits(json.dumps(line))]
        found += faults(path, versions, *command)
    assert not found, found


def resealed(content):
    """A damaged cell with its own checksum, and its name, as far as it can have these: a forger would do that."""
    value = json.loads(content)
    if isinstance(value, dict):
        value["checksum"] = cells.checksum(value)
    return json.dumps(value).encode(), cells.key_of(value)


@pytest.mark.slow
@pytest.mark.parametrize("forged", [False, True])
def test_a_cell(harness, faults, tmp_path, forged):
    [path] = keep(tmp_path / "cells", cell([entry("p0", [1, 3]), entry("p1", [2, 2])]))
    text = path.read_text()
    if not forged:
        found = faults(path, edits(text), "leaderboard", tmp_path / "cells")
        assert not found, found
        return
    path.unlink()
    bad = []
    for name, content in edits(text):
        try:
            content, key = resealed(content)
        except Exception:
            continue  # no cell at all: the case above
        file = path.with_name(f"{key}.json")
        file.write_bytes(content)
        try:
            for command in (("leaderboard", tmp_path / "cells"), ("leaderboard", tmp_path / "cells", "--json")):
                outcome = harness(*command)
                if RAW.search(outcome.out + outcome.err):
                    bad.append(f"{name}: raw control characters")
        except Exception as failure:
            where = traceback.extract_tb(failure.__traceback__)[-1]
            bad.append(f"{name}: {failure!r:.100} ({where.filename[-30:]}:{where.lineno})")
        file.unlink()
    assert not bad, bad


@pytest.mark.slow
def test_a_line_of_a_pool(faults, harness, tmp_path):
    pool = tmp_path / "pool.jsonl"
    good = {"problem_id": "a", "prompt": "?", "responses": ["x", "y"], "correct": [True, False], "logprobs": [-1, -2]}
    more = {"lengths": [1, 2], "finish": ["stop", "length"], "reference": "x", "scores": {"rm": [1, 2]}}
    command = ("select", "--pool", pool, "--selector", "uniform", "-k", "1", "--json")
    found = faults(pool, edits(json.dumps(good | more)), *command)
    assert not found, found
    pool.write_text('{"problem_id": "a", "responses": ["x"], "correct": [true], "correct": [false]}\n')
    outcome = harness("run", "--pool", pool, "--selector", "uniform")
    assert outcome.code == 2
    assert f"pool {pool}, line 1: not JSON (the key 'correct' is there twice)" in outcome.err


@pytest.mark.parametrize("option", ["--pool", "--data", "--only", "--ids", "--embeddings"])
def test_what_is_no_file_is_not_waited_for(harness, written, tmp_path, option):
    pool = written([{"problem_id": "a", "responses": ["x", "y"], "correct": [True, False]}])
    os.mkfifo(tmp_path / "fifo.npz")
    given = {"--pool": pool, option: tmp_path / "fifo.npz"}
    if option in ("--data", "--ids"):
        given["--task"] = "gsm8k"
    outcome = harness("run", "--selector", "uniform", *[word for pair in given.items() for word in pair])
    assert outcome.code == 2
    assert "fifo.npz" in outcome.err
    assert "is a FIFO and not a file" in outcome.err or "no such file" in outcome.err


def test_a_badge_beside_published_cells(faults, tmp_path):
    keep(tmp_path / "cells", cell([entry("p0", [1, 3]), entry("p1", [2, 2])]))
    file = tmp_path / "cells" / "conformance" / "a.json"
    file.parent.mkdir()
    good = json.dumps({"selector": {"name": "spread"}, "kit": "k", "passed": 3, "failed": ["nan"]})
    found = faults(file, edits(good), "leaderboard", tmp_path / "cells")
    assert not found, found
