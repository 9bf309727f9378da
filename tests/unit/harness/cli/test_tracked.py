"""Trackers: what they are handed, and that none of them can lose a run."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.json_lines import read_json_lines
from support.paths import TOY
from support.refusals import error_line

from harness.cli.tracked import Tracking, flat, scalars
from harness.jobs.options import RunConfig
from harness.system.progress import Progress

DIARY = """
import json
from dataclasses import dataclass

from harness import hookimpl


@dataclass
class Diary:
    '''Writes down what it is handed, and raises where it is told to.'''

    path: str
    raises: str = ""

    def __getattr__(self, step):
        def note(*handed):
            print("a tracker that talks")
            with open(self.path, "a") as file:
                file.write(json.dumps([step, *handed], default=str) + "\\n")
            if step == self.raises:
                raise SystemExit("nobody there\\nat all")

        return note


@hookimpl
def register_trackers(register):
    register("diary", Diary)
"""
STEPS = ("start", "row", "table", "report", "finish")


@pytest.fixture
def diary(toy, tmp_path):
    """Run the toy task with a tracker that writes down what it is handed: the run's outcome, and the notes."""
    (tmp_path / "diary.py").write_text(DIARY)
    path = tmp_path / "notes.jsonl"

    def call(*args, raises=""):
        outcome = toy("--plugin", tmp_path / "diary.py", "--track", f"diary:path={path},raises={raises}", *args)
        return outcome, read_json_lines(path) if path.exists() else []

    return call


@pytest.mark.slow
def test_a_tracker_is_handed_settings_every_row_of_a_grid_table_and_report_in_this_order(diary):
    outcome, notes = diary("--grid", "selector=spread+head+twice,embedder=hidden-mean+letters")
    assert outcome.code == 1  # `twice` breaks; the other rows are tracked
    assert "a tracker that talks" in outcome.err  # and not in the JSON
    assert [step for step, *_ in notes] == ["start", "row", "row", "row", "table", "report", "finish"]
    (_, settings), *rows, (_, table), (_, report), finish = notes
    assert (settings["task"], settings["grid"][:8], settings["trials"]) == ("colours", "selector", 5)
    names = ["hidden-mean/spread", "letters/spread", "none/head"]
    assert sorted(name for _, name, _ in rows) == [f"colours/parrot/toy/vanilla/{name}" for name in names]
    for row, (_, _, numbers) in zip(outcome.rows, rows, strict=True):
        assert numbers["pass_at_k/4"] == row["pass_at_k"]["4"]
        assert numbers.get("improvement_ci/low") == (row["improvement_ci"] or [None])[0]
    assert [line["selector"] for line in table] == [row["selector"] for row in outcome.rows]
    assert len({tuple(line) for line in table}) == 1
    assert Path(report).read_text().startswith("<!doctype html>")
    assert finish == ["finish", False]


@pytest.mark.parametrize("step", STEPS)
def test_a_tracker_that_fails_is_named_in_one_line_asked_to_finish_and_stops_nothing_else(diary, tmp_path, step):
    other = tmp_path / "other.jsonl"
    outcome, notes = diary("--selector", "head", "--limit", "1", "--track", f"diary:path={other}", raises=step)
    assert outcome.code == 1
    assert [row["selector"] for row in outcome.rows] == ["head"]
    assert "Traceback" not in outcome.err
    (line,) = [line for line in outcome.err.splitlines() if "nobody there" in line]
    assert f"{step} failed: SystemExit: nobody there; it is asked no more" in line
    assert [note[0] for note in notes] == list(dict.fromkeys([*STEPS[: STEPS.index(step) + 1], "finish"]))
    assert [note[0] for note in read_json_lines(other)] == list(STEPS)


def test_a_report_that_cannot_be_made_is_one_line_and_the_table_is_tracked(tmp_path):
    for plugins, reason in (([TOY], "report: no cells in "), ([tmp_path / "absent.py"], "no such file")):
        tables = []
        config = RunConfig(task="colours", selectors=["head"], plugin_files=plugins, store=tmp_path)
        tracking = Tracking({"sound": SimpleNamespace(table=tables.append)}, config, Progress())
        tracking.scored([SimpleNamespace(to_json=lambda: {"selector": "head"})])
        assert tables == [[{"selector": "head"}]]
        (line,) = tracking.faults
        assert line.startswith("tracking: no report: ")
        assert reason in line


@pytest.mark.slow
def test_what_cannot_be_tracked_is_refused_before_anything_is_made_and_a_run_that_fails_is_finished_as_one(
    toy, diary, tmp_path
):
    table = {
        "--selector spread --track wandbb": "unknown tracker 'wandbb' (did you mean 'wandb'?",
        "--selector spread --track wandb:colour=red": "wandb: no parameter 'colour'",
        "--selector spread --track trackio --track trackio": "a tracker is given twice: trackio, trackio",
        "--until-correct --track trackio": "run: --until-correct takes no --track",
    }
    lines = {args: error_line(toy(*args.split())) for args in table}
    assert not [line for args, line in lines.items() if table[args] not in line]
    assert not (tmp_path / "runs").exists()
    outcome, notes = diary("--selector", "spread", "--max-tokens", "2000")
    assert (outcome.code, notes[-1]) == (2, ["finish", True])  # a run that fails is finished as one


def test_scalars_are_flat_numbers_and_a_tables_rows_have_the_same_columns():
    row = {"a": 1, "b": None, "flagged": True, "x_ci": [0.5, 2.0], "y_ci": None, "k": {"1": 0.25, "2": None}}
    row |= {"z_ci": {"4": [1, 3], "8": None}, "name": "text", "list": [1, 2]}
    assert scalars(row) == {
        **{"a": 1.0, "flagged": 1.0, "x_ci/low": 0.5, "x_ci/high": 2.0, "k/1": 0.25},
        **{"z_ci/4/low": 1.0, "z_ci/4/high": 3.0},
    }
    rows = [{"selector": "a", "x": 1.5}, {"selector": "b", "y": 2}]
    assert flat(rows) == [{"selector": "a", "x": 1.5, "y": None}, {"selector": "b", "x": None, "y": 2.0}]
