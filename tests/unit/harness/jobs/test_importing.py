"""Pools made elsewhere: they run without a model and report like sampled ones; what a run needs of them is checked."""

import pytest
from support.paths import TOY
from support.refusals import error_line

LINES = [{"problem_id": f"test/{i}", "responses": ["say red", "say blue", "say green", "say red"]} for i in range(3)]


@pytest.fixture
def run_pool(harness, written, tmp_path):
    """Run a pool of these lines on the toy task, whose problem i is solved by the i-th of red, green, blue, ..."""

    def call(lines, *args, task=("--task", "colours"), selector="shuffle"):
        fixed = ("--plugin", TOY, "--store", tmp_path / "runs", "--json", "--selector", selector)
        return harness("run", *task, *fixed, "--pool", written(lines), *args)

    return call


def random_calls(outcome):
    return outcome.rows[0]["samples_to_correct_random"]


def test_the_pools_own_verdicts_are_taken_however_its_lines_joined_unless_regraded(run_pool):
    by_prompt = LINES[1] | {"problem_id": "a", "prompt": "Say colour 1 (test)."}
    lines = [by_prompt | {"correct": [False] * 4}, LINES[0] | {"correct": [False, True, True, False]}]
    taken = run_pool(lines)
    assert random_calls(taken) == pytest.approx((5 / 3 + 5) / 2)
    assert "verdicts: the pool's own (`correct`); --regrade grades anew" in taken.err
    regraded = run_pool(lines, "--regrade", "--n", "2", selector="spread")
    assert random_calls(regraded) == pytest.approx((3 / 2 + 3) / 2)
    assert "embedder: tfidf, since the pool has neither --embeddings nor --model" in regraded.err


def test_a_pool_with_verdicts_needs_no_task_and_a_dry_run_over_it_keeps_nothing(run_pool, tmp_path):
    lines = [{"problem_id": "x", "responses": ["a", "b"], "correct": [False, True]}]
    for to_make in (1, 0):
        kept = sorted(tmp_path.glob("runs/**/*"))
        dry = run_pool(lines, "--dry-run", task=()).rows
        assert ({row["to_make"] for row in dry}, sorted(tmp_path.glob("runs/**/*"))) == ({to_make}, kept)
        assert random_calls(run_pool(lines, task=())) == pytest.approx(1.5)
    assert "say which --task grades" in error_line(run_pool(LINES, task=()))


def test_n_takes_the_first_n_responses_and_without_it_problems_may_have_differently_many(run_pool):
    row = run_pool(LINES, "--n", "2").rows[0]
    assert (row["n"], row["solvable"]) == (2, 2)  # green stands third
    line = error_line(run_pool(LINES, "--n", "5"))
    assert ("--n 5 is more than pool" in line, line.endswith("holds: 'test/0' has 4 responses")) == (True, True)
    row = run_pool([LINES[0] | {"responses": ["red"]}, LINES[1]]).rows[0]
    assert (row["n"], list(row["pass_at_k"]), row["samples_to_correct_random"]) == (4, ["1"], (2 / 2 + 5 / 2) / 2)
