"""`harness verify` as a user runs it: a real verifier, killed again and again."""

import subprocess
from collections import Counter

import pytest
from support.json_lines import write_json_lines
from support.processes import harness_command, kill_when
from support.verifying import gpt4_pool, outcomes_in, write_checker

import harness as package
from harness.results import cells

PROBLEMS, BUDGET = 25, 160


@pytest.fixture
def lines(shared_data, tmp_path):
    """GPT-4's responses to the first problems, in pool.jsonl, and the verifier in check.py."""
    lines = gpt4_pool(shared_data, write_checker(tmp_path), PROBLEMS)
    write_json_lines(tmp_path / "pool.jsonl", lines)
    return lines


def command(folder, selector, workers):
    verifier = f"python -S {folder}/check.py {{response_file}} {{problem_id}} {{index}} {folder}/started"
    options = ("--pool", folder / "pool.jsonl", "--selector", selector, "--verifier", verifier, "--workers", workers)
    return harness_command("verify", *options, "--budget", BUDGET, "--journal", folder / "verify.jsonl", "--json")


def killed_and_resumed(folder, selector, workers, kills):
    """Run the loop to its end, killing it `kills` times on the way; what was started and what recorded by each run."""
    journal, started, runs = folder / "verify.jsonl", folder / "started", []
    for place in range(1, kills + 1):
        goal = place * (BUDGET - 20) // kills
        before = len(outcomes_in(journal)), len(started.read_text().splitlines()) if started.exists() else 0
        kill_when(lambda goal=goal: len(outcomes_in(journal)) >= goal, command(folder, selector, workers), cwd=folder)
        runs.append(before)
    subprocess.run(command(folder, selector, workers), cwd=folder, check=True, capture_output=True)
    return runs


@pytest.mark.slow
@pytest.mark.parametrize(("selector", "workers", "kills"), [("repexp", 1, 20), ("gp-ucb", 1, 5), ("repexp", 4, 5)])
def test_a_loop_killed_again_and_again_repeats_no_recorded_check_and_loses_none(
    tmp_path, lines, selector, workers, kills
):
    runs = killed_and_resumed(tmp_path, selector, workers, kills)
    recorded = outcomes_in(tmp_path / "verify.jsonl")
    started = [tuple(line.split()) for line in (tmp_path / "started").read_text().splitlines()]
    assert len(recorded) == len(set(recorded)) == BUDGET
    assert {(name, str(index)) for name, index, _ in recorded} <= set(started)
    for outcomes, starts in runs:  # what a run found in the journal, it did not verify again
        assert not {(name, str(index)) for name, index, _ in recorded[:outcomes]} & set(started[starts:])
    again = sum(count - 1 for count in Counter(started).values())
    lost = len(set(started)) - BUDGET  # in flight at a kill, and not picked again by a selector that learns
    assert again + lost <= workers * kills
    verdicts = {line["problem_id"]: line["correct"] for line in lines}
    assert all((outcome == "correct") == verdicts[name][index] for name, index, outcome in recorded)
    if workers == 1:
        assert_the_calls_are_the_offline_order(tmp_path, recorded, selector)


def assert_the_calls_are_the_offline_order(folder, recorded, selector):
    """Each problem's calls begin its order of `harness run`, trial 0, and end at its first correct response."""
    package.run(pool=folder / "pool.jsonl", selectors=[selector], trials=1, store=folder / "runs", quiet=True)
    (cell,) = (folder / "runs" / "cells").glob("*.json")
    for entry in cells.read(cell)["problems"]:
        calls = [index for name, index, _ in recorded if name == entry["id"]]
        if entry["c"]:
            (order,) = entry["orders"]
            assert calls == order[: len(calls)], entry["id"]
            assert len(calls) == len(order) or len(calls) >= BUDGET // PROBLEMS
