"""Problems by hardness: chosen by a reference model's pool, and the list that a run takes."""

from support.json_lines import read_json_lines
from support.paths import TOY
from support.refusals import wrongly_refused

from harness.columns.stored import pool_keys
from harness.jobs.plan import only


def pool_lines(**correct):
    """A pool with its own verdicts; problem `a=[1, 0]` has two responses, the first of them correct."""
    return [
        {"problem_id": name, "responses": [f"{name} {i}" for i in range(len(marks))], "correct": list(map(bool, marks))}
        for name, marks in correct.items()
    ]


def test_a_pool_with_its_own_verdicts_gives_a_list_without_the_unsolved(harness, written, tmp_path):
    pool = written(
        pool_lines(never=[0, 0, 0, 0], twice=[1, 1, 0, 0], once=[0, 1, 0, 0], tie=[1, 1, 0, 0], always=[1] * 4)
    )
    out = tmp_path / "hardest.jsonl"
    made = harness("pool", "hardest", pool, "--count", 2, "--out", out, "--store", tmp_path / "runs", "--json")
    assert made.code == 0, made.err
    assert read_json_lines(out) == [
        {"problem_id": "once", "n": 4, "correct": 1},
        {"problem_id": "twice", "n": 4, "correct": 2},
    ]
    assert {name: made.rows[name] for name in made.rows if name != "pool"} == {
        **{"problems": 5, "solvable": 4, "written": 2, "file": str(out)},
        **{"pass_at_1_lowest": 0.25, "pass_at_1_highest": 0.5},
    }
    for count, words in (
        (5, "4 of 5 problems have a correct response, --count asks for 5"),
        (0, "Invalid value for '--count'"),
    ):
        refused = harness("pool", "hardest", pool, "--count", count, "--out", out, "--store", tmp_path / "runs")
        assert (refused.code, words in refused.err) == (2, True)
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
