"""`harness rerun`: the same cell where nothing changed, else what did; a stranger's cell gives no orders."""

import json

import pytest
from support.json_lines import write_json_lines
from support.paths import ROOT, TOY
from support.refusals import refusal_of

from harness.jobs.study import config_of, difference
from harness.results import cells
from harness.results.published import places, read


@pytest.fixture
def cell(toy, tmp_path):
    """The file of a cell of the toy task."""
    (row,) = toy("--selector", "shuffle:offset=2", "--limit", 3, "--seed", 4).rows
    return tmp_path / "runs" / "cells" / f"{row['cell']}.json"


def test_a_rerun_makes_the_same_cell_in_its_store_and_in_another(harness, cell, tmp_path):
    for store, made in (("runs", "reused for 3 of 3"), ("fresh", "sample: 48 responses")):
        named = (cell.stem[:6], "--in", cell.parent)
        outcome = harness("rerun", *named, "--plugin", TOY, "--store", tmp_path / store, "--json")
        assert outcome.code == 0, outcome.err
        assert [row["cell"] for row in outcome.rows] == [cell.stem]
        assert made in outcome.err
        assert f"rerun: the same cell, {cell.stem}, with the same outcomes\n" in outcome.err
        assert outcome.err.endswith("--store NEW makes all of it anew\n") == (store == "runs")


def test_a_dry_rerun_makes_nothing(harness, cell, tmp_path):
    options = ("--plugin", TOY, "--store", tmp_path / "fresh", "--dry-run", "--json")
    outcome = harness("rerun", cell, *options)
    assert [stage["to_make"] for stage in outcome.rows] == [3, 3, 3, 3]
    assert not (tmp_path / "fresh").exists()


def test_what_changed_is_named(cell):
    before = cells.read(cell)
    now = json.loads(json.dumps(before))
    now["problems"][1]["ranks"][0] += 1
    assert difference(before, now) == f"the same cell, {cell.stem}, with other outcomes for 1 of 3 problems"
    now["inputs"]["ranking"]["selector"]["code"] = now["inputs"]["pool"]["n"] = now["inputs"]["pool"]["key"] = "x"
    names = "pool.n, ranking.selector.code"
    assert difference(before, now) == f"another cell, {cells.key_of(now)}, not {cell.stem}: {names} changed"
    now = json.loads(json.dumps(before))
    now["problems"].pop()
    assert difference(before, now).endswith(": the problems changed")


def test_another_pool_at_the_same_place_makes_another_cell(harness, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = {"problem_id": "a", "responses": ["x", "y"], "correct": [False, True]}
    write_json_lines(tmp_path / "p.jsonl", [line])
    (row,) = harness("run", "--pool", "p.jsonl", "--selector", "uniform", "--json").rows
    write_json_lines(tmp_path / "p.jsonl", [{**line, "responses": ["x", "z"]}])
    outcome = harness("rerun", row["cell"])
    assert outcome.code == 0
    assert "rerun: another cell, " in outcome.err
    assert f", not {row['cell']}: pool.file changed\n" in outcome.err


def refused(harness, *args):
    outcome = harness("rerun", *args)
    assert outcome.code == 2
    return outcome.err.removeprefix("error: ").strip()


def test_what_runs_code_or_reaches_others_must_be_given_again(harness, cell):
    where = f"cell {cell}"
    line = f"rerun: {where} was made with --plugin {TOY}: give that too, if you trust where the cell is from"
    assert refused(harness, cell) == line
    made = cells.read(cell)
    powers = {"plugin": ["x.py"], "engine": "openai:url=http://a", "executor": "ray:address=b", "unsafe_exec": True}
    made["config"] |= powers
    words = "--plugin x.py --engine openai:url=http://a --executor ray:address=b --unsafe-exec: give that too"
    assert words in refusal_of(config_of, cell, made, {})
    given = {"plugin_files": (), "engine": "toy", "executor": "local", "unsafe_exec": False}
    assert config_of(cell, made, given).engine == "toy"


def test_a_cell_without_options_or_with_broken_ones_is_one_line(harness, tmp_path):
    made = read(next(places([ROOT / "results" / "pools"])))
    old = cells.write(tmp_path / "old", {name: value for name, value in made.items() if name != "config"})
    assert "records no options (an older version made it)" in refused(harness, tmp_path / "old" / f"{old}.json")
    key = cells.write(tmp_path, {**made, "config": {"n": "many"}})
    path = tmp_path / f"{key}.json"
    assert refused(harness, path) == f"cell {path}: n must be a valid integer, got 'many'"
    assert "no cell whose key begins so in" in refused(harness, "feed")
