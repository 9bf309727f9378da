"""Every JSON file that a command reads may be damaged, edited or a stranger's: one line that names it, no traceback."""

import json
import os
import re
import sys
import traceback
from functools import reduce
from itertools import chain, cycle
from operator import getitem

import pytest
from support.cells import cell, entry, keep
from support.training_runs import COUNTING, counted_run

from harness.results import cells

RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
GONE = object()
VALUES = (None, [], {"x": 1}, "\ud800\u202e\x9b", -1, 10**400, GONE)


def places(value, depth=4, path=()):
    """The paths of a value's parts: of lists the first entry alone."""
    for key in value if isinstance(value, dict) else range(len(value))[:1] if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], depth - 1, (*path, key)) if depth > 1 else ()


def edited(text):
    """An object's text with something else in one place, or nothing: each place once, the kinds of damage in turn."""
    for path, other in zip(places(json.loads(text)), cycle(VALUES), strict=False):
        value = json.loads(text)
        node = reduce(getitem, path[:-1], value)
        node[path[-1]] = other
        if other is GONE:
            del node[path[-1]]
        yield f"{path} = {other!r:.20}", json.dumps(value).encode()


def damaged(text):
    """An object's text damaged as a whole."""
    content, before = text.encode(), text.encode().rstrip()[:-1]
    first = json.dumps(next(iter(json.loads(text)))).encode()
    yield from {"cut": content[: len(content) // 2], "empty": b"", "deep": b"[" * 100_000, "NULs": b"\0" * 64}.items()
    yield "nested 200 deep", before + b', "deep": ' + b"[" * 200 + b"]" * 200 + b"}"
    yield "a key twice", before + b", " + first + b": 3}"
    yield "5,000 digits", before + b', "more": ' + b"9" * 5000 + b"}"
    for more in ("NaN", "1e999", '"é"'):
        yield more, before + f', "more": {more}}}'.encode("latin-1")
    yield "UTF-16", text.encode("utf-16")
    yield from ((other, other.encode()) for other in ("null", "3", '"x"', "[[]]", "{}"))


@pytest.fixture
def faults(harness):
    """Which damaged versions of a file the commands answer with anything but one line that names the file.

    A version may be good enough for a command: then it says nothing, and ends with 0.
    """

    def call(path, versions, *commands, named=None):
        bad, refused = [], 0
        for name, content in versions:
            file = path(content) if callable(path) else path
            file.write_bytes(content)
            for command in commands:
                try:
                    outcome = harness(*command)
                except BaseException as failure:
                    bad.append(f"{name}: {traceback.format_exception(failure)[-3:]}")
                    continue
                lines = [line for line in outcome.err.splitlines() if line.startswith(("error: ", "not counted: "))]
                refused += bool(lines)
                raw, wrong_code = RAW.search(outcome.out + outcome.err), outcome.code == 2 and len(lines) != 1
                if raw or wrong_code or outcome.code > 2 or (lines and str(named or file) not in lines[0]):
                    bad.append(f"{name}: {outcome}")
            file.unlink()
        assert refused > 2
        return bad

    return call


@pytest.mark.slow
def test_an_evaluation_after_rl(faults, tmp_path):
    file = tmp_path / "rl-eval.json"
    policy = {"trainer": "trl", "seed": 1, "step": 2, "dev_pass_at_1": 0.5, "c": [1, 2], "likelihoods": [-1.0]}
    policies = [{"bonus": bonus, **policy} for bonus in ("base", "repexp")]
    about = {"kind": "diversity-harness rl eval", "schema": 1, "task": "t", "split": "test", "model": "m", "n": 4}
    good = json.dumps({**about, "reward": "verifier", "problems": ["a", "b"], "policies": policies})
    assert faults(file, edited(good), ("plot", "rl-passk", file, "--out", tmp_path / "figure")) == []


@pytest.mark.slow
def test_the_record_of_a_training_run(faults, tmp_path):
    run = counted_run(tmp_path, 1)
    versions = list(edited((run.folder / "run.json").read_text()))
    command = ("rl", "eval", run.folder, "--plugin", COUNTING, "--step", "99")
    assert faults(run.folder / "run.json", versions, command, named=run.folder) == []


@pytest.mark.slow
def test_a_journal(faults, harness, written):
    pool = written([{"problem_id": "a", "responses": ["x", "y", "z"]}, {"problem_id": "b", "responses": ["x", "y"]}])
    path, verifier = pool.with_name("journal.jsonl"), f"{sys.executable} -c 0 {{response_file}}"
    command = ("verify", "--pool", pool, "--selector", "uniform", "--verifier", verifier, "--journal", path)
    command += ("--budget", "1")
    assert harness(*command).code == 0
    first, *_ = path.read_text().splitlines()
    versions = [(name, content + b"\n") for name, content in edited(first)]
    for line in (
        {"problem_id": "a", "index": 0, "outcome": "wrong", "value": 1.5, "reason": "no"},
        {"asked": [["a", 1]]},
        {"verifier_files": {"check.py": "sha256:00"}},
    ):
        versions += [(name, f"{first}\n".encode() + content + b"\n") for name, content in edited(json.dumps(line))]
    assert faults(path, versions, command) == []


@pytest.mark.slow
def test_a_cell_also_with_its_own_name_and_checksum(faults, tmp_path):
    [path] = keep(tmp_path / "cells", cell([entry("p0", [1, 3]), entry("p1", [2, 2])]))
    keep(tmp_path / "cells", cell([entry("sound", [1, 3])]))
    text, show = path.read_text(), ("leaderboard", tmp_path / "cells")
    assert faults(path, chain(damaged(text), edited(text)), show) == []
    forged = []
    for name, content in edited(text):
        value = json.loads(content)
        if "inputs" in value and "problems" in value:
            value["checksum"] = cells.checksum(value)
            forged.append((name, json.dumps(value).encode()))

    def named(content):
        try:
            return path.with_name(f"{cells.key_of(json.loads(content))}.json")
        except Exception:
            return path  # what has no key

    assert faults(named, forged, show, (*show, "--json")) == []


def test_a_badge_beside_published_cells(faults, tmp_path):
    keep(tmp_path / "cells", cell([entry("p0", [1, 3]), entry("p1", [2, 2])]))
    file = tmp_path / "cells" / "conformance" / "a.json"
    file.parent.mkdir()
    good = json.dumps({"selector": {"name": "spread"}, "kit": "k", "passed": 3, "failed": ["nan"]})
    assert faults(file, edited(good), ("leaderboard", tmp_path / "cells")) == []


@pytest.mark.parametrize("option", ["--pool", "--data", "--ids", "--embeddings"])
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
