"""The paper's text tasks end to end: real problems, a real (tiny, random) checkpoint, pools made elsewhere."""

from __future__ import annotations

import gzip
import json

import pytest
from support.json_lines import write_json_lines
from support.refusals import error_line

FILES = {
    "mbppplus": "MbppPlus-v0.2.0.jsonl.gz",
    "math500": "math500.jsonl",
    "gsm8k": "gsm8k_test.jsonl",
    "aime24": "aime24_qwq.jsonl",
    "aime25": "aime25_qwq.jsonl",
}


@pytest.fixture
def rows_of(shared_data):
    """The rows of a task's file."""

    def call(task):
        content = (shared_data / "tasks" / FILES[task]).read_bytes()
        return list(map(json.loads, (gzip.decompress(content) if FILES[task].endswith("gz") else content).splitlines()))

    return call


@pytest.fixture
def run(harness, shared_data, tmp_path):
    """Run a task on its real file: `run("gsm8k", "--limit", 2, ...)`."""

    def call(task, *args):
        data = ("--data", shared_data / "tasks" / FILES[task])
        fixed = ("--selector", "repexp", "--selector", "uniform", "--store", tmp_path / "runs", "--json")
        outcome = harness("run", "--task", task, *data, *fixed, *args)
        assert outcome.code == 0, outcome.err
        return outcome

    return call


def prompt_of(row):
    return row.get("problem") or row.get("question") or row["prompt"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A chat model and a base model, each with room for the longest prompts."""
    from support.tiny_checkpoints import TEMPLATE, save_checkpoint

    folders = {}
    for kind, template in (("chat", TEMPLATE), ("base", None)):
        folders[kind] = save_checkpoint(tmp_path_factory.mktemp(kind), "qwen2", template)
        config = folders[kind] / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 16384}))
    return folders


@pytest.mark.slow
@pytest.mark.parametrize(("task", "kind"), [("mbppplus", "chat"), ("math500", "chat"), ("gsm8k", "base")])
def test_a_task_runs_on_any_causal_lm_folder(run, models, task, kind):
    options = ("--model", models[kind], "--limit", "2", "--n", "4", "--max-tokens", "12")
    outcome = run(task, *options)
    for row in outcome.rows:
        assert (row["task"], row["problems"], row["n"], row["errors"], row["solvable"]) == (task, 2, 4, 0, 0)
    assert ("sandbox" in outcome.rows[0]["conditions"]) == ("sandbox: " in outcome.err) == (task == "mbppplus")
    again = run(task, *options)
    assert again.rows == outcome.rows
    assert "verdicts: reused for 2 of 2" in again.err


@pytest.mark.slow
def test_an_evalplus_samples_file_is_graded_and_ranked(run, rows_of, tmp_path):
    lines = []
    for problem in rows_of("mbppplus")[:3]:
        wrong = f"def {problem['entry_point']}(*args):\n    return 'no such thing'\n"
        programs = (wrong, wrong, problem["canonical_solution"], "def (")
        lines += [{"task_id": problem["task_id"], "solution": program} for program in programs]
    row = run("mbppplus", "--pool", write_json_lines(tmp_path / "samples.jsonl", lines)).rows[0]
    assert (row["problems"], row["n"], row["solvable"], row["errors"]) == (3, 4, 3, 0)
    assert row["samples_to_correct_random"] == 2.5
    assert row["pass_at_k"]["4"] == 1


@pytest.mark.parametrize("task", ["gsm8k", "aime25"])  # the problems of the second are asked with an instruction
def test_responses_made_elsewhere_are_graded_and_ranked(run, rows_of, tmp_path, task):
    rows = rows_of(task)[:5]
    right = [row["answer"] if task == "gsm8k" else f"So \\boxed{{{row['answer']}}}." for row in rows]
    lines = [
        {"problem_id": f"mine-{i}", "prompt": prompt_of(row), "responses": ["\\boxed{12345.678}", "No idea.", right[i]]}
        for i, row in enumerate(rows)
    ]
    row = run(task, "--pool", write_json_lines(tmp_path / "pool.jsonl", lines), "--audit").rows[0]
    assert (row["problems"], row["solvable"], row["errors"], row["disputed"]) == (5, 5, 0, 0)
    assert row["samples_to_correct_random"] == 2


def test_without_the_hub_the_command_names_the_data_and_the_option(harness, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    options = ("--task", "gsm8k", "--selector", "uniform", "--model", "tiny24", "--store", tmp_path / "runs")
    line = error_line(harness("run", *options))
    assert "openai/gsm8k" in line
    assert "--data FILE" in line


def test_the_exact_first_prompt_is_shown(harness, shared_data, rows_of):
    for task in FILES:
        data = shared_data / "tasks" / FILES[task]
        shown = harness("show", "task", task, "--example", "--data", data, "--json").rows
        assert shown["prompt"].strip() in prompt_of(rows_of(task)[0])
        assert shown["prompt"].strip() in shown["messages"][0]["content"]
        assert shown["plain"]
