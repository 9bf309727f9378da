"""What a response is worth that states no answer as it was asked to: cut off, under --paper, in tables, by chance."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.stores import cell_of

from harness import HarnessError, Problem, Responses, Task, correct, wrong
from harness.plugin_system.component import build
from harness.plugin_system.presets import graded_as_the_paper
from harness.plugin_system.registry import load_registry
from harness.results import cells
from harness.results.verdict_quality import level, remarks
from harness.running.config import RunConfig
from harness.running.planning import make_plan
from harness.stages import chance
from harness.stages.verify import answers_of, graded
from harness.store import shards
from harness.system.progress import Progress
from harness.testing import findings
from harness_tasks.competition_math import Math
from harness_tasks.gsm8k import Gsm8k

PROBLEM = Problem("0", "How many?", reference="18")
CUT_OFF = "First we add 3 and 15, which gives 18"


# Cut off


def test_a_response_that_was_cut_off_has_no_last_number_to_fall_back_on():
    texts = [CUT_OFF, CUT_OFF, CUT_OFF, "so 18\n#### 18\nThat is, 17"]
    verdicts, answers = graded(Gsm8k(), PROBLEM, texts, finish=["length", "stop", "", "length"])
    assert [(one.status, one.reason) for one in verdicts] == [
        ("wrong", "cut off"),
        ("correct", ""),
        ("correct", ""),  # not known, as in a pool made elsewhere: taken as complete
        ("correct", ""),
    ]
    assert [one.route.partition(",")[0] for one in verdicts] == ["", "fallback", "fallback", "####"]
    assert answers == [None, "18", "18", "18"]


def test_the_verdict_on_a_cut_off_text_is_not_that_of_a_complete_one():
    known = {}
    assert graded(Gsm8k(), PROBLEM, [CUT_OFF], known, ["stop"])[0][0].status == "correct"
    assert graded(Gsm8k(), PROBLEM, [CUT_OFF], known, ["length"])[0][0].status == "wrong"
    assert graded(Gsm8k(), PROBLEM, [CUT_OFF], known, ["stop"])[0][0].status == "correct"


def test_without_fallbacks_only_a_stated_answer_counts():
    texts = ["I think 18", "The answer is 18.", r"\boxed{18}", "#### 18"]
    verdicts, answers = graded(Gsm8k(fallback=False), PROBLEM, texts)
    assert [one.status for one in verdicts] == ["wrong", "wrong", "correct", "correct"]
    assert verdicts[0].reason == "not stated as asked"
    assert answers == [None, None, "18", "18"]
    assert graded(Math(fallback=False), PROBLEM, ["#### 18"])[0][0].status == "wrong"  # math asks for a box


class Endings(Task):
    """Defines what it must alone: `verify` with `finish`; the harness does the rest."""

    reads_finish = True

    def verify(self, problem, response, *, finish):
        return correct() if finish == "stop" else wrong(f"ended by {finish or 'nobody knows'}")

    def answer(self, problem, response, *, finish):
        return finish


def test_a_task_that_reads_the_finish_reason_is_given_it_one_by_one_and_together():
    verdicts, answers = graded(Endings(), PROBLEM, ["a", "a", "a"], finish=["stop", "length", "stop"])
    assert [one.status for one in verdicts] == ["correct", "wrong", "correct"]
    assert answers == ["stop", "length", "stop"]
    assert graded(Endings(), PROBLEM, ["a"])[0][0].reason == "ended by nobody knows"
    assert answers_of(Endings(), PROBLEM, ["a", "a"], ["length", "stop"]) == ["length", "stop"]


class Deaf(Endings):
    """Says that it reads how responses ended, and does not take it."""

    def problems(self, split):
        return [PROBLEM]

    def verify(self, problem, response):
        return wrong()


def test_the_kit_names_what_takes_no_finish():
    failed = [row for row in findings("task", Deaf()) if row["outcome"] == "failed"]
    assert "it sets reads_finish, and its verify takes no keyword finish" in failed[0]["what"]


class Careless(Gsm8k):
    """Leaves how a response ended out of its key."""

    def verdict_key(self, problem, response, answer, *, finish=""):
        return response

    def problems(self, split):
        return [PROBLEM]


def test_the_kit_tries_equal_keys_with_both_endings():
    failed = [row for row in findings("task", Careless()) if row["outcome"] == "failed"]
    assert any("have one key and are" in row["what"] for row in failed)


# Under --paper


@pytest.fixture
def gsm8k_file(tmp_path):
    """Twelve problems; the answers are 10, 11, ..., 20 and, twice, 10."""
    path = tmp_path / "gsm8k.jsonl"
    golds = [*range(10, 21), 10]
    return write_json_lines(
        path, [{"question": f"Question {i}?", "answer": f"#### {gold}"} for i, gold in enumerate(golds)]
    )


@pytest.fixture
def pool_file(tmp_path):
    """Four responses a problem: one stated and right for 10 alone, three that end in a number."""
    path = tmp_path / "pool.jsonl"
    said = ["#### 10", "so 11", "12", "It is 99"]
    return write_json_lines(path, [{"problem_id": f"test-{i}", "responses": said} for i in range(12)])


def planned(gsm8k_file, pool_file, store_folder, **options):
    options = {"task": "gsm8k", **options}
    config = RunConfig(selectors=("uniform",), data=gsm8k_file, pool=pool_file, store=store_folder, **options)
    return make_plan(config, Progress(quiet=True))


def test_the_papers_runs_have_no_fallback_and_that_stands_in_every_verdicts_key(gsm8k_file, pool_file, tmp_path):
    plain, paper = (planned(gsm8k_file, pool_file, tmp_path / "runs", paper=paper) for paper in (False, True))
    assert (plain.labels["task"], paper.labels["task"]) == ("gsm8k", "gsm8k:fallback=no")
    assert (plain.task.fallback, paper.task.fallback) == (True, False)
    assert plain.work.pool.key == paper.work.pool.key  # the responses are shared, the verdicts are not
    assert plain.work.verdicts.key != paper.work.verdicts.key
    assert plain.work.graded.key != paper.work.graded.key
    given = planned(gsm8k_file, pool_file, tmp_path / "runs", paper=True, task="gsm8k:fallback=yes")
    assert given.task.fallback


@pytest.mark.parametrize("task", ["gsm8k", "math", "math500", "aime24", "aime25", "dapo-math", "dapo-aime"])
def test_every_task_with_final_answers_goes_without_fallbacks_in_the_papers_runs(task):
    known = load_registry(())
    built = build(known, "task", graded_as_the_paper(known, task), data=None)
    assert built.fallback is False
    assert built.pools_as == task
    assert graded_as_the_paper(known, "game24") == "game24"


# Pools made elsewhere


def test_a_pool_file_may_say_what_was_cut_off_and_an_export_keeps_it(harness, gsm8k_file, tmp_path):
    pool, out, runs = tmp_path / "cut.jsonl", tmp_path / "out.jsonl", tmp_path / "runs"
    line = {"problem_id": "test-0", "responses": ["so 10", "so 10", "#### 10"], "finish": ["length", "stop", "length"]}
    pool.write_text(json.dumps(line))
    task = ("--task", "gsm8k", "--data", gsm8k_file, "--store", runs)
    found = harness("pool", "audit", pool, *task, "--json").rows
    assert (found["correct"], found["reasons"]) == (2, {"cut off": 1})
    assert harness("pool", "export", found["pool"], "--out", out, "--store", runs).code == 0
    assert json.loads(out.read_text())["finish"] == line["finish"]
    pool.write_text(json.dumps({**line, "finish": ["stop", "stop", "killed"]}))
    refused = harness("pool", "audit", pool, *task)
    assert refused.code == 2
    assert 'line 1 (test-0): finish must hold "stop" and "length" only' in refused.err


# What tables say


def ran(harness, gsm8k_file, pool_file, tmp_path, *more):
    fixed = ("--task", "gsm8k", "--data", gsm8k_file, "--pool", pool_file, "--selector", "uniform", "--trials", "1")
    return harness("run", *fixed, "--store", tmp_path / "runs", *more)


def test_a_table_says_how_many_correct_verdicts_came_by_a_fallback(harness, gsm8k_file, pool_file, tmp_path):
    row = ran(harness, gsm8k_file, pool_file, tmp_path, "--json").rows[0]
    # "#### 10" is right twice, 11 and 12 once each.
    assert row["routes"] == {"####": 2, "fallback": 2}
    assert row["fallback_share"] == 0.5
    assert row["chance"] is None
    shown = ran(harness, gsm8k_file, pool_file, tmp_path)
    warning = "correct by a fallback, not stated as asked: 2 of 4 verdicts, 50.0 %, over 5 %: read them"
    assert warning in shown.out
    strict = ran(harness, gsm8k_file, pool_file, tmp_path, "--paper", "--json").rows[0]
    assert (strict["task"], strict["routes"], strict["fallback_share"]) == ("gsm8k:fallback=no", {"####": 2}, 0.0)
    assert harness("leaderboard", tmp_path / "runs" / "cells", "--out", tmp_path).code == 0
    board = (tmp_path / "leaderboard.md").read_text()
    assert "Correct by a fallback, not stated as asked: 2 of 4 verdicts, 50.0 %, over 5 %" in board
    assert "Correct by a fallback, not stated as asked: 0 of 2 verdicts, 0.0 %." in board
    report = harness("report", "--store", tmp_path / "runs", "--out", tmp_path / "report.html")
    assert report.code == 0, report.err
    assert "correct by a fallback, not stated as asked" in (tmp_path / "report.html").read_text()


def test_a_cell_without_routes_is_read_and_one_whose_routes_do_not_add_up_is_not(
    harness, gsm8k_file, pool_file, tmp_path
):
    row = ran(harness, gsm8k_file, pool_file, tmp_path, "--json").rows[0]
    cell = cell_of(tmp_path / "runs", row)
    older = {**cell, "problems": [{k: v for k, v in one.items() if k != "routes"} for one in cell["problems"]]}
    read = cells.read(tmp_path / "older" / f"{cells.write(tmp_path / 'older', older)}.json")
    kept = cells.row(read)
    assert (kept.routes, kept.fallback_share, kept.chance) == (None, None, None)
    assert list(remarks(kept)) == []
    forged = {**cell, "problems": [{**one, "routes": {"boxed": 9}} for one in cell["problems"]]}
    key = cells.write(tmp_path / "forged", forged)
    with pytest.raises(HarnessError, match=r"does not add up .*routes"):
        cells.read(tmp_path / "forged" / f"{key}.json")


# By chance


def test_the_chance_level_is_the_share_of_responses_that_are_right_for_other_problems(
    harness, gsm8k_file, pool_file, tmp_path
):
    row = ran(harness, gsm8k_file, pool_file, tmp_path, "--audit", "--json").rows[0]
    golds = [*range(10, 21), 10]
    hits = [[said == other for other in golds if other != own for said in (10, 11, 12, 99)] for own in golds]
    assert row["chance"]["correct"] == sum(map(sum, hits))
    assert row["chance"]["gradings"] == sum(map(len, hits))
    assert row["chance"]["share"] == pytest.approx(np.mean([np.mean(own) for own in hits]))
    low, high = row["chance"]["share_ci"]
    assert 0 <= low < row["chance"]["share"] < high
    assert row == ran(harness, gsm8k_file, pool_file, tmp_path, "--json").rows[0]  # kept, and shown without --audit too
    shown = ran(harness, gsm8k_file, pool_file, tmp_path).out
    assert (
        f"{row['chance']['correct']} of {row['chance']['gradings']} gradings against other problems' answers" in shown
    )
    one_less = ran(harness, gsm8k_file, pool_file, tmp_path, "--limit", "11", "--json").rows[0]
    assert one_less["chance"] is None  # of another set of problems


def test_the_chance_level_costs_a_bounded_number_of_gradings_and_is_the_same_again(gsm8k_file, pool_file, tmp_path):
    plan = planned(gsm8k_file, pool_file, tmp_path / "runs")
    problems = [Problem(f"p{i}", "?", reference=str(i)) for i in range(400)]
    plan = replace(plan, problems=problems, work=replace(plan.work, n=None))
    for n, expected in ((4, 256), (300, 4), (2000, 4)):
        write_pool(plan.work.pool, problems[7], n)
        tried = chance.others(plan.work, plan.task, problems, problems[7])
        assert len({other.id for other in tried}) == len(tried) == expected
        assert problems[7] not in tried
        assert tried == chance.others(plan.work, plan.task, problems, problems[7])


def write_pool(stage, problem, n):
    texts = [f"it is {i}" for i in range(n)]
    shards.write_responses(
        stage.path(problem), problem, Responses(texts, ["stop"] * n, np.full(n, 3), np.full(n, np.nan))
    )


def test_where_nothing_is_right_by_chance_there_is_a_count_and_no_interval():
    assert level([(0, 40), (0, 40)], seed=0) == {"correct": 0, "gradings": 80, "share": 0.0, "share_ci": None}
    assert level([], seed=0) is None


# Verified as drawn


def test_a_run_until_correct_knows_what_was_cut_off(harness, tmp_path):
    plugin = tmp_path / "cutting.py"
    plugin.write_text(CUTTING)
    fixed = ("--task", "ended", "--engine", "cutting", "--plugin", plugin, "--until-correct", "--n", "4")
    row = harness("run", *fixed, "--store", tmp_path / "runs", "--json").rows[0]
    # The first two responses are right and cut off: the third is the first correct one.
    assert (row["solved"], row["responses"]) == (1, 3)


CUTTING = """
from dataclasses import replace

from support import toy
from harness import Problem, Task, correct, hookimpl, wrong


class Ended(Task):
    reads_finish = True

    def __init__(self, data=None):
        pass

    def problems(self, split):
        yield Problem("one", "Say it.")

    def verify(self, problem, response, *, finish=""):
        return wrong("cut off") if finish == "length" else correct()


class Cutting(toy.Parrot):
    def sample(self, request):
        made = super().sample(replace(request, done=lambda j, responses: None))
        return [replace(one, finish=["length" if i < 2 else "stop" for i in range(len(one))]) for one in made]


@hookimpl
def register_tasks(register):
    register("ended", Ended)


@hookimpl
def register_engines(register):
    register("cutting", Cutting)
"""
