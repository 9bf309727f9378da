"""Pools made elsewhere: they run without a model and report like sampled ones; what a run needs of them is checked."""

import pytest
from support.paths import TOY
from support.refusals import error_line

LINES = [{"problem_id": f"test/{i}", "responses": ["say red", "say blue", "say green", "say red"]} for i in range(3)]
OF_TASK = ("--task", "colours", "--plugin", TOY)


@pytest.fixture
def run_pool(harness, written, tmp_path):
    """Run a pool of these lines on the toy task, whose problem i is solved by the i-th of red, green, blue, ..."""

    def call(lines, *args, task=OF_TASK):
        selector = () if "--selector" in args else ("--selector", "shuffle")
        return harness("run", *task, "--store", tmp_path / "runs", "--json", "--pool", written(lines), *selector, *args)

    return call


def random_calls(outcome):
    return outcome.rows[0]["samples_to_correct_random"]


def test_a_pool_runs_without_a_model_and_reports_like_a_sampled_one(run_pool):
    rated = [LINES[0] | {"logprobs": [-3, -2, -1, -4]}]
    assert run_pool(rated, "--selector", "likely").rows[0]["samples_to_correct"] == 3
    outcome = run_pool(LINES, "--selector", "spread", "--selector", "shuffle")
    assert "embedder: tfidf, since the pool has neither --embeddings nor --model" in outcome.err
    first, second = outcome.rows
    assert (first["model"], first["embedder"], first["n"], first["problems"]) == ("pool", "tfidf", 4, 3)
    assert first["solvable"] == 3  # red, green and blue are each said
    assert second["samples_to_correct_random"] == pytest.approx((5 / 3 + 5 / 2 + 5 / 2) / 3)


def test_the_pools_own_verdicts_are_taken_however_its_lines_joined_unless_regraded(run_pool):
    by_prompt = LINES[1] | {"problem_id": "a", "prompt": "Say colour 1 (test)."}
    lines = [by_prompt | {"correct": [False] * 4}, LINES[0] | {"correct": [False, True, True, False]}]
    taken = run_pool(lines)
    assert random_calls(taken) == pytest.approx((5 / 3 + 5) / 2)
    assert "verdicts: the pool's own (`correct`); --regrade grades anew" in taken.err
    assert random_calls(run_pool(lines, "--regrade", "--n", "2")) == pytest.approx((3 / 2 + 3) / 2)


def test_a_pool_with_verdicts_needs_no_task_and_a_dry_run_over_it_keeps_nothing(run_pool, tmp_path):
    lines = [{"problem_id": "x", "responses": ["a", "b"], "correct": [False, True]}]
    store, bare = tmp_path / "runs", ("--plugin", TOY)
    assert run_pool(lines, "--dry-run", task=bare).code == 0
    assert not store.exists()
    assert random_calls(run_pool(lines, task=bare)) == pytest.approx(1.5)
    kept = sorted(store.rglob("*"))
    again = run_pool(lines, "--dry-run", task=bare).rows
    assert ({row["to_make"] for row in again}, sorted(store.rglob("*"))) == ({0}, kept)
    assert "say which --task grades" in error_line(run_pool(LINES, task=bare))


def test_n_takes_the_first_n_responses_and_without_it_problems_may_have_differently_many(run_pool):
    row = run_pool(LINES, "--n", "2").rows[0]
    assert (row["n"], row["solvable"]) == (2, 2)  # green stands third
    line = error_line(run_pool(LINES, "--n", "5"))
    assert ("--n 5 is more than pool" in line, line.endswith("holds: 'test/0' has 4 responses")) == (True, True)
    row = run_pool([LINES[0] | {"responses": ["red"]}, LINES[1]]).rows[0]
    assert (row["n"], list(row["pass_at_k"]), row["samples_to_correct_random"]) == (4, ["1"], (2 / 2 + 5 / 2) / 2)


@pytest.mark.slow
def test_the_codet_pool_joins_to_all_of_humaneval_plus_by_the_table(harness, shared_data, tmp_path):
    pool = shared_data / "pools" / "codet_humaneval_codegen16B_n100.jsonl"
    task = ("--task", "humanevalplus", "--data", shared_data / "tasks" / "HumanEvalPlus-v0.1.10.jsonl.gz")
    ids = ("--ids", pool.with_name("codet_HumanEval_for_code_generation.jsonl"))
    outcome = harness("pool", "import", pool, *task, *ids, "--store", tmp_path / "runs", "--json")
    assert (outcome.rows["problems"], outcome.rows["n"], outcome.rows["responses"]) == (164, 100, 16_400)
    assert "joined 164 by the table of --ids" in outcome.err
    assert "join to none" not in outcome.err
