"""`harness verify` as a user runs it: a real verifier, killed again and again."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.processes import harness_command, kill_when
from support.verifying import gpt4_pool, outcomes_in, write_checker

import harness as package
from harness.results import cells

PROBLEMS, BUDGET = 20, 120


@pytest.fixture
def lines(shared_data, tmp_path):
    """GPT-4's responses to the first problems in pool.jsonl, vectors in vectors.npz, and the verifier in check.py."""
    lines = gpt4_pool(shared_data, write_checker(tmp_path), PROBLEMS)
    write_json_lines(tmp_path / "pool.jsonl", lines)
    rng = np.random.default_rng(0)  # given vectors: TF-IDF would double the CPU time of the many starts
    np.savez(tmp_path / "vectors.npz", **{line["problem_id"]: rng.normal(size=(100, 16)) for line in lines})
    return lines


def command(folder, selector, workers):
    verifier = f"python -S {folder}/check.py {{response_file}} {{problem_id}} {{index}} {folder}/started"
    pool = ("--pool", folder / "pool.jsonl", "--embeddings", folder / "vectors.npz", "--selector", selector)
    options = ("--verifier", verifier, "--workers", workers, "--budget", BUDGET, "--journal", folder / "verify.jsonl")
    return harness_command("verify", *pool, *options, "--json")


def picks_in(log):
    """The picks whose check has begun, in order."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(name, int(index)) for name, index in map(str.split, lines)]


def killed_and_resumed(folder, selector, workers, kills):
    """Run the loop to its end, killing it on the way, every second time in the middle of a check.

    Returns how many outcomes and how many begun checks each run found.
    """
    journal, started, runs = folder / "verify.jsonl", folder / "started", []
    for place in range(1, kills + 1):

        def is_time(goal=place * (BUDGET - 20) // kills, in_check=place % 2):
            outcomes = outcomes_in(journal)
            begun = picks_in(started)[-1:]
            return len(outcomes) >= goal and (not in_check or begun[0] not in [each[:2] for each in outcomes])

        runs.append((len(outcomes_in(journal)), len(picks_in(started))))
        kill_when(is_time, command(folder, selector, workers), cwd=folder)
    runs.append((len(outcomes_in(journal)), len(picks_in(started))))
    subprocess.run(command(folder, selector, workers), cwd=folder, check=True, capture_output=True)
    return runs


@pytest.mark.slow
@pytest.mark.parametrize(("selector", "workers", "kills"), [("repexp", 1, 8), ("gp-ucb", 1, 4), ("repexp", 4, 4)])
def test_a_loop_killed_again_and_again_repeats_no_recorded_check_and_loses_none(
    tmp_path, lines, selector, workers, kills
):
    runs = killed_and_resumed(tmp_path, selector, workers, kills)
    recorded = outcomes_in(tmp_path / "verify.jsonl")
    picks, started = [each[:2] for each in recorded], picks_in(tmp_path / "started")
    assert len(picks) == len(set(picks)) == BUDGET
    assert set(picks) <= set(started)
    for outcomes, starts in runs:  # what a run found in the journal, it did not verify again
        assert not set(picks[:outcomes]) & set(started[starts:])
    again = sum(count - 1 for count in Counter(started).values())
    lost = len(set(started)) - BUDGET  # in flight at a kill, and not picked again by a selector that learns
    assert again + lost <= workers * kills
    verdicts = {line["problem_id"]: line["correct"] for line in lines}
    assert all((outcome == "correct") == verdicts[name][index] for name, index, outcome in recorded)
    if workers == 1:
        assert_the_calls_are_the_offline_order(tmp_path, recorded, selector)


def assert_the_calls_are_the_offline_order(folder, recorded, selector):
    """Each problem's calls begin its order of `harness run`, trial 0, and end at its first correct response."""
    files = {"pool": folder / "pool.jsonl", "embeddings": folder / "vectors.npz", "store": folder / "runs"}
    package.run(**files, selectors=[selector], trials=1, quiet=True)
    made = [cells.read(path) for path in (folder / "runs" / "cells").glob("*.json")]  # the controls' too
    (cell,) = (each for each in made if each["labels"]["selector"] == selector)
    for entry in cell["problems"]:
        calls = [index for name, index, _ in recorded if name == entry["id"]]
        if entry["c"]:
            (order,) = entry["orders"]
            assert calls == order[: len(calls)], entry["id"]
            assert len(calls) == len(order) or len(calls) >= BUDGET // PROBLEMS


# A robot that asks and tells from Python: it writes each start into a log, and tells outcomes one by one.
ROBOT = """
import sys, harness, numpy
h = numpy.random.default_rng(0).normal(size=(400, 32))
names = [f"CHEMBL{row}" for row in range(400)]
search = harness.search(h, names=names, selector=sys.argv[1], journal="plate.jsonl", quiet=True)
batch = search.open
while search.calls < 240:
    for name in batch or search.ask(8):
        with open("started", "a") as log:
            log.write(name + "\\n")
        search.tell(name, int(name[6:]) % 7 == 0)
    batch = []
"""


@pytest.mark.slow
@pytest.mark.parametrize("selector", ["repexp", "gp-ucb"])
def test_a_robot_killed_at_ten_random_moments_loses_no_outcome_and_asks_for_none_twice(tmp_path, selector):
    (tmp_path / "robot.py").write_text(ROBOT)
    journal, moments = tmp_path / "plate.jsonl", random.Random(0)
    size = lambda: journal.stat().st_size if journal.exists() else 0  # noqa: E731
    robot, kept, kills = [sys.executable, tmp_path / "robot.py", selector], [], 0
    for _ in range(10):
        goal = size() + moments.randrange(1, 1200)

        def is_time(goal=goal):
            if size() >= goal:
                time.sleep(moments.random() / 20)
            return size() >= goal

        with suppress(AssertionError):  # a quick robot may have ended before
            kill_when(is_time, robot, cwd=tmp_path)
            kills += 1
        kept.append([line for line in journal.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")])
    assert kills >= 7
    subprocess.run(robot, cwd=tmp_path, check=True, capture_output=True)
    lines = journal.read_bytes().splitlines(keepends=True)
    for whole in kept:
        assert lines[: len(whole)] == whole  # nothing that was on the disk is lost
    entries = list(map(json.loads, lines[1:]))
    asked = [name for entry in entries for name in entry.get("names", ())]
    told = [entry["name"] for entry in entries if "outcome" in entry]
    assert len(asked) == len({*asked}) == len(told) == len({*told}) == 240
    assert all((entry["outcome"] == "correct") == (entry["index"] % 7 == 0) for entry in entries if "outcome" in entry)
    started = Counter((tmp_path / "started").read_text().split())
    assert {*started} == {*told}
    assert sum(started.values()) - 240 <= 10  # at most what was in flight at a kill was done again
