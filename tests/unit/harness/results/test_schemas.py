"""The JSON Schemas that are shipped fit what is written, and name all of it."""

import json

import pytest
from jsonschema import Draft202012Validator, ValidationError
from support.paths import ROOT
from support.stores import all_cells

from harness.results.published import places, read

SCHEMAS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "docs" / "schemas").glob("*.json")}


def require(name, value):
    Draft202012Validator(SCHEMAS[name]).validate(json.loads(json.dumps(value)))
    assert set(value) <= set(SCHEMAS[name]["properties"])


def test_rows_and_cells_of_a_run_and_of_a_leaderboard_fit(toy, harness, tmp_path):
    rows = toy("--selector", "spread", "--selector", "head", "--selector", "raising").rows
    written = all_cells(tmp_path / "runs")
    assert (len(rows), sorted("failed" in cell for cell in written)) == (2, [False, False, True])
    (board,) = harness("leaderboard", tmp_path / "runs" / "cells", "--json").rows
    published = [read(place) for place in list(places([ROOT / "results"]))[::200]]
    for name, values in (("row", [*rows, *board["rows"]]), ("cell", [*written, *published])):
        for value in values:
            require(name, value)


def test_what_select_prints_fits_and_what_does_not_fit_is_refused(harness, written):
    pool = written([{"problem_id": "a", "responses": ["x", "y", "z"]}])
    (chosen,) = harness("select", "--pool", pool, "--selector", "uniform", "-k", 2, "--json").rows
    require("selected", chosen)
    with pytest.raises(ValidationError, match="first"):
        require("selected", {"problem_id": "a", "order": "first", "ordered": True})
