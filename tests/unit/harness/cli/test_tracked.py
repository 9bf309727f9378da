"""Trackers: what they are handed, and that none of them can lose a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.json_lines import read_json_lines
from support.paths import TOY
from support.refusals import error_line

from harness.cli.tracked import Tracking, flat, row_name, scalars
from harness.running import pipeline
from harness.running.config import RunConfig
from harness.system.progress import Progress

# A tracker that writes down what it is handed, and raises where it is told to.
DIARY = """
import json
from dataclasses import dataclass
from pathlib import Path

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
STEPS = ("start", "row", "row", "table", "report", "finish")


@pytest.fixture
def diary(toy, tmp_path):
    """Run the toy task with a tracker that writes down what it is handed: the run's outcome, and the notes."""
    (tmp_path / "diary.py").write_text(DIARY)
    path = tmp_path / "notes.jsonl"

    def call(*args, raises=""):
        outcome = toy("--plugin", tmp_path / "diary.py", "--track", f"diary:path={path},raises={raises}", *args)
        return outcome, read_json_lines(path) if path.exists() else []

    return call


def test_a_tracker_is_handed_settings_every_row_of_a_grid_table_and_report_in_this_order(diary):
    outcome, notes = diary("--grid", "selector=spread+head+twice,embedder=hidden-mean+letters")
    assert outcome.code == 1  # `twice` breaks; the other rows are tracked
    assert "a tracker that talks" in outcome.err  # and not in the JSON
    assert [what for what, _ in notes] == ["start", "row", "row", "row", "table", "report", "finish"]
    settings, *rows, table, report, failed = (value for _, value in notes)
    assert (settings["task"], settings["grid"][:8], settings["trials"]) == ("colours", "selector", 5)
    names = ["hidden-mean/spread", "letters/spread", "none/head"]
    assert sorted(name for name, _ in rows) == [f"colours/parrot/toy/vanilla/{name}" for name in names]
    for row, (_, numbers) in zip(outcome.rows, rows, strict=True):
        assert numbers["pass_at_k/4"] == row["pass_at_k"]["4"]
        assert numbers.get("improvement_ci/low") == (row["improvement_ci"] or [None])[0]
    assert [line["selector"] for line in table] == [row["selector"] for row in outcome.rows]
    assert len({tuple(line) for line in table}) == 1
    assert report.lower().startswith("<!doctype html>")
    assert failed is False


def test_a_tracker_that_fails_stops_neither_the_run_nor_another_tracker(diary, tmp_path):
    other = tmp_path / "other.jsonl"
    outcome, notes = diary("--selector", "spread", "--track", f"diary:path={other}", raises="row")
    assert outcome.code == 1
    assert [row["selector"] for row in outcome.rows] == ["spread"]
    assert "Traceback" not in outcome.err
    assert [what for what, _ in notes] == ["start", "row", "finish"]
    assert [what for what, _ in read_json_lines(other)] == ["start", "row", "table", "report", "finish"]


class Failing:
    """A tracker that lists what is called, and ends the process at one step."""

    def __init__(self, step):
        self.step, self.calls = step, []

    def __getattr__(self, name):
        def call(*_):
            self.calls.append(name)
            if name == self.step:
                raise SystemExit("nobody there\nat all")

        return call


def test_whatever_step_fails_is_named_in_one_line_and_the_tracker_is_asked_to_finish_and_no_more(tmp_path):
    config = RunConfig(task="colours", engine="toy", selectors=["head"], plugin_files=[TOY], store=tmp_path)
    rows, _ = pipeline.run(config, Progress())
    for step in dict.fromkeys(STEPS):
        tracker = Failing(step)
        tracking = Tracking({"failing": tracker}, config, Progress())
        tracking.start()
        for row in rows * 2:
            tracking.row(row)
        tracking.scored(rows)
        tracking.finish(False)
        before = STEPS[: STEPS.index(step)]
        assert tracker.calls == [*before, step, "finish"][: len(before) + 1 + (step != "finish")]
        line = f"tracker 'failing': {step} failed: SystemExit: nobody there; it is asked no more"
        assert tracking.faults == [line]


def test_a_report_that_cannot_be_made_is_one_line_and_the_table_is_tracked(tmp_path):
    for plugins, reason in (([TOY], "report: no cells in "), ([tmp_path / "absent.py"], "no such file")):
        tracker = Failing("")
        config = RunConfig(task="colours", selectors=["head"], plugin_files=plugins, store=tmp_path)
        tracking = Tracking({"sound": tracker}, config, Progress())
        tracking.scored([SimpleNamespace(to_json=lambda: {"selector": "head"})])
        assert tracker.calls == ["table"]
        (line,) = tracking.faults
        assert line.startswith("tracking: no report: ")
        assert reason in line


def test_a_run_that_fails_is_finished_as_one(diary):
    outcome, notes = diary("--selector", "spread", "--max-tokens", "2000")
    assert outcome.code == 2
    assert "forgets after 1,000 tokens" in outcome.err
    assert notes[-1] == ["finish", True]


def test_what_cannot_be_tracked_is_refused_before_anything_is_made(toy, tmp_path):
    table = [
        (["wandbb"], "unknown tracker 'wandbb' (did you mean 'wandb'?"),
        (["wandb:colour=red"], "wandb: no parameter 'colour'"),
        (["trackio", "trackio"], "--track: a tracker is given twice: trackio, trackio"),
        (["trackio", "--until-correct"], "run: --until-correct takes no --track"),
    ]
    for specs, reason in table:
        options = [part for spec in specs for part in (("--track", spec) if spec[0] != "-" else (spec,))]
        assert reason in error_line(toy(*options, *(() if "--until-correct" in specs else ("--selector", "spread"))))
    assert not (tmp_path / "runs").exists()


def test_scalars_are_flat_numbers_and_leave_out_what_is_null():
    row = {"a": 1, "b": None, "flagged": True, "x_ci": [0.5, 2.0], "y_ci": None, "k": {"1": 0.25, "2": None}}
    row |= {"z_ci": {"4": [1, 3], "8": None}, "name": "text", "list": [1, 2]}
    assert scalars(row) == {
        **{"a": 1.0, "flagged": 1.0, "x_ci/low": 0.5, "x_ci/high": 2.0, "k/1": 0.25},
        **{"z_ci/4/low": 1.0, "z_ci/4/high": 3.0},
    }


def test_a_table_has_the_same_columns_in_every_row_and_a_row_is_named_by_all_that_a_grid_varies():
    rows = [{"selector": "a", "x": 1.5}, {"selector": "b", "y": 2}]
    assert flat(rows) == [{"selector": "a", "x": 1.5, "y": None}, {"selector": "b", "x": None, "y": 2.0}]
    labels = {"task": "t", "model": "m", "engine": "x", "sampler": "s", "embedder": "e", "selector": "r:lam=1"}
    assert row_name(SimpleNamespace(**labels)) == "t/m/x/s/e/r:lam=1"
