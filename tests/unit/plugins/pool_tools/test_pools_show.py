"""`harness pool show`: responses with their verdicts and answers."""

import pytest
from support.json_lines import write_json_lines
from support.refusals import error_line

from harness.columns.stored import pool_keys

LONG = "\n".join(f"line {number}" for number in range(9)) + "\nThe answer is 5."


@pytest.fixture
def graded(harness, tmp_path):
    """`harness pool show KEY` on a pool that a run graded, and what the run said."""
    task = write_json_lines(tmp_path / "q.jsonl", [{"id": "sum", "prompt": "2 + 2?\nSay.", "reference": "4"}])
    pool = write_json_lines(tmp_path / "r.jsonl", [{"problem_id": "sum", "responses": ["4", LONG, "four or so"]}])
    store = ("--store", tmp_path / "runs")
    spec = f"own:file={task},grader=number"
    ran = harness("run", "--task", spec, "--pool", pool, "--selector", "uniform", *store)
    [key] = pool_keys(tmp_path / "runs")
    return lambda *options: harness("pool", "show", key[:6], *store, *options), ran, key


def test_each_response_has_verdict_reason_answer_and_its_ends(graded):
    show, ran, key = graded
    assert f"next: `harness pool show {key[:8]} --store " in ran.err
    assert show().out == (
        "sum: 2 + 2?\n  0 correct, answer: 4\n      4\n  1 wrong, answer: 5\n      line 0\n      line 1\n      ...\n"
        "      line 8\n      The answer is 5.\n  2 wrong (no number)\n      four or so\n"
    )
    assert "line 5" in show("--full").out
    assert "2 more: --listed N" in show("--listed", 1).out


def test_verdicts_and_a_problem_are_chosen(graded):
    show, _, key = graded
    chosen = [show("--json", option).rows["problems"] for option in ("--wrong", "--correct", "--errors")]
    assert [[each["index"] for problem in problems for each in problem["responses"]] for problems in chosen] == [
        *([1, 2], [0], [])
    ]
    whole = show("--problem", "sum", "--json").rows
    assert (whole["pool"], whole["graded"]) == (key, True)
    first = {"index": 0, "verdict": "correct", "reason": "", "route": "", "answer": "4", "text": "4"}
    assert whole["problems"][0]["responses"][0] == first
    assert show("--errors").out == "no such response\n"
    assert "has no problem 'summ' (did you mean 'sum'" in error_line(show("--problem", "summ"))


def test_a_file_and_verdicts_of_a_pool_without_any_are_refused(harness, written, tmp_path):
    store = ("--store", tmp_path / "runs")
    pool = written([{"problem_id": "a", "prompt": "?", "responses": ["x"]}])
    assert "is a file: give its key" in error_line(harness("pool", "show", pool, *store))
    key = harness("pool", "import", pool, *store, "--json").rows["pool"]
    assert "has no verdicts" in error_line(harness("pool", "show", key, "--wrong", *store))
    assert harness("pool", "show", key, *store).out == "a: ?\n  0 not graded\n      x\n"
