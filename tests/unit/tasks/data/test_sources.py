"""Local files of a task: their layouts, their revision, and the line that refuses a faulty one."""

import gzip
import hashlib
import json
import re

import pytest
from corpora.faulty_files import FAULTY_FILES
from support.refusals import refusal_of
from support.task_files import DEBT, SUM, SUMS, ids, jsonl, of_math500, parquet, references

from harness_tasks.competition_math import Math500
from harness_tasks.gsm8k import Gsm8k

LINES = "".join(json.dumps(row) + "\n" for row in SUMS)
LAYOUTS = {
    "jsonl": LINES.encode(),
    "jsonl.gz": gzip.compress(LINES.encode(), mtime=0),
    "odd.jsonl": ("\ufeff" + LINES.replace("\n", "\r\n\n")).encode(),  # a byte order mark, blank lines
    "json": json.dumps(SUMS, indent=1).encode(),
    "json.gz": gzip.compress(json.dumps(SUMS).encode(), mtime=0),
}


@pytest.mark.parametrize("layout", [*LAYOUTS, "parquet", "parquet-by-another-name"])
def test_every_layout_gives_the_same_problems(tmp_path, layout):
    path = tmp_path / f"data.{layout}"
    if layout in LAYOUTS:
        path.write_bytes(LAYOUTS[layout])
    else:
        parquet(path, SUMS)
    problems = Gsm8k(str(path)).problems("test")
    assert ids(problems) == ["test-0", "test-1", "test-2"]
    assert [problem.prompt for problem in problems] == [row["question"] for row in SUMS]
    assert references(problems) == ["5", "15000", "-3"]


def test_a_line_separator_inside_a_text_does_not_end_the_row(tmp_path):
    row = SUM | {"question": "one\u2028two\x0bthree"}
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    assert Gsm8k(str(path)).problems("test")[0].prompt == row["question"]


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
        line = refusal_of(Gsm8k(str(path)).problems, "test")
        right = line.startswith("gsm8k: ") and str(path) in line and re.search(expected, line) and len(line) < 400
        faults += [] if right else [(expected, line)]
    assert faults == []


def test_a_faulty_parquet_file_or_one_by_name_only_is_refused(tmp_path):
    def refusal(path):
        return refusal_of(Gsm8k(path).problems, "test")

    wrong_type = parquet(tmp_path / "f.data", [SUM | {"question": 1.5}])
    assert "f.data, row 0: column 'question' must be text, got float" in refusal(wrong_type)
    assert refusal(parquet(tmp_path / "empty", [])).endswith("has no rows")
    assert "Parquet" in refusal(jsonl(tmp_path / "f.parquet", SUMS * 5))


def test_an_absent_file_is_refused(tmp_path):
    task = Gsm8k(str(tmp_path / "no" / "such.jsonl"))
    line = f"gsm8k: cannot read '{task.data}': No such file or directory"
    assert refusal_of(task.problems, "test") == line
    assert refusal_of(lambda: task.revision) == line


def test_an_id_that_is_there_twice_is_refused_with_both_places(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", map(of_math500, [1, 2, 1]))
    line = refusal_of(Math500(data).problems, "test")
    assert line.endswith("line 3: problem 'test/algebra/1.json' is there already (line 1)")
