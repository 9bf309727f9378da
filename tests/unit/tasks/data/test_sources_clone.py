"""A local clone of a dataset: its splits, its revision, its copies, and the line that refuses another folder."""

import os

from support.refusals import refusal_of
from support.task_files import DEBT, SUM, SUMS, clone_of_gsm8k, ids, parquet, references, write_card

from harness_tasks.gsm8k import Gsm8k


def test_a_clone_is_read_by_the_splits_of_its_card(tmp_path):
    task = Gsm8k(str(clone_of_gsm8k(tmp_path)))
    assert ids(task.problems("test")) == ["test-0", "test-1", "test-2"]
    assert references(task.problems("test")) == ["5", "15000", "-3"]
    assert ids(task.problems("train"))[-1] == "train-2"
    assert references(task.problems("train")) == ["-3", "15000", "5"]


def test_a_clone_whose_file_changed_is_read_anew_under_another_revision(tmp_path):
    task = Gsm8k(str(clone_of_gsm8k(tmp_path)))
    before = task.revision, task.problems("test")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache/lock").write_text("x")
    assert task.revision == before[0]
    file = tmp_path / "main/test-00000-of-00001.parquet"
    stat = file.stat()
    parquet(file, [DEBT, DEBT])
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as an unpacked archive's
    assert task.revision != before[0]
    assert references(task.problems("test")) == ["-3", "-3"]
    file.rename(file.with_name("test-1.parquet"))
    assert task.revision not in (before[0], Gsm8k(str(clone_of_gsm8k(tmp_path, [DEBT, DEBT]))).revision)


def test_a_folder_that_is_no_clone_or_lacks_the_split_is_refused(tmp_path):
    task = Gsm8k(str(tmp_path))
    (tmp_path / "README.md").write_text("nothing\n")
    assert f"gsm8k: folder '{tmp_path}' is no clone of openai/gsm8k: " in refusal_of(task.problems, "test")
    parquet(tmp_path / "test.parquet", SUMS)
    assert "BuilderConfig 'main' not found" in refusal_of(task.problems, "test")
    parquet(tmp_path / "main/test-0.parquet", SUMS)
    write_card(tmp_path, {"main": {"test": "main/test-*"}})
    assert 'Unknown split "train"' in refusal_of(task.problems, "train")


def test_a_fault_in_a_clone_names_its_row(tmp_path):
    clone_of_gsm8k(tmp_path, [SUM, SUM | {"answer": "?"}, SUM])
    line = refusal_of(Gsm8k(str(tmp_path)).problems, "test")
    assert f"gsm8k: '{tmp_path}' main/test, row 1: column 'answer'" in line
