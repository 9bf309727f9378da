"""The paper's text tasks end to end: responses to real problems, made elsewhere, are graded and ranked."""

import pytest
from support.json_lines import read_json_lines, write_json_lines


@pytest.mark.parametrize("task", ["gsm8k", "aime25"])  # the problems of the second are asked with an instruction
def test_responses_made_elsewhere_are_graded_and_ranked(harness, shared_data, tmp_path, task):
    data = shared_data / "tasks" / {"gsm8k": "gsm8k_test.jsonl", "aime25": "aime25_qwq.jsonl"}[task]
    lines = []
    for row in read_json_lines(data)[:3]:
        right = row["answer"] if task == "gsm8k" else f"So \\boxed{{{row['answer']}}}."
        prompt = row.get("problem") or row.get("question") or row["prompt"]
        responses = ["\\boxed{12345.678}", "No idea.", right]
        lines.append({"problem_id": f"mine-{len(lines)}", "prompt": prompt, "responses": responses})
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    options = ("--data", data, "--selector", "uniform", "--store", tmp_path / "runs", "--pool", pool, "--audit")
    outcome = harness("run", "--task", task, *options, "--json")
    assert outcome.code == 0, outcome.err
    [row] = outcome.rows
    assert (row["problems"], row["solvable"], row["errors"], row["disputed"]) == (3, 3, 0, 0)
    assert row["samples_to_correct_random"] == 2
