"""The store: memos, damage, a full disk and one that can only be read, other formats, two processes, leftovers."""

import json
import shlex
import shutil
import subprocess
import sys

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.processes import harness_command, run_to_end
from support.refusals import error_line, refusal_of
from support.stores import contents, files_of

from harness.columns.store import Memo, Store

# Memos.


def test_a_memo_makes_what_it_lacks_keeps_it_at_once_and_never_a_fault_of_ours(tmp_path):
    made, path = [], tmp_path / "memo" / "p.jsonl"

    def lengths(names):
        made.append(names)
        return [None if name == "lost" else len(name) for name in names]

    assert Memo(path).filled(["a", "bb", "a", "lost", "ccc"], lengths, 2) == {"a": 1, "bb": 2, "lost": None, "ccc": 3}
    assert made == [["a", "bb"], ["lost", "ccc"]]
    assert Memo(path).values == [1, 2, 3]
    assert Memo(path).filled(["lost", "bb", "d"], lengths) == {"lost": None, "bb": 2, "d": 1}
    assert made[2:] == [["lost", "d"]]

    def fails(names):
        if names == ["f"]:
            raise KeyboardInterrupt
        return [0]

    with pytest.raises(KeyboardInterrupt):
        Memo(path).filled(["e", "f"], fails, 1)
    assert Memo(path).lacking(["e", "f", "f", "a"]) == ["f"]


def test_half_a_line_of_a_memo_and_a_damaged_one_are_missing_and_the_others_stay(tmp_path):
    path = tmp_path / "p.jsonl"
    names = ["a", "bb", "ccc"]
    Memo(path).filled(names, lambda some: [len(name) for name in some])
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert set(Memo(path).values) <= {1, 2, 3}
        assert len(Memo(path).values) >= 1
        path.write_bytes(whole[:place])  # as a killed process leaves it; the next begins a line of its own
        Memo(path).filled(["dddd"], lambda some: [4])
        assert 4 in Memo(path).values
        assert Memo(path).filled(names, lambda some: [len(name) for name in some]) == {"a": 1, "bb": 2, "ccc": 3}


def test_what_two_processes_add_to_a_memo_is_there(tmp_path):
    first, second = Memo(tmp_path / "m"), Memo(tmp_path / "m")
    first.filled(["a"], lambda some: [1])
    second.filled(["a", "b"], lambda some: [1, 2])
    first.filled(["c"], lambda some: [3])
    assert sorted(Memo(tmp_path / "m").values) == [1, 2, 3]


# Damage.


def damaged(path, other):
    """Ways in which a file may be damaged: a bit, its end, all of it, the content of another file."""
    content = path.read_bytes()
    yield content[:9] + bytes([content[9] ^ 1]) + content[10:]
    yield content[:-5]
    yield b""
    yield other.read_bytes()


def test_damaged_responses_are_one_line_and_stay_until_the_user_deletes_them(toy, tmp_path):
    options = ("--limit", "2", "--embedder", "letters", "--selector", "shuffle")
    before = toy(*options).rows
    path, other = files_of(tmp_path / "runs", "responses")
    whole = path.read_bytes()
    for content in damaged(path, other):
        for kind in ("verdicts", "orders"):
            for each in files_of(tmp_path / "runs", kind):
                each.unlink()
        path.write_bytes(content)
        line = toy(*options)
        assert (line.code, line.out) == (2, "")
        assert f"error: store: {path} is damaged: delete it, and the same command makes it again" in line.err
        assert path.read_bytes() == content
    path.unlink()
    assert toy(*options).rows == before
    assert path.read_bytes() == whole


@pytest.mark.parametrize("kind", ["vectors", "verdicts", "orders", "choices"])
def test_another_damaged_file_is_made_again_with_a_line(toy, tmp_path, kind):
    options = ("--limit", "2", "--embedder", "letters", "--selector", "spread")
    rows, store = toy(*options).rows, tmp_path / "runs"
    whole = contents(store)
    path, other = files_of(store, kind)
    for content in damaged(path, other):
        for cell in (store / "cells").iterdir():
            cell.unlink()
        if kind == "vectors":
            for each in files_of(store, "orders"):
                each.unlink()
        path.write_bytes(content)
        outcome = toy(*options)
        assert (outcome.code, outcome.rows) == (0, rows)
        assert f"{path} is damaged: it is made again" in outcome.err.splitlines()
        assert contents(store) == whole


def test_a_damaged_cell_is_made_again(toy, tmp_path):
    [row] = toy("--limit", "2", "--selector", "shuffle").rows
    path = tmp_path / "runs" / "cells" / f"{row['cell']}.json"
    whole = path.read_bytes()
    for content in (whole.replace(b'"n":16', b'"n":15', 1), whole[:-9], b"", b"[" * 9000):
        assert content != whole
        path.write_bytes(content)
        assert toy("--limit", "2", "--selector", "shuffle").rows == [row]
        assert path.read_bytes() == whole


def test_what_is_no_file_in_place_of_one_is_damage(toy, tmp_path):
    toy("--limit", "2", "--selector", "shuffle")
    path = files_of(tmp_path / "runs", "responses")[0]
    for kind in ("verdicts", "orders", "choices"):
        files_of(tmp_path / "runs", kind)[0].unlink()
    shutil.move(path, tmp_path / "kept")
    path.mkdir()
    assert f"{path} is damaged" in toy("--limit", "2", "--selector", "shuffle").err


# Disks and formats.


def mounted(mount, root, *commands):
    """Run commands where the store lies on a mount of its own, and show their exit codes."""
    shell = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    if subprocess.run([*shell, mount, str(root)], capture_output=True).returncode:
        pytest.skip("needs a mount of its own")
    lines = [f"{shlex.join(map(str, harness_command(*each)))}; echo exit $? >&2" for each in commands]
    shown = run_to_end([*shell, "\n".join([mount, *lines]), str(root)])
    assert "Traceback" not in shown.stderr
    codes = [int(line.split()[1]) for line in shown.stderr.splitlines() if line.startswith("exit ")]
    return codes, shown.stdout, [line for line in shown.stderr.splitlines() if line.startswith("error: ")]


RUN = ("run", "--task", "colours", "--engine", "toy", "--plugin", TOY, "--limit", "2", "--selector", "spread", "--json")


@pytest.mark.slow
def test_a_complete_run_in_a_store_that_can_only_be_read_prints_its_table(harness, tmp_path):
    root = tmp_path / "runs"
    whole = harness(*RUN, "--store", root).out
    before = contents(root)
    only_read = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
    codes, out, lines = mounted(only_read, root, (*RUN, "--store", root), (*RUN, "--seed", "1", "--store", root))
    assert (codes, out) == ([0, 2], whole)
    [line] = lines
    assert line.startswith(f"error: store: cannot write {root}/")
    assert line.endswith("Read-only file system; choose another --store")
    assert contents(root) == before


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_loses_nothing(harness, tmp_path):
    root = tmp_path / "runs"
    whole = harness(*RUN, "--store", root).out
    full = 'cp -r "$0" "$0.kept"; mount -t tmpfs -o size=128k none "$0" && cp -r "$0.kept"/. "$0"'
    more = (*RUN, "--n", "3000", "--embedder", "tfidf", "--store", root)  # of unknown width: nothing is refused before
    codes, out, lines = mounted(full, root, more, (*RUN, "--store", root))
    assert (codes, out) == ([2, 0], whole)
    [line] = lines
    assert line.startswith("error: store: no space left on the disk of ")
    assert line.endswith("make room and run the same command again; finished problems are kept")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("store.json", b'{"format": 3}', "has another format ({'format': 3}): choose another --store"),
        ("store.json", b"\xff{", "store.json"),
    ],
)
def test_a_store_of_another_format_is_one_line_and_stays_as_it_is(toy, tmp_path, name, content, words):
    path = tmp_path / "runs" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    outcome = toy("--selector", "shuffle")
    assert words in error_line(outcome)
    assert {name: text for name, text in contents(tmp_path / "runs").items() if name != ".lock"} == {name: content}


# Other processes.

HOLD = """
import sys
from pathlib import Path
from harness.columns.store import Store
with Store(Path(sys.argv[1])).used(alone=sys.argv[2] == "alone"):
    print("held", flush=True)
    sys.stdin.read()
"""


def held(root, how):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, root, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_store_that_another_process_prunes_is_one_line_and_free_when_that_is_killed(toy, tmp_path):
    root = tmp_path / "runs"
    with held(root, "alone") as process:
        line = error_line(toy("--limit", "1", "--selector", "shuffle"))
        assert line == (
            f"error: store: another process deletes from {root}: run the same command again when that has ended"
        )
        process.kill()
    assert toy("--limit", "1", "--selector", "shuffle").code == 0


def test_what_another_process_uses_can_be_used_and_not_deleted_from(toy, tmp_path):
    root = tmp_path / "runs"
    with held(root, "shared") as process:
        assert toy("--limit", "1", "--selector", "shuffle").code == 0
        line = refusal_of(Store(root).used(alone=True, who="store prune").__enter__)
        assert line.startswith(f"store prune: another process uses {root}: ")
        process.kill()
    with Store(root).used(alone=True):
        pass


def test_a_store_without_a_lock_is_used_but_nothing_is_deleted_from_it(toy, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".lock").symlink_to(tmp_path / "elsewhere")
    assert toy("--limit", "1", "--selector", "shuffle").code == 0
    assert "nothing is deleted" in refusal_of(Store(tmp_path / "runs").used(alone=True).__enter__)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_two_runs_in_one_store_at_the_same_time_leave_the_files_of_one(toy, tmp_path):
    selectors = ("--selector", "spread", "--selector", "shuffle")
    alone = toy(*selectors, store=tmp_path / "alone")
    fixed = ("run", "--task", "colours", "--engine", "toy", "--plugin", TOY, "--json")
    command = harness_command(*fixed, "--store", tmp_path / "shared", *selectors)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in both] == [alone.out] * 2
    assert [process.returncode for process in both] == [0, 0]
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")


# What a file is made from.


def test_of_two_problems_with_like_names_each_has_its_own_files(harness, tmp_path):
    names = ["a/b", "a.b", "a b", "é", "x" * 300, "x" * 301]
    lines = [
        {"problem_id": name, "responses": [f"{place} {i}" for i in range(3)], "correct": [False, True, place % 2 == 0]}
        for place, name in enumerate(names)
    ]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    run = ("run", "--pool", pool, "--selector", "in-order", "--store", tmp_path / "runs", "--json")
    [row] = harness(*run).rows
    assert len(files_of(tmp_path / "runs", "responses")) == len(names)
    cell = json.loads((tmp_path / "runs" / "cells" / f"{row['cell']}.json").read_text())
    assert {entry["id"]: entry["c"] for entry in cell["problems"]} == dict(zip(names, [2, 1] * 3, strict=True))
