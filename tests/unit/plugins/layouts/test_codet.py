"""Pools from CodeT: one line a problem, without an id."""

from __future__ import annotations

import json

from support.pool_files import LAYOUTS, notes_on
from support.refusals import wrongly_refused

from harness.pools.reading import read_pool

LINES = [{"prompt": "def f():", "samples": ["1", "2"]}, {"prompt": "def g():", "samples": ["3"]}]


def test_lines_are_called_by_their_numbers(written):
    path = written(json.dumps(LINES[0]) + "\n\n" + json.dumps(LINES[1]) + "\n")
    records = read_pool(path)
    assert [(record.problem_id, record.prompt, record.responses) for record in records] == [
        ("line-1", "def f():", ["1", "2"]),
        ("line-3", "def g():", ["3"]),
    ]
    assert notes_on(path) == ["pool: read as CodeT samples"]


def test_a_line_without_a_prompt_or_samples_is_refused(written):
    faults = [
        ({"prompt": None, "samples": ["x"]}, "line 1: prompt must be a text"),
        ({"prompt": "a", "samples": "x"}, "line 1: samples must be a list of texts"),
        ({"prompt": "a", "samples": []}, "line 1: no samples"),
    ]
    assert not wrongly_refused(faults, lambda line: list(read_pool(written([line]), layouts=LAYOUTS)))
