"""`harness pool import|inspect|export|audit`: pools in and out of the store, and what they hold."""

import pytest
from support.json_lines import read_json_lines, write_json_lines
from support.paths import TOY
from support.refusals import error_line

from harness.columns.stored import pool_keys


@pytest.fixture
def store(tmp_path):
    return ("--store", tmp_path / "runs")


def test_a_sampled_pool_is_exported_inspected_and_imported_as_the_same_pool(harness, toy, tmp_path, store):
    toy("--selector", "shuffle")
    [key] = pool_keys(tmp_path / "runs")
    out = tmp_path / "out.jsonl"
    assert harness("pool", "export", key[:8], "--out", out, *store).out == f"{out}: 6 problems, with verdicts\n"
    line = read_json_lines(out)[0]
    kind = "sum, temperature 1, unfiltered"
    assert (line["problem_id"], line["prompt"], line["logprob_kind"]) == ("test/0", "Say colour 0 (test).", kind)
    assert len(line["responses"]) == len(line["correct"]) == len(line["logprobs"]) == 16
    assert "finish" not in line
    stored = harness("pool", "inspect", key, "--json", *store).rows
    exported = harness("pool", "inspect", out, "--json").rows
    fixed = ("--task", "colours", "--plugin", TOY, *store, "--json")
    imported = harness("pool", "import", out, *fixed).rows
    for field in ("problems", "responses", "n", "distinct", "graded", "solvable", "pass_at_1"):
        assert stored[field] == exported[field] == imported[field], field


def test_a_summary_counts_responses_verdicts_and_what_was_cut(harness, written, store):
    lines = [
        {"problem_id": "a", "responses": ["x", "x", "yy"], "correct": [0, 1, 1], "finish": ["stop", "length", "stop"]},
        {"problem_id": "b", "responses": ["zzzz"], "correct": [0]},
    ]
    path = written(lines)
    summary = harness("pool", "inspect", path, "--json").rows
    assert summary == {
        **{"pool": str(path), "problems": 2, "responses": 4, "n": [1, 3], "distinct": 0.75, "mean_length": 2.0},
        **{"cut_at_max_tokens": 0.25, "graded": 4, "solvable": 1, "pass_at_1": 0.5},
    }
    shown = harness("pool", "inspect", written([{"problem_id": "a", "responses": ["x"]}], "one.jsonl")).out
    words = shown.split()
    assert [words[words.index(word) + 1] for word in ("file", "solvable", "(share)")] == ["0", "-", "1"]
    assert "`harness pool show KEY`" in shown
    key = harness("pool", "import", path, *store, "--json").rows["pool"]
    out = path.with_name("out.jsonl")
    assert harness("pool", "export", key, "--out", out, *store).code == 0
    assert [line.get("finish") for line in read_json_lines(out)] == [["stop", "length", "stop"], None]


def test_scores_come_into_the_store_and_out_again_and_make_another_pool(harness, written, store, tmp_path):
    lines = [{"problem_id": "a", "responses": ["x", "y"]}, {"problem_id": "b", "responses": ["z", "z"]}]
    plain = harness("pool", "import", written(lines), *store, "--json").rows["pool"]
    lines[0]["scores"], lines[1]["scores"] = {"rm": [0.1, -3e300], "judge": [1, None]}, {"rm": [None, 2]}
    imported = harness("pool", "import", written(lines), *store, "--json").rows
    assert imported["pool"] != plain
    assert imported["scores"] == ["rm", "judge"]
    out = tmp_path / "out.jsonl"
    assert harness("pool", "export", imported["pool"], "--out", out, *store).code == 0
    assert [line["scores"] for line in read_json_lines(out)] == [line["scores"] for line in lines]
    assert "scores rm, judge" in " ".join(harness("pool", "inspect", out).out.split())


def test_an_unknown_key_and_a_pool_file_without_a_task_to_grade_it_are_refused(harness, written, store):
    assert "no such file, and no such key" in error_line(harness("pool", "inspect", "beef", *store))
    pool = written([{"problem_id": "a", "responses": ["x"]}])
    assert error_line(harness("pool", "audit", pool, *store)).endswith("say which --task grades it")
    imported = harness("pool", "import", pool, *store, "--json").rows["pool"]
    assert "no --task says how to grade it" in error_line(harness("pool", "audit", imported, *store))
    fixed = ("--task", "colours", "--plugin", TOY, *store)
    assert "none of its problems is task 'colours''s" in error_line(harness("pool", "audit", imported, *fixed))


def test_an_audit_takes_a_file_of_one_split_and_refuses_that_of_another(harness, written, store, monkeypatch):
    monkeypatch.setattr("harness_tasks.data.sources.hub_is_out_of_reach", lambda: True)
    rows = [{"question": f"q{row}", "answer": f"#### {row}"} for row in range(1319)]
    pool = written([{"problem_id": "test-3", "responses": ["The answer is 3.", "The answer is 4."]}])
    fixed = ("--task", "gsm8k", "--data", written(rows, "test.jsonl"), *store, "--json")
    key = harness("pool", "import", pool, *fixed).rows["pool"]
    audit = harness("pool", "audit", key, *fixed)
    assert audit.code == 0, audit.err
    train = written(rows * 5 + rows[:878], "train.jsonl")
    line = error_line(harness("pool", "audit", key, "--task", "gsm8k", "--data", train, *store))
    assert "--data has 7,473 rows, as split 'train' has, not 'test'" in line


# An audit


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
    assert "slow: 1" in audit(pool).out


def test_a_pool_of_the_store_is_audited_by_its_key(toy, audit, tmp_path):
    row = toy("--task", "keyed", "--selector", "shuffle", "--audit").rows[0]
    [pool] = pool_keys(tmp_path / "runs")
    audited = audit(pool[:6], "--json").rows
    assert (audited["disputed"], audited["problems"]) == (row["disputed"], 6)
