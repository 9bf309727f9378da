"""Pools from evalplus, samples by line and by folder; from CodeT, one line a problem; from verl, dumps of samples."""

import json

import pytest
from corpora.tool_lines import VERL
from support.pool_files import LAYOUTS, notes_on, pool_refusal, responses_in
from support.refusals import wrongly_refused

from harness.pools.reading import Layouts, pool_digest, read_pool

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


def test_a_line_that_fits_two_layouts_is_read_as_the_one_that_was_registered_first(written):
    path = written(
        [{"task_id": "HumanEval/0", "solution": "def f(): return 1", "prompt": "def f():", "samples": ["x"]}]
    )
    assert notes_on(path) == ["pool: read as evalplus samples"]


def test_another_graders_verdicts_are_named_and_not_taken(written):
    sample = {"task_id": "HumanEval/0", "completion": "    return 2\n"}
    rows = {
        "passed": {**sample, "result": "passed", "passed": True},
        "base_status, plus_status": {**sample, "base_status": "pass", "plus_status": "fail"},
    }
    for named, row in rows.items():
        path = written([row, sample])
        assert notes_on(path) == [f"pool: read as evalplus samples; not taken as verdicts: {named}"]
        assert [record.correct for record in read_pool(path)] == [None]
    dump = verl_line(0, "a", acc=True)
    rewards = "pool: read as verl samples; its scores are rewards: taken as scores, not as verdicts"
    assert notes_on(written([dump])) == [f"{rewards}; not taken as verdicts: acc"]
    assert notes_on(written([{key: value for key, value in dump.items() if key != "acc"}])) == [rewards]


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
    before = pool_digest(folder, Layouts())
    written("{}", "samples/HumanEval_2/notes.json")
    assert pool_digest(folder, Layouts()) == before
    written(b"\xff\xfe", "samples/HumanEval_2/0.py")
    assert "0.py: not UTF-8 text" in pool_refusal(folder)


def test_lines_of_codet_are_called_by_their_numbers(written):
    lines = [{"prompt": "def f():", "samples": ["1", "2"]}, {"prompt": "def g():", "samples": ["3"]}]
    path = written("\n\n".join(map(json.dumps, lines)) + "\n")
    assert [(record.problem_id, record.prompt, record.responses) for record in read_pool(path)] == [
        ("line-1", "def f():", ["1", "2"]),
        ("line-3", "def g():", ["3"]),
    ]
    assert notes_on(path) == ["pool: read as CodeT samples"]


def verl_line(colour, output, step=40, **fields):
    prompt = VERL["input"].replace("colour 0", f"colour {colour}")
    return VERL | {"input": prompt, "output": output, "step": step} | fields


def test_a_dump_of_verl_is_grouped_by_input_and_its_scores_are_no_verdicts(written):
    path = written([verl_line(0, "say red"), verl_line(1, "a"), verl_line(0, "say blue", score=0.0), verl_line(0, "")])
    assert responses_in(path) == {"line-1": ["say red", "say blue", ""], "line-2": ["a"]}
    record = next(read_pool(path))
    assert (record.prompt, record.correct, record.reference) == (verl_line(0, "")["input"], None, "red")
    assert record.scores == {"score": [1.0, 0.0, 1.0]}
    [record] = read_pool(written([verl_line(0, "a"), verl_line(0, "b", score={"acc": 1}), verl_line(0, "c", score=2)]))
    assert record.scores == {"score": [1.0, None, 2]}
    assert notes_on(path)[0].startswith("pool: read as verl samples; its scores are rewards: taken as scores, not as ")


def test_two_steps_of_a_run_of_verl_are_two_models_and_no_pool(written, tmp_path):
    written([verl_line(0, "a", 0)], "val/0.jsonl")
    written([verl_line(0, "b", 40)], "val/40.jsonl")
    assert "line 1: step 40 after step 0: other weights, another pool" in pool_refusal(tmp_path / "val")


def test_a_sample_without_texts_is_refused_with_its_line(written):
    faults = [
        ([{"task_id": 2, "solution": "x"}], "line 1: task_id must be a text, got 2"),
        ([SAMPLES[0], {"task_id": "a", "solution": ["x"]}], "line 2: solution must be a text, got ['x']"),
        ([{"prompt": None, "samples": ["x"]}], "line 1: prompt must be a text"),
        ([{"prompt": "a", "samples": "x"}], "line 1: samples must be a list of texts"),
        ([{"prompt": "a", "samples": []}], "line 1: no samples"),
        ([verl_line(0, None)], "line 1: output must be a text, got None"),
        ([verl_line(0, "a", input=[1])], "line 1: input must be a text"),
    ]
    assert not wrongly_refused(faults, lambda lines: list(read_pool(written(lines), layouts=LAYOUTS)))
