"""`harness verify` as a user runs it: a real verifier, killed again and again."""

import subprocess
from collections import Counter

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
@pytest.mark.parametrize(("selector", "workers", "kills"), [("repexp", 1, 20), ("gp-ucb", 1, 5), ("repexp", 4, 5)])
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
    (cell,) = (folder / "runs" / "cells").glob("*.json")
    for entry in cells.read(cell)["problems"]:
        calls = [index for name, index, _ in recorded if name == entry["id"]]
        if entry["c"]:
            (order,) = entry["orders"]
            assert calls == order[: len(calls)], entry["id"]
            assert len(calls) == len(order) or len(calls) >= BUDGET // PROBLEMS
