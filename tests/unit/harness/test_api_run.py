"""`harness.run` and `harness.read_results`: the command line's rows as objects and frames; own objects are raced."""

import csv
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.notebooks import session
from support.paths import TOY
from support.processes import run_to_end
from support.refusals import refusal_of
from support.stores import cell_of

from harness import read_results, run
from harness.results.rows import Row

CELL = "class Last:\n    needs = ()\n    def rank(self, pool, rng):\n        yield from range(len(pool) - 1, -1, -1)"
Last = session(CELL)["Last"]


@pytest.fixture
def door(tmp_path):
    """`run` of the toy task with its plugins and a store in `tmp_path`."""

    def call(*selectors, **options):
        fixed = {"task": "colours", "engine": "toy", "plugin_files": TOY, "store": tmp_path / "runs", "limit": 3}
        return run(**{**fixed, "selectors": selectors, "quiet": True, **options})

    return call


@pytest.mark.slow
def test_the_rows_and_the_table_are_the_command_lines(door, harness, tmp_path):
    results = door("spread", "head", n=4)
    options = (
        "--task",
        "colours",
        "--engine",
        "toy",
        "--plugin",
        TOY,
        "--store",
        tmp_path / "runs",
        "--limit",
        3,
        "--n",
        4,
    )
    outcome = harness("run", *options, "--selector", "spread", "--selector", "head")
    assert results.table() == repr(results) == outcome.out
    rows = harness("run", *options, "--selector", "spread", "--selector", "head", "--json").rows
    assert json.loads(json.dumps([row.to_json() for row in results])) == rows
    assert (len(results), results[0], results[-1:]) == (2, results.rows[0], results.rows[1:])
    assert all(isinstance(row, Row) for row in results)
    assert results.store == tmp_path / "runs"


def test_a_grid_a_preset_and_plain_numbers_will_do(door):
    results = door(grid="selector=spread,embedder=hidden-mean+letters", n=np.int64(4))
    assert [row.embedder for row in results] == ["hidden-mean", "letters"]
    assert results.table().count("random (exact)") == 1
    assert "no preset 'large'" in refusal_of(door, "spread", preset="large")


def test_a_frame_is_flat_and_holds_the_rows_values(door, monkeypatch):
    results = door("spread", "head")
    frame = results.to_pandas()
    assert list(frame["selector"]) == ["spread", "head"]
    assert frame["samples_to_correct"][0] == results[0].samples_to_correct
    assert np.isnan(frame["samples_to_correct"][1])
    assert frame["improvement_ci_low"][0] == results[0].improvement_ci[0]
    assert frame["pass_at_k_4"].tolist() == [row.pass_at_k["4"] for row in results]
    assert frame.map(lambda value: isinstance(value, (dict, list, tuple))).sum().sum() == 0
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert refusal_of(results.to_pandas) == "to_pandas needs pandas, which is not installed: pip install pandas"


def test_a_selector_that_fails_is_told_and_the_others_have_rows(door, capfd):
    results = door("raising", "spread", quiet=False)
    (line,) = results.failures.values()
    assert line.startswith("selector 'raising', problem 'test/1', trial 0: raised ZeroDivisionError: oh")
    assert f"failed: {line}\n" in capfd.readouterr().err
    assert results.table().endswith(f"failed: {line}\n")
    assert [row.selector for row in results] == ["spread"]


def test_an_object_is_raced_in_one_table_and_a_notebooks_class_is_ranked_in_each_call(door, tmp_path, capfd):
    results = door("spread", Last())
    assert [row.selector for row in results] == ["spread", "Last"]
    capfd.readouterr()
    again = door("spread", Last(), quiet=False)
    assert "rankings of spread: reused for 3 of 3 problems\nrank Last: 3 problems" in capfd.readouterr().err
    assert again[1].samples_to_correct == results[1].samples_to_correct
    changed = door(session(CELL.replace("range(len(pool) - 1, -1, -1)", "range(len(pool))"))["Last"])
    assert changed[0].cell != results[1].cell
    orders = [entry["orders"][0] for entry in cell_of(tmp_path / "runs", changed[0].to_json())["problems"]]
    assert [order for order in orders if order != list(range(len(order)))] == []


def test_an_object_of_a_file_is_ranked_again_only_if_the_file_changes(door, tmp_path, monkeypatch, capfd):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "raced_last.py").write_text(CELL)
    from raced_last import Last

    results = door(Last())
    capfd.readouterr()
    assert door(Last(), quiet=False)[0] == results[0]
    assert "rankings of Last: reused for 3 of 3 problems" in capfd.readouterr().err
    (tmp_path / "raced_last.py").write_text(f"# moved\n\n{CELL}")
    assert door(Last())[0].cell != results[0].cell


AWAY = """
from harness import HarnessError, hookimpl


class Away:
    def map(self, function, items, uses_model):
        if function.keywords["out"].column.kind == "orders":
            raise HarnessError("sent away")
        return map(function, items)


@hookimpl
def register_executors(register):
    register("away", Away)
"""


def test_objects_rank_in_this_process_whatever_the_executor(door, written):
    results = door("spread", Last(), plugin_files=[TOY, written(AWAY, "away.py")], executor="away")
    assert list(results.failures.values()) == ["sent away"]
    assert [row.selector for row in results] == ["Last"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "run: say which selectors to compare, e.g. --selector repexp --selector uniform"),
        (
            {"selectors": "spread,mmr:lam=1,uniform"},
            "run: a comma separates a selector's parameters: write --selector spread --selector mmr:lam=1 --selector",
        ),
        ({"selectors": "spread", "n": 0}, "--n must be at least 1, got 0"),
        (
            {"selectors": "spread", "max_tokns": 3},
            "run: no option 'max_tokns' (did you mean 'max_tokens'? options: ",
        ),
        ({"selectors": "spread", "embeddings": np.eye(3)}, "run: embeddings must be the path of a file, got array(["),
        ({"selectors": "spread", "pool": {"a": ["4"]}}, "run: pool must be the path of a file, got {'a': ['4']}"),
        ({"selectors": "spread", "model": np}, "run: model must be a valid string, got <module"),
        ({"selectors": "spread", "until_correct": True}, "run: --until-correct takes no --selector"),
        ({"until_correct": True}, "run: --until-correct makes no rows: use `harness run` in a shell"),
        ({"selectors": [Last()], "rank_timeout": 3}, "run: --rank-timeout goes with specs: objects of this session"),
        ({"selectors": "spread", "task": None}, "run: say what to run, e.g. --task game24, or --pool FILE"),
    ],
)
def test_a_fault_is_one_line(door, options, line):
    assert refusal_of(door, **{"selectors": (), **options}).startswith(line)


def test_long_work_begins_with_yes(door, monkeypatch):
    monkeypatch.setattr("harness.jobs.price.MANY_RESPONSES", 40)
    line = refusal_of(door, "spread")
    assert line.startswith("run: not begun, since it takes 48 responses")
    assert "add --yes to begin it unasked; --preset quick, --limit, --n and --max-tokens make it" in line
    assert len(door("spread", yes=True)) == 1


@pytest.mark.slow
def test_results_are_read_from_stores_folders_files_and_keys(door, harness, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        *door("spread", "shuffle", store="runs"),
        *door("spread", store="runs", seed=1),
        *door("spread", store="runs", n=4),
    ]
    assert "raising" in refusal_of(door, "raising", store="runs")
    results = read_results("runs")
    assert [row.selector for row in results].count("spread") == 2
    assert [len(row.seeds) for row in results if row.selector == "spread" and row.n == 16] == [2]
    assert len(results.failures) == 1
    assert [row.cell for row in read_results("runs/cells")] == [row.cell for row in read_results()]
    path = f"runs/cells/{rows[1].cell}.json"
    assert (
        [row.cell for row in read_results(path)]
        == [row.cell for row in read_results(rows[1].cell[:9])]
        == [rows[1].cell]
    )
    harness("leaderboard", "runs/cells", "--quiet")
    frame, written = results.to_pandas(), list(csv.DictReader(Path("runs/leaderboard.csv").read_text().splitlines()))
    written = [line for line in written if line["control"] in ("", "False")]
    assert list(frame["cell"]) == [line["cell"] for line in written]
    assert set(frame.columns) <= set(written[0])
    assert frame["improvement"].tolist() == pytest.approx([float(line["improvement"]) for line in written], rel=1e-3)
    assert results.table() == harness("leaderboard", "runs/cells").out.rpartition("written: ")[0]
    assert len(results.boards) == 3


def test_what_cannot_be_read_is_one_line(door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal_of(read_results) == "read_results: no cells in results, runs/cells"
    assert "no cell whose key begins so in results, runs/cells" in refusal_of(read_results, "feed")
    results = door("spread", store="runs")
    path = tmp_path / "runs" / "cells" / f"{results[0].cell}.json"
    shutil.copy(path, "other.json")
    assert refusal_of(read_results, "other.json").startswith(
        "read_results: cell other.json: is named otherwise than its"
    )
    both = read_results("runs", "other.json")
    assert (len(both), len(both.faults)) == (len(results), 1)
    assert "not counted: cell other.json: is named" in both.table()


SCRIPT = """
import os, sys
print("this script ran")
import harness
class Mine:
    needs = ()
    def rank(self, pool, rng):
        return iter(range(len(pool)))
options = {"pool": "p.jsonl", "embeddings": "E.npz", "plugin_files": ["slow.py"], "trials": 1, "quiet": True}
rows = harness.run(selectors=["slow", Mine()], **options)
print([row.samples_to_correct for row in rows])
"""
SLOW = """
import time
from harness import hookimpl
class Slow:
    def rank(self, pool, rng):
        time.sleep(0.25)
        return iter(range(len(pool)))
@hookimpl
def register_selectors(register):
    register("slow", Slow)
"""


@pytest.mark.slow
def test_worker_processes_do_not_run_a_script_again_that_has_no_guard(tmp_path):
    lines = [{"problem_id": str(i), "responses": ["x", "y"], "correct": [False, True]} for i in range(50)]
    write_json_lines(tmp_path / "p.jsonl", lines)
    np.savez(tmp_path / "E.npz", **{line["problem_id"]: np.eye(2, dtype=np.float32) for line in lines})
    for name, text in (("script.py", SCRIPT), ("slow.py", SLOW)):
        (tmp_path / name).write_text(text)
    done = run_to_end([sys.executable, "script.py"], cwd=tmp_path)
    assert done.stdout == "this script ran\n[2.0, 2.0]\n", done.stderr
