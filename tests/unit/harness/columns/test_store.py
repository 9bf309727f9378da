"""The store: memos, damage, a full disk, other formats, two processes, problems with like names."""

import json
import subprocess
import sys

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.processes import harness_command
from support.refusals import error_line
from support.stores import contents, files_of

from harness.columns.store import Memo, Store


def test_a_memo_makes_what_it_lacks_keeps_it_at_once_and_never_a_fault_of_ours(tmp_path):
    made, path = [], tmp_path / "memo" / "p.jsonl"

    def lengths(names):
        made.append(names)
        if names == ["f"]:
            raise KeyboardInterrupt
        return [None if name == "lost" else len(name) for name in names]

    other = Memo(path)  # of another process, which adds to it as well
    assert Memo(path).filled(["a", "bb", "a", "lost", "ccc"], lengths, 2) == {"a": 1, "bb": 2, "lost": None, "ccc": 3}
    other.filled(["a"], lengths)
    assert Memo(path).filled(["lost", "bb", "d"], lengths) == {"lost": None, "bb": 2, "d": 1}
    with pytest.raises(KeyboardInterrupt):
        Memo(path).filled(["e", "f"], lengths, 1)
    assert made == [["a", "bb"], ["lost", "ccc"], ["a"], ["lost", "d"], ["e"], ["f"]]
    assert Memo(path).lacking(["a", "bb", "ccc", "d", "e", "f", "f"]) == ["f"]


def test_half_a_line_of_a_memo_and_a_damaged_one_are_missing_and_the_others_stay(tmp_path):
    path, whole = tmp_path / "p.jsonl", {"a": 1, "bb": 2, "ccc": 3}

    def filled(names):
        return Memo(path).filled(names, lambda some: [len(name) for name in some])

    filled(list(whole))
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert set() < set(Memo(path).values) <= {1, 2, 3}
        path.write_bytes(content[:place])  # as a killed process leaves it; the next begins a line of its own
        assert (filled(["dddd"]), filled(list(whole))) == ({"dddd": 4}, whole)
        assert 4 in Memo(path).values


def test_damaged_responses_are_one_line_and_another_damaged_file_is_made_again_with_a_line(toy, tmp_path):
    options, store = ("--limit", "2", "--n", "4", "--embedder", "letters", "--selector", "spread"), tmp_path / "runs"
    rows, whole = toy(*options).rows, contents(store)

    def hurt(kind, without):
        path = files_of(store, kind)[0]
        path.write_bytes(path.read_bytes()[:-5])
        for each in [*(store / "cells").iterdir(), *files_of(store, without)]:
            each.unlink()
        return path

    for kind, without in (("verdicts", ""), ("orders", ""), ("vectors", "orders")):
        path, outcome = hurt(kind, without), toy(*options)
        assert (outcome.code, outcome.rows) == (0, rows)
        assert f"{path} is damaged: it is made again" in outcome.err.splitlines()
        assert contents(store) == whole
    path = hurt("responses", "verdicts")
    content, refused = path.read_bytes(), toy(*options)
    assert (refused.code, refused.out, path.read_bytes()) == (2, "", content)
    assert f"error: store: {path} is damaged: delete it, and the same command makes it again" in refused.err
    path.unlink()
    path.mkdir()  # no file in place of one
    assert f"{path} is damaged" in toy(*options).err
    path.rmdir()
    assert (toy(*options).rows, contents(store)) == (rows, whole)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b'{"format": 3}', "has another format ({'format': 3}): choose another --store"), (b"\xff{", "store.json")],
)
def test_a_store_of_another_format_is_one_line_and_stays_as_it_is(toy, written, tmp_path, content, words):
    path = written(content, "runs/store.json")
    assert words in error_line(toy("--selector", "shuffle"))
    assert {name: text for name, text in contents(path.parent).items() if name != ".lock"} == {path.name: content}


HOLD = """
import sys
from pathlib import Path
from harness.columns.store import Store
with Store(Path(sys.argv[1])).used(alone=True):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_store_that_a_process_deletes_from_has_no_other_user_and_is_free_when_that_is_killed(toy, tmp_path):
    root, run = tmp_path / "runs", ("--limit", "1", "--selector", "shuffle")
    command = [sys.executable, "-c", HOLD, root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        words = f"another process deletes from {root}: run the same command again when that has ended"
        assert error_line(toy(*run)) == f"error: store: {words}"
        process.kill()
    with Store(root).used(alone=True):
        pass
    assert toy(*run).code == 0


@pytest.mark.slow
def test_two_runs_in_one_store_at_the_same_time_leave_the_files_of_one(toy, tmp_path):
    selectors = ("--selector", "spread", "--selector", "shuffle")
    alone = toy(*selectors, store=tmp_path / "alone")
    fixed = ("run", "--task", "colours", "--engine", "toy", "--plugin", TOY, "--json")
    command = harness_command(*fixed, "--store", tmp_path / "shared", *selectors)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(2)]
    assert [(process.communicate()[0], process.returncode) for process in both] == [(alone.out, 0)] * 2
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")


def test_of_two_problems_with_like_names_each_has_its_own_files(harness, tmp_path):
    names = ["a/b", "a.b", "a b", "é", "x" * 300, "x" * 301]
    lines = [
        {"problem_id": name, "responses": [f"{place} {i}" for i in range(3)], "correct": [False, True, place % 2 == 0]}
        for place, name in enumerate(names)
    ]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    [row] = harness("run", "--pool", pool, "--selector", "in-order", "--store", tmp_path / "runs", "--json").rows
    assert len(files_of(tmp_path / "runs", "responses")) == len(names)
    cell = json.loads((tmp_path / "runs" / "cells" / f"{row['cell']}.json").read_text())
    assert {entry["id"]: entry["c"] for entry in cell["problems"]} == dict(zip(names, [2, 1] * 3, strict=True))
