"""Pools made elsewhere: they run without a model and report like sampled ones; what a run needs of them is checked."""

import pytest
from support.paths import TOY
from support.refusals import error_line

LINES = [{"problem_id": f"test/{i}", "responses": ["say red", "say blue", "say green", "say red"]} for i in range(3)]


@pytest.fixture
def run_pool(harness, tmp_path):
    """Run a pool on the toy task, whose problem i is solved by the i-th of red, green, blue, ..."""

    def call(path, *args, task=("--task", "colours", "--plugin", TOY)):
        fixed = (*task, "--store", tmp_path / "runs", "--json", "--pool", path)
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
    outcome = run_pool(written(LINES), "--selector", "spread", "--selector", "shuffle")
    assert "embedder: tfidf, since the pool has neither --embeddings nor --model" in outcome.err
    first, second = outcome.rows
    assert (first["model"], first["embedder"], first["n"], first["problems"]) == ("pool", "tfidf", 4, 3)
    assert first["solvable"] == 3  # red, green and blue are each said
    assert second["samples_to_correct_random"] == pytest.approx((5 / 3 + 5 / 2 + 5 / 2) / 3)


def test_the_pools_own_verdicts_are_taken_however_its_lines_joined_unless_regraded(run_pool, written):
    by_prompt = LINES[1] | {"problem_id": "a", "prompt": "Say colour 1 (test)."}
    path = written([by_prompt | {"correct": [False] * 4}, LINES[0] | {"correct": [False, True, True, False]}])
    taken = run_pool(path)
    assert taken.rows[0]["samples_to_correct_random"] == pytest.approx((5 / 3 + 5) / 2)
    assert "verdicts: the pool's own (`correct`); --regrade grades anew" in taken.err
    regraded = run_pool(path, "--regrade", "--n", "2")
    assert regraded.rows[0]["samples_to_correct_random"] == pytest.approx((3 / 2 + 3) / 2)


def test_a_pool_with_verdicts_needs_no_task_and_a_dry_run_over_it_keeps_nothing(run_pool, written, tmp_path):
    path, store = written([{"problem_id": "x", "responses": ["a", "b"], "correct": [False, True]}]), tmp_path / "runs"
    dry = run_pool(path, "--dry-run", task=("--plugin", TOY))
    assert dry.code == 0, dry.err
    assert not store.exists()
    assert run_pool(path, task=("--plugin", TOY)).rows[0]["samples_to_correct_random"] == pytest.approx(1.5)
    kept = sorted(store.rglob("*"))
    again = run_pool(path, "--dry-run", task=("--plugin", TOY)).rows
    assert ({row["to_make"] for row in again}, sorted(store.rglob("*"))) == ({0}, kept)
    bare = written([{"problem_id": "x", "responses": ["a"]}], "bare.jsonl")
    assert "say which --task grades" in error_line(run_pool(bare, task=("--plugin", TOY)))


def test_n_takes_the_first_n_responses_and_without_it_problems_may_have_differently_many(run_pool, written):
    row = run_pool(written(LINES), "--n", "2").rows[0]
    assert (row["n"], row["solvable"]) == (2, 2)  # green stands third
    assert "--n 5 is more than pool" in (line := error_line(run_pool(written(LINES), "--n", "5")))
    assert line.endswith("holds: 'test/0' has 4 responses")
    path = written([LINES[0] | {"responses": ["red"]}, LINES[1]])
    row = run_pool(path).rows[0]
    assert (row["n"], list(row["pass_at_k"]), row["samples_to_correct_random"]) == (4, ["1"], (2 / 2 + 5 / 2) / 2)
    absent = path.with_name("absent.jsonl")
    assert error_line(run_pool(absent)) == f"error: pool {absent}: no such file"


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
    assert (bare.rows["problems"], "joined 4 by prompt" in bare.err) == (4, True)
    assert "160 of 164 problems join to none of the task's: 'line-1', 'line-2', 'line-3'" in bare.err
