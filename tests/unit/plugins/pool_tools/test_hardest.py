"""`harness pool hardest` and `harness run --only`: problems chosen by a reference model's pool."""

import pytest
from support.json_lines import read_json_lines, write_json_lines
from support.paths import TOY

from harness import HarnessError
from harness_plugins.pool_tools.hardness import Solved, hardest


def pool_file(folder, **correct):
    """A pool with its own verdicts; problem `a=[1, 0]` has two responses, the first of them correct."""
    path = folder / "reference.jsonl"
    lines = [
        {"problem_id": name, "responses": [f"{name} {i}" for i in range(len(marks))], "correct": list(map(bool, marks))}
        for name, marks in correct.items()
    ]
    return write_json_lines(path, lines)


def test_the_hardest_are_those_with_the_lowest_share_above_zero_and_ties_keep_their_order():
    counts = [Solved("never", 8, 0), Solved("easy", 8, 7), Solved("b", 8, 1), Solved("long", 64, 2), Solved("a", 8, 1)]
    assert [solved.problem_id for solved in hardest(counts, 3)] == ["long", "b", "a"]
    with pytest.raises(HarnessError, match="4 of 5 problems have a correct response, --count asks for 5"):
        hardest(counts, 5)


def test_a_pool_with_its_own_verdicts_gives_a_list_without_the_unsolved(harness, tmp_path):
    pool = pool_file(tmp_path, never=[0, 0, 0, 0], once=[0, 1, 0, 0], twice=[1, 1, 0, 0], always=[1, 1, 1, 1])
    out = tmp_path / "hardest.jsonl"
    made = harness("pool", "hardest", pool, "--count", 2, "--out", out, "--store", tmp_path / "runs", "--json")
    assert made.code == 0, made.err
    assert [(line["problem_id"], line["n"], line["correct"]) for line in read_json_lines(out)] == [
        ("once", 4, 1),
        ("twice", 4, 2),
    ]
    assert (made.rows["problems"], made.rows["solvable"], made.rows["pass_at_1_lowest"]) == (4, 3, 0.25)


def test_a_run_on_the_list_takes_these_problems_alone_and_reuses_their_responses(toy, harness, tmp_path):
    [whole] = toy("--selector", "head", "--n", "12").rows
    [key] = [path.name for path in (tmp_path / "runs" / "pool").iterdir()]
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


def test_a_pool_made_elsewhere_is_narrowed_by_the_list_too(harness, tmp_path):
    pool = pool_file(tmp_path, first=[0, 1], second=[1, 1], third=[1, 0])
    only = tmp_path / "only.jsonl"
    only.write_text('{"problem_id": "third"}\n{"problem_id": "first"}\n')
    run = ("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs", "--json", "--only")
    [row] = harness(*run, only).rows
    assert (row["problems"], row["solvable"]) == (2, 2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"problem_id": "nowhere"}\n', "1 of 1 ids are not in split 'test' of task 'colours' ('nowhere')"),
        ('{"id": "test/1"}\n', "line 1: problem_id must be a string, got None"),
        ("", "names no problem"),
        ("test/1\n", "not JSON"),
    ],
)
def test_a_list_that_names_no_problem_of_the_task_is_one_line(toy, tmp_path, content, said):
    only = tmp_path / "only.jsonl"
    only.write_text(content)
    outcome = toy("--selector", "head", "--only", only)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.strip().count("\n") == 0
