"""Answers by behaviour in `harness run` and `harness select`: what is one answer, what it cost, what is kept."""

import re

import pytest
from support.evalplus_problems import ROW, SOLUTION, block, written
from support.json_lines import write_json_lines
from support.refusals import error_line
from support.stores import files_of

from harness_tasks.programs import behaviour

TASK = "mbppplus:answer_by=behaviour,inputs=4"
LOOP = "def sum_even(numbers):\n    total = 0\n    for n in numbers: total += n * (1 - n % 2)\n    return total"
RESPONSES = [  # three that do the same, two that do another thing, and two that do nothing
    block("def sum_even(n): return sum(n)"), block(LOOP), "I cannot.", block(SOLUTION), block("def sum_even(n: "),
    block("def sum_even(ns): return sum(i % 2 == 0 and i for i in ns)"), block("def sum_even(m):\n    return sum(m)"),
]  # fmt: skip


@pytest.fixture
def run(harness, tmp_path):
    """Run or select on the pool of these responses, or of these with more fields."""

    def call(command, task, selector, *more, **fields):
        line = {"problem_id": ROW["task_id"], "responses": RESPONSES, **fields}
        pool = write_json_lines(tmp_path / "pool.jsonl", [line])
        options = ("--data", written(tmp_path, ROW), "--pool", pool, "--store", tmp_path / "runs", *more)
        return harness(command, "--task", task, "--selector", selector, *options)

    return call


@pytest.mark.slow
def test_programs_that_do_the_same_are_one_answer_in_runs_and_in_select(run, monkeypatch):
    programs, original = [], behaviour.behaviours
    counting = lambda *args: programs.extend(args[-1]) or original(*args)  # noqa: E731
    monkeypatch.setattr("harness_tasks.evalplus_tasks.behaviours", counting)
    plain = run("run", "mbppplus", "answer-round-robin")
    assert (plain.code, programs, "answers by running" in plain.out) == (0, [], False)
    [row] = run("run", TASK, "answer-round-robin", "--json").rows
    assert row["answering"]["responses"] == 7
    assert 0 < row["answering"]["cpu_s"] < 5
    assert row["pass_at_k"]["1"] == 1  # the largest cluster is the right one; as programs all differ
    assert len(programs) == 6  # one response has no program
    again = run("run", TASK, "outcome-ucb")
    assert re.search(r"answers by running 7 responses: \d+\.\d CPU-seconds, .* set against the calls saved", again.out)
    chosen = run("select", TASK, "answer-round-robin", "-k", 7, "--json")
    [picks] = chosen.rows
    first = {*picks["order"][:2]}
    assert (len(first & {1, 3, 5}), len(first & {0, 6})) == (1, 1)
    assert {*picks["order"][-2:]} == {2, 4}
    assert "answers by running 7 responses: " in chosen.err
    assert len(programs) == 6  # select and the second run took the first run's


def test_only_answers_are_made_anew_verdicts_and_responses_are_shared_and_given_verdicts_get_answers_too(
    run, harness, tmp_path
):
    for task in ("mbppplus:tests=base", f"{TASK},tests=base"):
        assert run("run", task, "uniform").code == 0
    runs = tmp_path / "runs"
    memos = sorted(path.name.partition(".")[0] for path in (runs / "memo").iterdir())
    assert (memos, len(files_of(runs, "responses")), len(files_of(runs, "verdicts"))) == (["answers", "graded"], 1, 2)
    assert "nothing to delete" in harness("store", "prune", "--store", runs).out
    assert harness("doctor", "--store", runs).code == 0
    [row] = run("run", TASK, "answer-round-robin", "--json", correct=[i in (1, 3, 5) for i in range(7)]).rows
    assert (row["grader"], row["pass_at_k"]["1"], row["answering"]["responses"]) == ("the pool's maker", 1, 7)
    line = error_line(run("run", "mbppplus:answer_by=luck", "uniform"))
    assert line == "error: mbppplus: answer_by must be 'program' or 'behaviour', got 'luck'"
    line = error_line(run("run", "mbppplus:answer_by=behaviour,inputs=0", "uniform"))
    assert line == "error: mbppplus: inputs must be from 1 to 100, got 0"
