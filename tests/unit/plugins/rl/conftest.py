"""A small training on data of one of the paper's tasks."""

import pytest
from support.json_lines import write_json_lines


@pytest.fixture
def sums(tmp_path, monkeypatch):
    """The options of a training on data of GSM8K's form."""
    monkeypatch.setattr("harness_tasks.gsm8k.DEV", 4)
    rows = [{"question": f"How many is {i}?", "answer": f"It is {i}. #### {i}"} for i in range(8)]
    return {"task": "gsm8k", "data": {"": str(write_json_lines(tmp_path / "sums.jsonl", rows))}}
