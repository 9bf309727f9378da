"""Answers that are not stated as the task asks for: under --paper and in tables."""

import pytest
from support.json_lines import write_json_lines

from harness.jobs.options import RunConfig
from harness.jobs.plan import make_plan
from harness.plugin_system.component import build, graded_as_the_paper
from harness.plugin_system.registry import load_registry
from harness.system.progress import Progress

GOLDS = [*range(10, 21), 10]  # the answers of twelve problems


@pytest.fixture
def files(tmp_path):
    """Options of a run on twelve problems of GSM8K and a pool with four responses each, of which one is stated."""
    problems = [{"question": f"Question {i}?", "answer": f"#### {gold}"} for i, gold in enumerate(GOLDS)]
    pools = [{"problem_id": f"test-{i}", "responses": ["#### 10", "so 11", "12", "It is 99"]} for i in range(12)]
    data = write_json_lines(tmp_path / "gsm8k.jsonl", problems)
    return {"data": data, "pool": write_json_lines(tmp_path / "pool.jsonl", pools), "store": tmp_path / "runs"}


def test_the_papers_runs_have_no_fallback_and_that_is_in_every_verdicts_key(files):
    def planned(**options):
        config = RunConfig(selectors=("uniform",), **({"task": "gsm8k"} | files | options))
        return make_plan(config, Progress(quiet=True))

    plain, paper = planned(), planned(paper=True)
    assert (plain.labels["task"], paper.labels["task"]) == ("gsm8k", "gsm8k:fallback=no")
    assert (plain.task.fallback, paper.task.fallback) == (True, False)
    assert plain.responses.key == paper.responses.key  # the responses are shared, the verdicts are not
    assert plain.verdicts.key != paper.verdicts.key
    assert planned(paper=True, task="gsm8k:fallback=yes").task.fallback
    registry = load_registry(())
    for task in ("gsm8k", "math", "aime25", "dapo-aime"):
        built = build(registry, "task", graded_as_the_paper(registry, task), data=None)
        assert (built.fallback, built.pools_as) == (False, task)
    assert graded_as_the_paper(registry, "game24") == "game24"


@pytest.mark.slow
def test_all_tables_say_how_many_correct_verdicts_came_by_a_fallback(harness, files, tmp_path):
    def run(*more):
        options = [f"--{name}={value}" for name, value in files.items()]
        return harness("run", "--task", "gsm8k", "--selector", "uniform", "--trials", "1", *options, *more)

    [row] = run("--json").rows
    # "#### 10" is right twice, 11 and 12 once each.
    assert (row["routes"], row["fallback_share"], row["chance"]) == ({"####": 2, "fallback": 2}, 0.5, None)
    line = "orrect by a fallback, not stated as asked: "
    assert f"c{line}2 of 4 verdicts, 50.0 %, over 5 %: read them" in run().out
    [strict] = run("--paper", "--json").rows
    assert (strict["task"], strict["routes"], strict["fallback_share"]) == ("gsm8k:fallback=no", {"####": 2}, 0.0)
    assert harness("leaderboard", files["store"] / "cells", "--out", tmp_path).code == 0
    board = (tmp_path / "leaderboard.md").read_text()
    assert f"C{line}2 of 4 verdicts, 50.0 %, over 5 %" in board
    assert f"C{line}0 of 2 verdicts, 0.0 %." in board
    assert harness("report", "--store", files["store"], "--out", tmp_path / "report.html").code == 0
    assert f"c{line}" in (tmp_path / "report.html").read_text()
