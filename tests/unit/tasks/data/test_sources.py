"""Local files and clones of a task: their layouts, their revision, and the line that refuses a faulty one."""

import gzip
import hashlib
import json
import os
import re

from corpora.faulty_files import FAULTY_FILES
from support.refusals import refusal_of
from support.task_files import DEBT, SUM, SUMS, clone_of_gsm8k, ids, jsonl, of_math500, parquet, references, write_card

from harness_tasks.competition_math import Math500
from harness_tasks.gsm8k import Gsm8k

LINES = "".join(json.dumps(row) + "\n" for row in SUMS)
LAYOUTS = {
    "jsonl.gz": gzip.compress(LINES.encode(), mtime=0),
    "odd.jsonl": ("\ufeff" + LINES.replace("\n", "\r\n\n")).encode(),  # a byte order mark, blank lines
    "json": json.dumps(SUMS, indent=1).encode(), "json.gz": gzip.compress(json.dumps(SUMS).encode(), mtime=0),
}  # fmt: skip


def refusal(path, task=Gsm8k):
    return refusal_of(task(str(path)).problems, "test")


def test_every_layout_gives_the_same_problems(tmp_path):
    for layout, content in LAYOUTS.items():
        (tmp_path / f"data.{layout}").write_bytes(content)
    for layout in ("parquet", "parquet-by-another-name"):
        parquet(tmp_path / f"data.{layout}", SUMS)
    for path in tmp_path.iterdir():
        problems = Gsm8k(str(path)).problems("test")
        assert ids(problems) == ["test-0", "test-1", "test-2"], path
        assert [problem.prompt for problem in problems] == [row["question"] for row in SUMS]
        assert references(problems) == ["5", "15000", "-3"]
    row = SUM | {"question": "one\u2028two\x0bthree"}  # line separators that end no row
    (tmp_path / "f.jsonl").write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    assert Gsm8k(str(tmp_path / "f.jsonl")).problems("test")[0].prompt == row["question"]


def test_the_revision_is_the_hash_of_the_files_bytes_and_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "f.jsonl"
    for rows in (SUMS, [DEBT]):
        task = Gsm8k(jsonl(path, rows))
        assert task.revision == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
        assert Gsm8k("~/f.jsonl").revision == task.revision
        assert len(Gsm8k("~/f.jsonl").problems("test")) == len(rows)


def test_a_faulty_file_is_refused_in_one_line_that_says_where(tmp_path):
    path, faults = tmp_path / "given.data", []
    for content, expected in FAULTY_FILES.values():
        path.write_bytes(content)
        line = refusal(path)
        right = line.startswith("gsm8k: ") and str(path) in line and re.search(expected, line) and len(line) < 400
        faults += [] if right else [(expected, line)]
    assert faults == []
    wrong_type = parquet(tmp_path / "f.data", [SUM | {"question": 1.5}])
    assert "f.data, row 0: column 'question' must be text, got float" in refusal(wrong_type)
    assert refusal(parquet(tmp_path / "empty", [])).endswith("has no rows")
    assert "Parquet" in refusal(jsonl(tmp_path / "f.parquet", SUMS * 5))
    absent = tmp_path / "no" / "such.jsonl"
    line = f"gsm8k: cannot read '{absent}': No such file or directory"
    assert refusal(absent) == refusal_of(lambda: Gsm8k(str(absent)).revision) == line
    line = refusal(jsonl(tmp_path / "f.jsonl", map(of_math500, [1, 2, 1])), Math500)
    assert line.endswith("line 3: problem 'test/algebra/1.json' is there already (line 1)")


def test_a_clone_is_read_by_the_splits_of_its_card_and_anew_where_a_file_changed(tmp_path):
    task = Gsm8k(str(clone_of_gsm8k(tmp_path)))
    before = task.revision
    assert ids(task.problems("test")) == ["test-0", "test-1", "test-2"]
    assert references(task.problems("train")) == references(task.problems("test"))[::-1] == ["-3", "15000", "5"]
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache/lock").write_text("x")
    assert task.revision == before
    file = tmp_path / "main/test-00000-of-00001.parquet"
    stat = file.stat()
    parquet(file, [DEBT, DEBT])
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as an unpacked archive's
    assert task.revision != before
    assert references(task.problems("test")) == ["-3", "-3"]
    file.rename(file.with_name("test-1.parquet"))
    assert task.revision not in (before, Gsm8k(str(clone_of_gsm8k(tmp_path, [DEBT, DEBT]))).revision)
    clone_of_gsm8k(tmp_path, [SUM, SUM | {"answer": "?"}, SUM])
    assert f"gsm8k: '{tmp_path}' main/test, row 1: column 'answer'" in refusal(tmp_path)


def test_a_folder_that_is_no_clone_or_lacks_the_split_is_refused(tmp_path):
    (tmp_path / "README.md").write_text("nothing\n")
    assert f"gsm8k: folder '{tmp_path}' is no clone of openai/gsm8k: " in refusal(tmp_path)
    parquet(tmp_path / "test.parquet", SUMS)
    assert "BuilderConfig 'main' not found" in refusal(tmp_path)
    parquet(tmp_path / "main/test-0.parquet", SUMS)
    write_card(tmp_path, {"main": {"test": "main/test-*"}})
    assert 'Unknown split "train"' in refusal_of(Gsm8k(str(tmp_path)).problems, "train")
