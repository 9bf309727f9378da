"""Pools from evalplus: samples by line and by folder."""

from __future__ import annotations

import pytest
from support.pool_files import LAYOUTS, notes_on, pool_refusal, responses_in
from support.refusals import wrongly_refused

from harness.pools.given import pool_digest
from harness.pools.reading import read_pool

SAMPLES = [
    {"task_id": "Mbpp/2", "solution": "def f(): return 1"},
    {"task_id": "HumanEval/0", "completion": "    return 2\n"},
    {"task_id": "Mbpp/2", "solution": "def f(): return 'ü'", "_identifier": "Mbpp/2 (line 3)"},
    {"task_id": "HumanEval/0", "completion": "    return 3\n", "solution": "def g():\n    return 3\n"},
    {"task_id": "Mbpp/2", "solution": ""},
]


def test_samples_are_grouped_by_task_in_the_order_of_first_appearance_a_solution_before_a_completion(written):
    path = written(SAMPLES)
    read = responses_in(path)
    assert list(read) == ["Mbpp/2", "HumanEval/0"]
    assert read["Mbpp/2"] == ["def f(): return 1", "def f(): return 'ü'", ""]
    assert read["HumanEval/0"] == ["    return 2\n", "def g():\n    return 3\n"]  # as it stands
    assert notes_on(path) == ["pool: read as evalplus samples"]


def test_what_evalplus_itself_writes_is_read(tmp_path):
    data = pytest.importorskip("evalplus.data")
    for name in ("samples.jsonl", "samples.jsonl.gz"):
        data.write_jsonl(str(tmp_path / name), SAMPLES)
        assert [len(texts) for texts in responses_in(tmp_path / name).values()] == [3, 2]


def test_a_folder_of_programs_is_read_in_the_order_of_their_numbers(written, tmp_path):
    for task, number in (("HumanEval_10", 0), ("HumanEval_2", 10), ("HumanEval_2", 2), ("HumanEval_2", 0)):
        written(f"# {number} é", f"samples/{task}/{number}.py")
    written("[]", "samples/HumanEval_2/notes.json")
    folder = tmp_path / "samples"
    read = responses_in(folder)
    assert read == {"HumanEval/2": ["# 0 é", "# 2 é", "# 10 é"], "HumanEval/10": ["# 0 é"]}
    assert list(read) == ["HumanEval/2", "HumanEval/10"]
    assert notes_on(folder) == ["pool: read as folders of evalplus samples"]
    before = pool_digest(folder)
    written("{}", "samples/HumanEval_2/notes.json")
    assert pool_digest(folder) == before
    written("# changed", "samples/HumanEval_2/10.py")
    assert pool_digest(folder) != before
    written(b"\xff\xfe", "samples/HumanEval_2/0.py")
    assert "0.py: not UTF-8 text" in pool_refusal(folder)


def test_a_sample_without_texts_is_refused_with_its_line(written):
    faults = [
        ([{"task_id": 2, "solution": "x"}], "line 1: task_id must be a text, got 2"),
        ([SAMPLES[0], {"task_id": "a", "solution": ["x"]}], "line 2: solution must be a text, got ['x']"),
    ]
    assert not wrongly_refused(faults, lambda lines: list(read_pool(written(lines), layouts=LAYOUTS)))
