"""`harness pool audit`: a file or a stored pool graded twice, and every response that needs a look."""

from __future__ import annotations

import pytest
from support.json_lines import write_json_lines
from support.paths import TOY


@pytest.fixture
def audit(harness, tmp_path):
    """Audit a pool by the keyed toy task."""
    fixed = ("--task", "keyed", "--plugin", TOY, "--store", tmp_path / "runs")
    return lambda pool, *more: harness("pool", "audit", pool, *fixed, *more)


def test_every_disagreement_timeout_and_error_is_counted_and_listed(audit, tmp_path):
    lines = [
        {"problem_id": "test/0", "responses": ["say red", "say white", "say blue"]},
        {"problem_id": "test/1", "responses": ["say green", "say red", "say grey"]},
    ]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    audited = audit(pool, "--json").rows
    assert [audited[name] for name in ("responses", "audited", "disputed", "timeout", "errors")] == [6, 6, 1, 1, 1]
    assert (audited["correct_here_only"], audited["correct_there_only"]) == (1, 0)
    assert audited["routes"] == {"by word": 4, "slow": 1, "-": 1}
    listed = [(entry["problem_id"], entry["index"], entry["why"]) for entry in audited["listed"]]
    assert listed == [("test/0", 1, "timeout"), ("test/1", 0, "disputed"), ("test/1", 2, "error")]
    assert audited["listed"][1]["second_reason"] == "must be red"
    shown = audit(pool).out
    assert "timeout" in shown
    assert "slow: 1" in shown


def test_a_pool_of_the_store_is_audited_by_its_key(toy, audit, tmp_path):
    row = toy("--task", "keyed", "--selector", "shuffle", "--audit").rows[0]
    [pool] = (tmp_path / "runs" / "pool").iterdir()
    audited = audit(pool.name[:6], "--json").rows
    assert (audited["disputed"], audited["problems"]) == (row["disputed"], 6)


def test_a_stored_pool_is_audited_with_the_data_that_it_was_made_with(harness, tmp_path):
    data = tmp_path / "three.csv"
    data.write_text("Puzzles\n4 4 8 8\n")
    lines = [{"problem_id": "4-4-8-8", "responses": ["Answer: 4 + 4 + 8 + 8"]}]
    options = ("--task", "game24", "--data", data, "--store", tmp_path / "runs")
    assert harness("pool", "import", write_json_lines(tmp_path / "pool.jsonl", lines), *options).code == 0
    [pool] = (tmp_path / "runs" / "pool").iterdir()
    audited = harness("pool", "audit", pool.name, *options, "--json").rows
    assert (audited["correct"], audited["audited"]) == (1, 0)
