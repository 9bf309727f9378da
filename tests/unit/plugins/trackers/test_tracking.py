"""Trackers: what they are handed, and that none of them can lose a run."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.json_lines import read_json_lines
from support.paths import ROOT, TOY
from support.processes import harness_command, run_to_end

from harness import HarnessError
from harness.cli.tracked import flat, row_name, scalars
from harness_plugins.trackers.tracking import Tracked

# A tracker that writes down what it is handed, and raises where it is told to.
DIARY = """
import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from harness import hookimpl


@dataclass
class Diary:
    '''Writes down what it is handed.'''

    path: str
    raises: str = ""

    def _note(self, what, value):
        print("a tracker that talks")
        with open(self.path, "a") as file:
            file.write(json.dumps([what, value]) + "\\n")
        if what == self.raises:
            raise ConnectionError("nobody there\\nat all")

    def start(self, settings):
        self._note("start", settings)

    def row(self, name, scalars):
        self._note("row", [name, scalars])

    def table(self, rows):
        self._note("table", rows)

    def report(self, path):
        self._note("report", Path(path).read_text()[:15])

    def finish(self, failed):
        self._note("finish", failed)


@hookimpl
def register_trackers(register):
    register("diary", Diary)
"""


@pytest.fixture
def diary(toy, tmp_path):
    """Run the toy task with a tracker that writes down what it is handed: the run's outcome, and the notes."""
    (tmp_path / "diary.py").write_text(DIARY)
    path = tmp_path / "notes.jsonl"

    def call(*args, raises=""):
        outcome = toy("--plugin", tmp_path / "diary.py", "--track", f"diary:path={path},raises={raises}", *args)
        return outcome, read_json_lines(path) if path.exists() else []

    return call


def test_a_tracker_is_handed_settings_rows_table_and_report_in_this_order(diary):
    outcome, notes = diary("--selector", "spread", "--selector", "head")
    assert outcome.code == 0, outcome.err
    assert [what for what, _ in notes] == ["start", "row", "row", "table", "report", "finish"]
    settings, first, _, table, report, failed = (value for _, value in notes)
    assert (settings["task"], settings["selectors"], settings["trials"]) == ("colours", ["spread", "head"], 5)
    assert first[0] == "colours/parrot/toy/vanilla/hidden-mean/spread"
    row = outcome.rows[0]
    assert first[1]["improvement"] == row["improvement"]
    assert first[1]["pass_at_k/4"] == row["pass_at_k"]["4"]
    assert first[1]["improvement_ci/low"] == row["improvement_ci"][0]
    assert [line["selector"] for line in table] == ["spread", "head"]
    assert table[1]["samples_to_correct"] is None
    assert set(table[0]) == set(table[1])
    assert report.lower().startswith("<!doctype html>")
    assert failed is False


def test_what_a_tracker_prints_does_not_spoil_the_json(diary):
    outcome, _ = diary("--selector", "spread")
    assert len(outcome.rows) == 1
    assert "a tracker that talks" in outcome.err


def test_every_row_of_a_grid_is_tracked(diary):
    _, notes = diary("--grid", "selector=spread+shuffle,embedder=hidden-mean+letters")
    names = [value[0] for what, value in notes if what == "row"]
    assert sorted(name.split("/", 4)[4] for name in names) == ["hidden-mean/spread", "letters/spread", "none/shuffle"]


@pytest.mark.parametrize("step", ["start", "row", "table", "report", "finish"])
def test_a_tracker_that_fails_loses_no_run_and_is_said_in_one_line(diary, tmp_path, step):
    outcome, notes = diary("--selector", "spread", "--selector", "shuffle", raises=step)
    assert outcome.code == 1
    assert [row["selector"] for row in outcome.rows] == ["spread", "shuffle"]
    (line,) = [line for line in outcome.err.splitlines() if "nobody there" in line]
    assert f"{step} failed: ConnectionError: nobody there; it is asked no more" in line
    assert "Traceback" not in outcome.err
    assert len(list((tmp_path / "runs" / "cells").glob("*.json"))) == 2
    steps = [what for what, _ in notes]
    assert steps.count(step) == 1
    assert steps[-1] == "finish"  # it is closed all the same


def test_one_tracker_that_fails_stops_no_other(diary, tmp_path):
    other = tmp_path / "other.jsonl"
    outcome, _ = diary("--selector", "spread", "--track", f"diary:path={other}", raises="start")
    assert outcome.code == 1
    steps = [line[0] for line in read_json_lines(other)]
    assert steps == ["start", "row", "table", "report", "finish"]


def test_a_run_that_fails_is_finished_as_one(diary):
    outcome, notes = diary("--selector", "spread", "--max-tokens", "2000")
    assert outcome.code == 2
    assert "forgets after 1,000 tokens" in outcome.err
    assert notes[-1] == ["finish", True]


def test_a_selector_that_breaks_leaves_the_other_rows_tracked(diary):
    outcome, notes = diary("--selector", "twice", "--selector", "spread")
    assert outcome.code == 1
    assert [value[0].split("/")[-1] for what, value in notes if what == "row"] == ["spread"]


def test_what_cannot_be_tracked_is_refused_before_anything_is_made(toy, tmp_path):
    outcome = toy("--selector", "spread", "--track", "wandbb")
    assert outcome.code == 2
    assert "unknown tracker 'wandbb' (did you mean 'wandb'?" in outcome.err
    outcome = toy("--selector", "spread", "--track", "wandb:colour=red")
    assert outcome.code == 2
    assert "wandb: no parameter 'colour'" in outcome.err
    assert not (tmp_path / "runs").exists()


def test_a_library_that_is_not_installed_is_one_line_even_beside_a_folder_of_its_name(tmp_path, monkeypatch):
    class Nowhere(Tracked):
        pass

    said = "tracker 'nowhere': nowhere is not installed: pip install 'diversity-harness"
    with pytest.raises(HarnessError, match=said):
        Nowhere()
    (tmp_path / "nowhere").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(HarnessError, match=said):
        Nowhere()


def test_the_built_in_trackers_are_listed_whether_or_not_their_libraries_are_there(harness):
    rows = harness("list", "trackers", "--json").rows
    assert {row["name"] for row in rows} == {"trackio", "wandb"}
    assert not [row for row in rows if row["what"].startswith("broken")]
    assert "mode: " in harness("show", "tracker", "wandb").out


def test_scalars_are_flat_numbers_and_leave_out_what_is_null():
    row = {"a": 1, "b": None, "flagged": True, "x_ci": [0.5, 2.0], "y_ci": None, "k": {"1": 0.25, "2": None}}
    row |= {"z_ci": {"4": [1, 3], "8": None}, "name": "text", "list": [1, 2]}
    assert scalars(row) == {
        **{"a": 1.0, "flagged": 1.0, "x_ci/low": 0.5, "x_ci/high": 2.0, "k/1": 0.25},
        **{"z_ci/4/low": 1.0, "z_ci/4/high": 3.0},
    }


def test_a_table_has_the_same_columns_in_every_row():
    rows = [{"selector": "a", "x": 1.5}, {"selector": "b", "y": 2}]
    assert flat(rows) == [{"selector": "a", "x": 1.5, "y": None}, {"selector": "b", "x": None, "y": 2.0}]
    labels = {"task": "t", "model": "m", "engine": "x", "sampler": "s", "embedder": "e", "selector": "r:lam=1"}
    assert row_name(SimpleNamespace(**labels)) == "t/m/x/s/e/r:lam=1"


# The real libraries, offline.


def needs(library: str) -> pytest.MarkDecorator:
    found = importlib.util.find_spec(library)
    missing = found is None or found.origin is None
    return pytest.mark.skipif(missing, reason=f"{library} is not installed (extra `tracking`)")


@pytest.fixture
def tracked(tmp_path):
    """Run the toy task in a process of its own, with no way out; what it printed."""

    def call(spec):
        options = ("--task", "colours", "--engine", "toy", "--plugin", TOY, "--store", tmp_path / "runs", "--json")
        command = harness_command("run", *options, "--selector", "spread", "--selector", "head", "--track", spec)
        surroundings = {"HOME": str(tmp_path), "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
        environment = os.environ | surroundings
        environment = {name: value for name, value in environment.items() if not name.startswith("WANDB_")}
        done = run_to_end(command, cwd=tmp_path, env=environment, timeout=120)
        assert done.returncode == 0, done.stderr
        assert [row["selector"] for row in json.loads(done.stdout)] == ["spread", "head"]
        return done.stderr

    return call


@needs("wandb")
def test_wandb_offline_keeps_a_folder_that_can_be_sent_later(tracked, tmp_path):
    tracked("wandb:project=diversity,mode=offline")
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    assert next(folder.glob("*.wandb")).stat().st_size > 1000
    (table,) = (json.loads(path.read_text()) for path in folder.rglob("*.table.json"))
    place = table["columns"].index("selector")
    assert [line[place] for line in table["data"]] == ["spread", "head"]
    staged = [path for path in Path(tmp_path).rglob("*") if path.is_file() and "artifacts" in path.parts]
    pages = [path for path in staged if path.read_bytes()[:15].lower() == b"<!doctype html>"]
    assert pages, "the report is staged as an artefact"


@needs("trackio")
def test_trackio_keeps_scalars_table_and_report_in_its_local_database(tracked, tmp_path):
    tracked("trackio:project=diversity")
    database = sqlite3.connect(tmp_path / "trackio" / "diversity.db")
    try:
        steps = [json.loads(metrics) for (metrics,) in database.execute("select metrics from metrics order by step")]
        artefacts = database.execute("select name, type from artifacts").fetchall()
    finally:
        database.close()
    assert "colours/parrot/toy/vanilla/hidden-mean/spread/improvement" in steps[0]
    assert "colours/parrot/toy/vanilla/none/head/pass_at_k/4" in steps[1]
    assert [line["selector"] for line in steps[2]["table"]["_value"]] == ["spread", "head"]
    assert artefacts == [("report", "report")]


def test_the_pages_own_tracker_runs_as_it_stands(harness, tmp_path, monkeypatch):
    text = (ROOT / "docs" / "tracking.md").read_text()
    (source,) = re.findall(r"```python\n(.*?)```", text, re.S)
    command = re.findall(r"^harness run .*--track lines.*$", text, re.M)[0]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.py").write_text(source)
    outcome = harness(*shlex.split(command)[1:])
    assert outcome.code == 0, outcome.err
    (line,) = map(json.loads, (tmp_path / "mine.jsonl").read_text().splitlines())
    assert line["row"] == "game24/tiny24/transformers/vanilla/none/uniform"
    assert line["problems"] == 5
