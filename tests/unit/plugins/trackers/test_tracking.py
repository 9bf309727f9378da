"""The built-in trackers, with the real libraries where they are installed, offline."""

import importlib.util
import json
import os
import sqlite3

import pytest
from support.processes import printed_by
from support.refusals import refusal_of

from harness_plugins.trackers.tracking import Tracked

TRACK = """
from pathlib import Path
from harness_plugins.trackers import tracking
Path("report.html").write_text("<!doctype html>")
tracker = tracking.{tracker}
tracker.finish(False)  # nothing was started
tracker.start({{"task": "colours", "seed": 0}})
tracker.row("colours/spread", {{"improvement": 1.5, "pass_at_k/4": 0.25}})
tracker.table([{{"selector": "spread", "calls": 1.5}}, {{"selector": "head", "calls": None}}])
tracker.report(Path("report.html"))
tracker.finish({failed})
"""


@pytest.fixture
def tracked(tmp_path):
    """Send a run to a tracker, in a process of its own with no way out."""

    def call(tracker, failed=False):
        library = tracker.partition("(")[0].lower()
        spec = importlib.util.find_spec(library)
        if spec is None or spec.origin is None:
            pytest.skip(f"{library} is not installed (extra `tracking`)")
        env = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
        env |= {"HOME": str(tmp_path), "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
        printed_by(TRACK.format(tracker=tracker, failed=failed), cwd=tmp_path, env=env, timeout=120)

    return call


@pytest.mark.slow
def test_wandb_offline_keeps_a_folder_that_can_be_sent_later(tracked, tmp_path):
    tracked("Wandb('diversity', group='toys', mode='offline')", failed=True)
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    record = next(folder.glob("*.wandb")).read_bytes()
    assert not [part for part in (b"toys", b"colours/spread/improvement", b"spread/pass_at_k/4") if part not in record]
    (table,) = (json.loads(path.read_text()) for path in folder.rglob("*.table.json"))
    assert (table["columns"], table["data"]) == (["selector", "calls"], [["spread", 1.5], ["head", None]])
    staged = [path for path in tmp_path.rglob("*") if path.is_file() and "artifacts" in path.parts]
    assert "<!doctype html>" in [path.read_text(errors="replace") for path in staged]


def test_trackio_keeps_scalars_table_and_report_in_its_local_database(tracked, tmp_path):
    tracked("Trackio('diversity')")
    database = sqlite3.connect(tmp_path / "trackio" / "diversity.db")
    try:
        steps = [json.loads(metrics) for (metrics,) in database.execute("select metrics from metrics order by step")]
        artefacts = database.execute("select name, type from artifacts").fetchall()
    finally:
        database.close()
    assert steps[0] == {"colours/spread/improvement": 1.5, "colours/spread/pass_at_k/4": 0.25}
    assert [line["selector"] for line in steps[1]["table"]["_value"]] == ["spread", "head"]
    assert artefacts == [("report", "report")]


def test_a_library_that_is_not_installed_is_one_line():
    class Nowhere(Tracked):
        pass

    assert refusal_of(Nowhere) == "tracker 'nowhere' needs nowhere: not installed: pip install nowhere"
