"""The JSON Schemas that are shipped are those of the types, and what is written fits them."""

import json

import pytest
from pydantic import TypeAdapter
from support.paths import ROOT
from support.stores import all_cells

from harness.results import cells, schemas

FOLDER = ROOT / "docs" / "schemas"


def require(name, value):
    TypeAdapter(schemas.TYPES[name]).validate_json(json.dumps(value))
    known = set(schemas.schema(name)["properties"])
    assert set(value) <= known
    assert set(schemas.schema(name)["required"]) <= set(value)


def test_the_shipped_schemas_are_the_generated_ones():
    assert [name for name in schemas.TYPES if (FOLDER / f"{name}.json").read_text() != schemas.text(name)] == []


def test_rows_and_cells_of_a_run_and_of_a_leaderboard_fit(toy, harness, tmp_path):
    rows = toy("--selector", "spread", "--selector", "head", "--selector", "raising").rows
    assert len(rows) == 2
    written = all_cells(tmp_path / "runs")
    assert sorted("failed" in cell for cell in written) == [False, False, True]
    harness("leaderboard", tmp_path / "runs" / "cells", "--quiet")
    (board,) = json.loads((tmp_path / "runs" / "leaderboard.json").read_text())
    for row in [*rows, *board["rows"]]:
        require("row", row)
    for cell in written:
        require("cell", cell)


def test_every_published_cell_fits():
    for path in cells.files([ROOT / "results"]):
        require("cell", cells.read(path))


def test_what_select_prints_fits_and_what_does_not_fit_is_refused(harness, written):
    pool = written([{"problem_id": "a", "responses": ["x", "y", "z"]}])
    (chosen,) = harness("select", "--pool", pool, "--selector", "uniform", "-k", 2, "--json").rows
    require("selected", chosen)
    with pytest.raises(ValueError, match="order"):
        require("selected", {"problem_id": "a", "order": "first", "ordered": True})
