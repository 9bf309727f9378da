"""Problems by hardness: chosen by a reference model's pool, and the list that a run takes."""

import pytest
from support.json_lines import read_json_lines
from support.paths import TOY
from support.refusals import wrongly_refused

from harness import HarnessError
from harness.columns.stored import pool_keys
from harness.jobs.plan import only
from harness_plugins.pool_tools.jobs import Solved, chosen_hardest


def pool_lines(**correct):
    """A pool with its own verdicts; problem `a=[1, 0]` has two responses, the first of them correct."""
    return [
        {"problem_id": name, "responses": [f"{name} {i}" for i in range(len(marks))], "correct": list(map(bool, marks))}
        for name, marks in correct.items()
    ]


def test_the_hardest_are_those_with_the_lowest_share_above_zero_and_ties_keep_their_order():
    counts = [Solved("never", 8, 0), Solved("easy", 8, 7), Solved("b", 8, 1), Solved("long", 64, 2), Solved("a", 8, 1)]
    assert [solved.problem_id for solved in chosen_hardest(counts, 3)] == ["long", "b", "a"]
    assert len(chosen_hardest(counts, 4)) == 4
    with pytest.raises(HarnessError, match="4 of 5 problems have a correct response, --count asks for 5"):
        chosen_hardest(counts, 5)
    with pytest.raises(HarnessError, match="--count must be at least 1, got 0"):
        chosen_hardest(counts, 0)


def test_a_pool_with_its_own_verdicts_gives_a_list_without_the_unsolved(harness, written, tmp_path):
    pool = written(pool_lines(never=[0, 0, 0, 0], once=[0, 1, 0, 0], twice=[1, 1, 0, 0], always=[1, 1, 1, 1]))
    out = tmp_path / "hardest.jsonl"
    made = harness("pool", "hardest", pool, "--count", 2, "--out", out, "--store", tmp_path / "runs", "--json")
    assert made.code == 0, made.err
    assert read_json_lines(out) == [
        {"problem_id": "once", "n": 4, "correct": 1},
        {"problem_id": "twice", "n": 4, "correct": 2},
    ]
    assert {name: made.rows[name] for name in made.rows if name != "pool"} == {
        **{"problems": 4, "solvable": 3, "written": 2, "file": str(out)},
        **{"pass_at_1_lowest": 0.25, "pass_at_1_highest": 0.5},
    }
    run = ("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs", "--json", "--only", out)
    [row] = harness(*run).rows
    assert (row["problems"], row["solvable"]) == (2, 2)


def test_a_run_on_the_list_takes_these_problems_alone_and_reuses_their_responses(toy, harness, tmp_path):
    [whole] = toy("--selector", "head", "--n", "12").rows
    [key] = pool_keys(tmp_path / "runs")
    out = tmp_path / "hardest.jsonl"
    fixed = ("--plugin", TOY, "--store", tmp_path / "runs")
    made = harness("pool", "hardest", key[:6], "--count", 3, "--out", out, *fixed)
    assert made.code == 0, made.err
    again = toy("--selector", "head", "--n", "12", "--only", out)
    [row] = again.rows
    assert (whole["problems"], row["problems"], row["solvable"]) == (6, 3, 3)
    assert "pool: reused for 3 of 3 problems" in again.err
    [stopped] = toy("--until-correct", "--n", "4", "--only", out).rows
    assert stopped["problems"] == 3


def test_a_list_that_names_no_problem_of_the_task_is_refused_in_one_line(written):
    faults = [
        ('{"problem_id": "nowhere"}\n', "1 of 1 ids are not in split 'test' ('nowhere')"),
        ('{"id": "test/1"}\n', "line 1: problem_id must be a string, got None"),
        ("", "names no problem"),
        ("test/1\n", "not JSON"),
    ]
    assert not wrongly_refused(faults, lambda content: only(written(content), ["test/1"], str, "split 'test'"))
