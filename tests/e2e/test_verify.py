"""`harness verify` and `harness.search` as users run them: a verifier and a robot that are killed again and again."""

import json
import sys
from collections import Counter

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.processes import harness_command, kill_when, run_to_end

import harness as package
from harness.results import cells

PROBLEMS, N, BUDGET = 8, 40, 60
CHECK = """
import sys
response_file, problem_id, index, log = sys.argv[1:]
with open(log, "a") as file:
    file.write(f"{problem_id} {index}\\n")
sys.exit(0 if open(response_file).read() == "right" else 1)
"""


@pytest.fixture
def correct(tmp_path):
    """Which responses of pool.jsonl are right; vectors are in vectors.npz, the verifier is check.py."""
    rng = np.random.default_rng(0)
    correct = {f"p{i}": (rng.random(N) < 0.05).tolist() for i in range(PROBLEMS)}
    lines = [
        {"problem_id": name, "responses": [["no", "right"][hit] for hit in row], "correct": row}
        for name, row in correct.items()
    ]
    write_json_lines(tmp_path / "pool.jsonl", lines)
    np.savez(tmp_path / "vectors.npz", **{name: rng.normal(size=(N, 16)) for name in correct})
    (tmp_path / "check.py").write_text(CHECK)
    return correct


def whole_lines(path):
    """The lines of a file that end, as they are."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [line for line in lines if line.endswith(b"\n")]


@pytest.mark.slow
@pytest.mark.parametrize(("selector", "workers", "kills"), [("repexp", 1, 4), ("gp-ucb", 4, 3)])
def test_a_loop_killed_again_and_again_repeats_no_recorded_check_and_loses_none(
    tmp_path, correct, selector, workers, kills
):
    verifier = f"{sys.executable} -S {tmp_path}/check.py {{response_file}} {{problem_id}} {{index}} {tmp_path}/started"
    pool = {"--pool": tmp_path / "pool.jsonl", "--embeddings": tmp_path / "vectors.npz", "--selector": selector}
    options = {"--verifier": verifier, "--workers": workers, "--budget": BUDGET}
    command = harness_command("verify", *(part for pair in (pool | options).items() for part in pair))

    def recorded():
        lines = map(json.loads, whole_lines(tmp_path / "verify.jsonl")[1:])
        return [(line["problem_id"], line["index"], line["outcome"]) for line in lines if "outcome" in line]

    def begun():
        pairs = (line.decode().split() for line in whole_lines(tmp_path / "started"))
        return [(name, int(index)) for name, index in pairs]

    runs = []
    for place in range(1, kills + 1):

        def is_time(goal=place * (BUDGET - 20) // kills, in_check=place % 2):  # every second time in a check
            outcomes, last = recorded(), begun()[-1:]
            return len(outcomes) >= goal and (not in_check or last[0] not in [each[:2] for each in outcomes])

        runs.append((len(recorded()), len(begun())))
        kill_when(is_time, command, cwd=tmp_path)
    runs.append((len(recorded()), len(begun())))
    run_to_end(command, check=True, cwd=tmp_path)
    picks, started = [each[:2] for each in recorded()], begun()
    assert len(picks) == len(set(picks)) == BUDGET
    assert set(picks) <= set(started)
    for outcomes, starts in runs:  # what a run found in the journal, it did not verify again
        assert not set(picks[:outcomes]) & set(started[starts:])
    again = sum(count - 1 for count in Counter(started).values())
    lost = len(set(started)) - BUDGET  # in flight at a kill, and not picked again by a selector that learns
    assert again + lost <= workers * kills
    assert all((outcome == "correct") == correct[name][index] for name, index, outcome in recorded())
    if workers == 1:  # each problem's calls begin its order of `harness run`, and end at its first correct response
        files = {name.strip("-"): pool[name] for name in ("--pool", "--embeddings")} | {"store": tmp_path / "runs"}
        package.run(**files, selectors=[selector], trials=1, quiet=True)
        made = [cells.read(path) for path in (tmp_path / "runs" / "cells").glob("*.json")]  # the controls' too
        (cell,) = (each for each in made if each["labels"]["selector"] == selector)
        for entry in (entry for entry in cell["problems"] if entry["c"]):
            calls, (order,) = [index for name, index in picks if name == entry["id"]], entry["orders"]
            assert calls == order[: len(calls)], entry["id"]
            assert len(calls) == len(order) or len(calls) >= BUDGET // PROBLEMS


# A robot that asks and tells from Python.
CALLS = 80
ROBOT = f"""
import harness, numpy
h = numpy.random.default_rng(0).normal(size=(200, 32))
names = [f"CHEMBL{{row}}" for row in range(200)]
search = harness.search(h, names=names, selector="gp-ucb", journal="plate.jsonl", quiet=True)
while search.calls < {CALLS}:
    for name in search.open or search.ask(8):
        search.tell(name, int(name[6:]) % 7 == 0)
"""


@pytest.mark.slow
def test_a_robot_that_is_killed_loses_no_outcome_and_asks_for_none_twice(tmp_path):
    (tmp_path / "robot.py").write_text(ROBOT)
    journal, kept, robot = tmp_path / "plate.jsonl", [], [sys.executable, tmp_path / "robot.py"]
    for goal in (700, 2_000, 4_100):  # bytes
        kill_when(lambda goal=goal: journal.exists() and journal.stat().st_size >= goal, robot, cwd=tmp_path)
        kept.append(whole_lines(journal))
    run_to_end(robot, check=True, cwd=tmp_path)
    lines = whole_lines(journal)
    assert all(lines[: len(whole)] == whole for whole in kept)  # nothing that was on the disk is lost
    entries = list(map(json.loads, lines[1:]))
    asked = [name for entry in entries for name in entry.get("names", ())]
    told = [entry["name"] for entry in entries if "outcome" in entry]
    assert len(asked) == len({*asked}) == len(told) == len({*told}) == CALLS
    assert all((entry["outcome"] == "correct") == (entry["index"] % 7 == 0) for entry in entries if "outcome" in entry)
