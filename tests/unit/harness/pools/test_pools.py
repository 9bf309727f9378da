"""Pools made elsewhere: they run without a model and report like sampled ones; every fault is one line."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from support.paths import TOY

LINES = [{"problem_id": f"test/{i}", "responses": ["say red", "say blue", "say green", "say red"]} for i in range(3)]


@pytest.fixture
def pool_file(tmp_path):
    """Write a pool file: a list of lines, or its text."""

    def call(lines, name="pool.jsonl"):
        path = tmp_path / name
        text = lines if isinstance(lines, str) else "".join(json.dumps(line) + "\n" for line in lines)
        path.write_bytes(
            gzip.compress(text.encode()) if name.endswith(".gz") else text.encode("utf-8", "surrogatepass")
        )
        return path

    return call


@pytest.fixture
def run_pool(harness, tmp_path):
    def call(path, *args):
        fixed = ("--task", "colours", "--plugin", TOY, "--store", tmp_path / "runs", "--json", "--pool", path)
        return harness("run", *fixed, *(args or ("--selector", "shuffle")))

    return call


def test_a_pool_runs_without_a_model_and_reports_like_a_sampled_one(run_pool, pool_file):
    outcome = run_pool(pool_file(LINES), "--selector", "spread", "--selector", "shuffle")
    assert outcome.code == 0, outcome.err
    assert "embedder: tfidf, since the pool has neither --embeddings nor --model" in outcome.err
    first, second = outcome.rows
    assert (first["model"], first["embedder"], first["n"], first["problems"]) == ("pool", "tfidf", 4, 3)
    assert first["solvable"] == 3  # red, green and blue are each said
    assert second["samples_to_correct_random"] == pytest.approx((5 / 3 + 5 / 2 + 5 / 2) / 3)


def test_a_pool_is_imported_once(run_pool, pool_file):
    path = pool_file(LINES)
    run_pool(path)
    assert "verdicts: reused for 3 of 3 problems" in run_pool(path, "--selector", "spread").err


def test_a_gzipped_pool_is_read(run_pool, pool_file):
    assert run_pool(pool_file(LINES, "pool.jsonl.gz")).rows[0]["problems"] == 3


def test_lines_join_by_prompt_where_ids_differ_and_what_does_not_join_is_said(run_pool, pool_file):
    lines = [
        {"problem_id": "a", "prompt": "Say  colour 1\n(test).", "responses": ["green"]},
        {"problem_id": "b", "prompt": "Say colour 99 (test).", "responses": ["green"]},
    ]
    outcome = run_pool(pool_file(lines))
    assert outcome.rows[0]["problems"] == 1
    assert outcome.rows[0]["solvable"] == 1
    assert "1 of 2 problems join to none of the task's: 'b'" in outcome.err


def test_a_pool_joins_anew_for_another_split(run_pool, pool_file):
    path = pool_file([LINES[0], {"problem_id": "broken/1", "responses": ["green", "red", "red", "red"]}])
    assert run_pool(path).rows[0]["problems"] == 1
    row = run_pool(path, "--selector", "shuffle", "--split", "broken").rows[0]
    assert (row["problems"], row["solvable"]) == (1, 1)
    assert "'broken/1'" in run_pool(path).err  # said on every run, not on the first alone


def test_the_pools_own_verdicts_are_taken_unless_regraded(run_pool, pool_file):
    path = pool_file([LINES[0] | {"correct": [False, True, True, False]}])
    assert run_pool(path).rows[0]["samples_to_correct_random"] == pytest.approx(5 / 3)
    outcome = run_pool(path, "--selector", "shuffle", "--regrade", "--n", "2")
    assert outcome.rows[0]["samples_to_correct_random"] == pytest.approx(3 / 2)


def test_the_pools_own_verdicts_stay_with_their_lines_however_these_joined(run_pool, pool_file, tmp_path):
    lines = [
        {"problem_id": "a", "prompt": "Say colour 1 (test).", "responses": ["x", "y"], "correct": [False, True]},
        {"problem_id": "b", "prompt": "Say colour 0 (test).", "responses": ["x", "y"], "correct": [True, True]},
        {"problem_id": "test/4", "responses": ["x", "y"], "correct": [False, False]},
    ]
    path, table = pool_file(lines), tmp_path / "table.csv"
    table.write_text("task_id,pool_id\ntest/3,a\n")
    joined = run_pool(path)
    assert "pool: joined 1 by id, 2 by prompt" in joined.err
    assert joined.rows[0]["samples_to_correct_random"] == pytest.approx((3 / 2 + 1 + 3) / 3)
    mapped = run_pool(path, "--selector", "shuffle", "--ids", table)
    assert "pool: joined 1 by the table of --ids, 1 by id, 1 by prompt" in mapped.err
    assert mapped.rows[0]["samples_to_correct_random"] == pytest.approx((3 / 2 + 1 + 3) / 3)


def test_problems_with_differently_many_responses_are_kept_together(harness, pool_file, tmp_path):
    path = pool_file([{"problem_id": "test/0", "responses": ["a"]}, {"problem_id": "test/1", "responses": ["a", "b"]}])
    fixed = ("--task", "colours", "--plugin", TOY, "--store", tmp_path / "runs", "--json")
    assert harness("pool", "import", path, *fixed).rows["n"] == [1, 2]


def test_a_folder_of_jsonl_files_is_one_pool(run_pool, pool_file, tmp_path):
    (tmp_path / "parts").mkdir()
    for number, line in enumerate(LINES):
        pool_file([line], f"parts/{number}.jsonl" + ".gz" * (number == 1))
    outcome = run_pool(tmp_path / "parts")
    assert outcome.code == 0, outcome.err
    assert (outcome.rows[0]["problems"], outcome.rows[0]["solvable"]) == (3, 3)


def test_a_pool_with_verdicts_needs_no_task(harness, pool_file, tmp_path):
    path = pool_file([{"problem_id": "x", "responses": ["a", "b"], "correct": [False, True]}])
    args = ("run", "--pool", path, "--selector", "uniform", "--store", tmp_path / "runs", "--json")
    assert harness(*args).rows[0]["samples_to_correct_random"] == pytest.approx(1.5)
    bare = pool_file([{"problem_id": "x", "responses": ["a"]}], "bare.jsonl")
    outcome = harness("run", "--pool", bare, "--selector", "uniform", "--store", tmp_path / "runs")
    assert outcome.code == 2
    assert "say which --task grades" in outcome.err


def test_log_probabilities_reach_a_selector_that_needs_them_and_their_absence_is_said(run_pool, pool_file):
    rated = [LINES[0] | {"logprobs": [-3, -2, -1, -4]}]
    assert run_pool(pool_file(rated), "--selector", "likely").rows[0]["samples_to_correct"] == 3
    outcome = run_pool(pool_file(LINES, "bare.jsonl"), "--selector", "likely", "--selector", "shuffle")
    assert outcome.code == 1
    assert "selector 'likely' needs log-probabilities" in outcome.err


def test_an_unsolvable_problem_counts_n_plus_one(run_pool, pool_file):
    path = pool_file([{"problem_id": "test/0", "responses": ["blue", "blue", "green", "pink"]}])
    row = run_pool(path).rows[0]
    assert (row["solvable"], row["samples_to_correct"], row["samples_to_correct_random"]) == (0, 5, 5)
    assert row["pass_at_k"] == {"1": 0, "2": 0, "4": 0}
    assert run_pool(path, "--selector", "head").rows[0]["pass_at_k"] == {"1": 0, "2": 0, "4": 0}


def test_n_takes_the_first_n_responses(run_pool, pool_file):
    row = run_pool(pool_file(LINES), "--selector", "shuffle", "--n", "2").rows[0]
    assert row["n"] == 2
    assert row["solvable"] == 2  # green stands third


def test_vectors_of_ones_own_are_used(run_pool, pool_file, tmp_path):
    from safetensors.numpy import save_file

    vectors = {line["problem_id"]: np.diag([1, 1, 9, 1]).astype(np.float32) for line in LINES}
    np.savez(tmp_path / "vectors.npz", **vectors)
    save_file(vectors, tmp_path / "vectors.safetensors")
    path = pool_file(LINES)
    rows = [
        run_pool(path, "--selector", "spread", "--embeddings", tmp_path / f"vectors.{kind}").rows[0]
        for kind in ("npz", "safetensors")
    ]
    assert rows[0]["samples_to_correct"] == rows[1]["samples_to_correct"]
    assert rows[0]["embedder"] == "vectors.npz"


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"test/0": np.zeros((4, 2))}, "'test/1' is not in the file"),
        ({f"test/{i}": np.zeros((5, 2)) for i in range(3)}, "has shape (5, 2), expected (4, d)"),
        ({f"test/{i}": np.zeros(4) for i in range(3)}, "has shape (4,), expected (4, d)"),
        ({f"test/{i}": np.full((4, 2), np.nan) for i in range(3)}, "must hold finite numbers"),
        ({f"test/{i}": np.array([[{}]] * 4) for i in range(3)}, "cannot be read"),
    ],
)
def test_wrong_vectors_are_one_clear_line(run_pool, pool_file, tmp_path, arrays, said):
    np.savez(tmp_path / "vectors.npz", **arrays)
    outcome = run_pool(pool_file(LINES), "--selector", "spread", "--embeddings", tmp_path / "vectors.npz")
    assert outcome.code == 2
    *_, line = outcome.err.strip().splitlines()
    assert line.startswith("error: ")
    assert said in line


GOOD = json.dumps(LINES[0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        (GOOD + "\n" + GOOD[:-20], "line 2: not JSON"),
        ("these are not the lines\n", "line 1: not JSON"),
        ("[1, 2]\n", "entry 1: expected"),
        ('{"problem_id": "x"}\n', "line 1: expected"),
        ('{"problem_id": 3, "responses": ["a"]}\n', "problem_id must be a text"),
        (GOOD + "\n" + GOOD + "\n", "line 2: problem_id 'test/0' stands on line 1 already"),
        ('{"problem_id": "test/0", "responses": []}\n', "no responses"),
        ('{"problem_id": "test/0", "responses": "a"}\n', "responses must be a list of texts"),
        ('{"problem_id": "test/0", "responses": ["a", 1]}\n', "responses must be a list of texts"),
        ('{"problem_id": "test/0", "responses": ["a"], "correct": [true, false]}\n', "correct must be a list as long"),
        ('{"problem_id": "test/0", "responses": ["a"], "correct": ["yes"]}\n', "must hold true and false only"),
        ('{"problem_id": "test/0", "responses": ["a"], "logprobs": [-1, -2]}\n', "logprobs must be a list as long"),
        ('{"problem_id": "test/0", "responses": ["a"], "logprobs": [NaN]}\n', "logprobs must hold numbers only"),
        ('{"problem_id": "elsewhere", "responses": ["a"]}\n', "none of its 1 problems is the task's"),
        (GOOD + '\n{"problem_id": "test/1", "responses": ["a"]}\n', "say --n 1 to take the first 1 of each"),
        ('{"a":' * 100_000, "line 1: not JSON"),
    ],
)
def test_a_wrong_pool_file_is_one_clear_line_and_exit_code_2(run_pool, pool_file, text, said):
    outcome = run_pool(pool_file(text))
    assert outcome.code == 2
    assert outcome.out == ""
    (line,) = outcome.err.strip().splitlines()
    assert said in line
    assert "pool.jsonl" in line


def test_bytes_that_are_no_text_and_a_truncated_gzip_are_one_clear_line(run_pool, tmp_path):
    binary = tmp_path / "pool.jsonl"
    binary.write_bytes(b'{"problem_id": "\xff\xfe"}')
    assert "not UTF-8 text" in run_pool(binary).err
    cut = tmp_path / "pool.jsonl.gz"
    cut.write_bytes(gzip.compress(GOOD.encode())[:-12])
    assert "not UTF-8 text" in run_pool(cut).err
    assert "no such file" in run_pool(tmp_path / "absent.jsonl").err


def test_n_larger_than_the_pool_is_one_clear_line(run_pool, pool_file):
    outcome = run_pool(pool_file(LINES), "--selector", "shuffle", "--n", "5")
    assert outcome.code == 2
    assert "--n 5 is more than pool" in outcome.err
    assert "has 4 responses" in outcome.err


@pytest.mark.parametrize(
    "text", ["", "\x00", "\ud800", "<script>alert(1)</script>", "[bold]x[/bold]", "‮x", "x" * 10**6]
)
def test_hostile_responses_pass_through_every_stage(run_pool, pool_file, text):
    outcome = run_pool(pool_file([{"problem_id": "test/0", "responses": [text, "say red"]}]))
    assert outcome.code == 0, outcome.err
    assert outcome.rows[0]["solvable"] == 1


def test_import_inspect_and_export_round_trip(harness, toy, pool_file, tmp_path):
    toy("--selector", "shuffle")
    (key,) = [path.name for path in (tmp_path / "runs" / "pool").iterdir()]
    out = tmp_path / "out.jsonl"
    store = ("--store", tmp_path / "runs")
    assert "6 problems, with verdicts" in harness("pool", "export", key[:8], "--out", out, *store).out
    sampled = harness("pool", "inspect", key, "--json", *store).rows
    exported = harness("pool", "inspect", out, "--json").rows
    for field in ("problems", "responses", "n", "distinct", "graded", "solvable", "pass_at_1"):
        assert sampled[field] == exported[field]
    imported = harness("pool", "import", out, "--task", "colours", "--plugin", TOY, "--json", *store)
    assert imported.rows["pass_at_1"] == sampled["pass_at_1"]
    again = harness(
        "run", "--task", "colours", "--plugin", TOY, "--pool", out, "--selector", "shuffle", "--json", *store
    )
    assert (
        again.rows[0]["samples_to_correct_random"] == toy("--selector", "shuffle").rows[0]["samples_to_correct_random"]
    )


def test_an_unknown_key_is_one_clear_line(harness, tmp_path):
    outcome = harness("pool", "inspect", "beef", "--store", tmp_path)
    assert outcome.code == 2
    assert "no such file, and no such key" in outcome.err


def test_the_gpt4_pool_of_tree_of_thought_runs_without_a_model(harness, shared_data, pool_file, tmp_path):
    import csv

    with (shared_data / "tasks" / "game24.csv").open() as file:
        puzzles = [row["Puzzles"] for row in csv.DictReader(file)]
    logs = json.loads((shared_data / "pools" / "tot_game24_gpt4_standard_n100.json").read_text())
    lines = [
        {"problem_id": "-".join(sorted(puzzles[log["idx"]].split(), key=int)), "responses": log["ys"]} for log in logs
    ]
    options = ("--embedder", "tfidf", "--selector", "repexp", "--selector", "uniform", "--json")
    outcome = harness(
        "run", "--task", "game24", "--pool", pool_file(lines, "gpt4.jsonl"), "--store", tmp_path / "runs", *options
    )
    assert outcome.code == 0, outcome.err
    expected = np.mean([101 / (1 + sum(log["accs"])) for log in logs])
    for row in outcome.rows:
        assert (row["problems"], row["solvable"], row["n"]) == (100, 33, 100)
        assert row["samples_to_correct_random"] == pytest.approx(expected, rel=1e-12)
