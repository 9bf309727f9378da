"""Pools made elsewhere: they run without a model and report like sampled ones; what a run needs of them is checked."""

import numpy as np
import pytest
from support.paths import TOY
from support.refusals import error_line

LINES = [{"problem_id": f"test/{i}", "responses": ["say red", "say blue", "say green", "say red"]} for i in range(3)]


@pytest.fixture
def run_pool(harness, tmp_path):
    """Run a pool on the toy task, whose problem i is solved by the i-th of red, green, blue, ..."""

    def call(path, *args):
        fixed = ("--task", "colours", "--plugin", TOY, "--store", tmp_path / "runs", "--json", "--pool", path)
        return harness("run", *fixed, *(args if "--selector" in args else ("--selector", "shuffle", *args)))

    return call


@pytest.fixture
def import_pool(harness, tmp_path):
    def call(path, *args, task=("--task", "colours", "--plugin", TOY)):
        return harness("pool", "import", path, *task, "--store", tmp_path / "runs", "--json", *args)

    return call


def test_a_pool_runs_without_a_model_and_reports_like_a_sampled_one(run_pool, written):
    rated = [LINES[0] | {"logprobs": [-3, -2, -1, -4]}]
    assert run_pool(written(rated, "rated.jsonl"), "--selector", "likely").rows[0]["samples_to_correct"] == 3
    outcome = run_pool(written(LINES), "--selector", "spread", "--selector", "shuffle", "--selector", "likely")
    assert outcome.code == 1
    assert "selector 'likely' needs log-probabilities" in outcome.err
    assert "embedder: tfidf, since the pool has neither --embeddings nor --model" in outcome.err
    first, second = outcome.rows
    assert (first["model"], first["embedder"], first["n"], first["problems"]) == ("pool", "tfidf", 4, 3)
    assert first["solvable"] == 3  # red, green and blue are each said
    assert second["samples_to_correct_random"] == pytest.approx((5 / 3 + 5 / 2 + 5 / 2) / 3)


def test_a_pool_is_imported_once_and_what_was_said_of_it_is_said_again(run_pool, written):
    path = written([{"prompt": f"Say colour {i} (test).", "samples": ["say red", "x"]} for i in (0, 1, 9)])
    first, second = run_pool(path), run_pool(path, "--selector", "spread")
    assert "verdicts: reused for 2 of 2 problems" in second.err
    for outcome in (first, second):
        assert "pool: read as CodeT samples" in outcome.err
        assert "1 of 3 problems join to none of the task's: 'line-3'" in outcome.err


def test_a_pool_is_imported_anew_for_another_table_of_ids(import_pool, written, harness, tmp_path):
    path = written([{"prompt": f"Say colour {i} (test).", "samples": ["x"]} for i in (0, 2)])
    joined = {}
    for target in ("test/3", "test/4"):
        table = written([{"task_id": target, "pool_id": "line-1"}], "table.jsonl")
        key = import_pool(path, "--ids", table).rows["pool"]
        files = (tmp_path / "runs").glob(f"*.{key}/responses.*/*.parquet")
        joined[key] = sorted(file.name.split(".")[0] for file in files)
    assert sorted(joined.values()) == [["test_2", "test_3"], ["test_2", "test_4"]]
    outcome = import_pool(path, "--ids", table, task=())
    assert error_line(outcome) == f"error: ids {table}: it maps the pool's lines to a task's problems: say which --task"


def test_the_pools_own_verdicts_are_taken_however_its_lines_joined_unless_regraded(run_pool, written):
    by_prompt = LINES[1] | {"problem_id": "a", "prompt": "Say colour 1 (test)."}
    path = written([by_prompt | {"correct": [False] * 4}, LINES[0] | {"correct": [False, True, True, False]}])
    taken = run_pool(path)
    assert taken.rows[0]["samples_to_correct_random"] == pytest.approx((5 / 3 + 5) / 2)
    assert "verdicts: the pool's own (`correct`); --regrade grades anew" in taken.err
    regraded = run_pool(path, "--regrade", "--n", "2")
    assert regraded.rows[0]["samples_to_correct_random"] == pytest.approx((3 / 2 + 3) / 2)


def test_a_pool_with_verdicts_needs_no_task(harness, written, tmp_path):
    path = written([{"problem_id": "x", "responses": ["a", "b"], "correct": [False, True]}])
    fixed = ("--selector", "uniform", "--store", tmp_path / "runs", "--json")
    assert harness("run", "--pool", path, *fixed).rows[0]["samples_to_correct_random"] == pytest.approx(1.5)
    bare = written([{"problem_id": "x", "responses": ["a"]}], "bare.jsonl")
    assert "say which --task grades" in error_line(harness("run", "--pool", bare, *fixed))


@pytest.mark.slow
def test_anothers_figures_are_judged_by_the_tasks_thresholds_and_nothing_is_folded(harness, written, tmp_path):
    fasta = ">d1 plddt=91.5 ptm=0.9\nMKTAYIAK\n>d2 plddt=50 ptm=0.9\nMKTAY\n"
    fixed = ("--pool", written(fasta, "p.fasta"), "--split", "any", "--embedder", "tfidf", "--store", tmp_path / "runs")

    def mean_samples(task):
        outcome = harness("run", "--task", task, *fixed, "--selector", "uniform", "--json")
        assert outcome.code == 0, outcome.err
        assert "verdicts: by the pool's own plddt and ptm" in outcome.err
        assert not {"measure", "weights"} & set(outcome.err.split())
        return outcome.rows[0]["samples_to_correct_random"]

    assert mean_samples("proteins") == 1.5  # one of two
    assert mean_samples("proteins:plddt_min=0.4") == 1.0
    assert mean_samples("proteins:plddt_min=0.95") == 3.0


@pytest.mark.slow
def test_n_takes_the_first_n_responses_and_without_it_problems_may_have_differently_many(
    run_pool, import_pool, written
):
    row = run_pool(written(LINES), "--n", "2").rows[0]
    assert (row["n"], row["solvable"]) == (2, 2)  # green stands third
    assert "--n 5 is more than pool" in (line := error_line(run_pool(written(LINES), "--n", "5")))
    assert line.endswith("holds: 'test/0' has 4 responses")
    path = written([LINES[0] | {"responses": ["red"]}, LINES[1]])
    assert import_pool(path).rows["n"] == [1, 4]
    row = run_pool(path).rows[0]
    assert (row["n"], list(row["pass_at_k"]), row["samples_to_correct_random"]) == (4, ["1"], (2 / 2 + 5 / 2) / 2)
    row = run_pool(path, "--n", "1").rows[0]
    assert (row["n"], row["problems"], row["solvable"]) == (1, 2, 1)
    absent = path.with_name("absent.jsonl")
    assert error_line(run_pool(absent)) == f"error: pool {absent}: no such file"


def test_vectors_of_ones_own_are_used_and_refused_in_one_line(run_pool, written, tmp_path):
    path, vectors = written(LINES), tmp_path / "vectors.npz"
    np.savez(vectors, **{line["problem_id"]: np.diag([1, 1, 9, 1]).astype(np.float32) for line in LINES})
    row = run_pool(path, "--selector", "spread", "--embeddings", vectors).rows[0]
    assert row["embedder"] == "vectors.npz"
    assert row["samples_to_correct"] == pytest.approx((2 + 1 + 3) / 3)  # green, then red, blue, red
    np.savez(vectors, **{"test/0": np.zeros((4, 2))})
    outcome = run_pool(path, "--selector", "spread", "--embeddings", vectors)
    assert outcome.code == 2
    line = f"error: embeddings {vectors}: 'test/1' is not in the file (1 other ids are: 'test/0')"
    assert outcome.err.splitlines()[-1] == line


@pytest.mark.slow
def test_the_codet_pool_joins_to_all_of_humaneval_plus_by_the_table_and_to_four_without(import_pool, shared_data):
    pool = shared_data / "pools" / "codet_humaneval_codegen16B_n100.jsonl"
    task = ("--task", "humanevalplus", "--data", shared_data / "tasks" / "HumanEvalPlus-v0.1.10.jsonl.gz")
    outcome = import_pool(pool, "--ids", pool.with_name("codet_HumanEval_for_code_generation.jsonl"), task=task)
    assert outcome.code == 0, outcome.err
    assert (outcome.rows["problems"], outcome.rows["n"], outcome.rows["responses"]) == (164, 100, 16_400)
    assert "joined 164 by the table of --ids" in outcome.err
    assert "join to none" not in outcome.err
    bare = import_pool(pool, task=task)
    assert bare.rows["problems"] == 4
    assert "joined 4 by prompt" in bare.err
    assert "160 of 164 problems join to none of the task's: 'line-1', 'line-2', 'line-3'" in bare.err


def test_a_dry_run_over_a_pool_file_keeps_nothing(harness, tmp_path):
    pool, store = tmp_path / "pool.jsonl", tmp_path / "runs"
    pool.write_text('{"problem_id": "a", "responses": ["x", "y"], "correct": [true, false]}\n')
    options = ("run", "--pool", pool, "--selector", "uniform", "--store", store, "--json")
    dry = harness(*options, "--dry-run")
    assert dry.code == 0, dry.err
    assert not store.exists()
    assert harness(*options).code == 0
    kept = sorted(store.rglob("*"))
    again = harness(*options, "--dry-run")
    assert [(row["to_make"], row["key"]) for row in again.rows] == [(0, row["key"]) for row in dry.rows]
    assert sorted(store.rglob("*")) == kept
