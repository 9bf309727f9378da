"""What `harness doctor` does with each kind of file that cannot be trusted, and what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.paths import TOY

from harness.results import cells
from harness.running import pipeline
from harness.running.config import RunConfig
from harness.system.progress import Progress
from harness_plugins.doctor import damage, tables

RECORDS = {"cells": cells.read}


@pytest.fixture
def store(tmp_path):
    """The store of a run of two selectors on three problems."""
    fixed = {"task": "colours", "engine": "toy", "limit": 3, "plugin_files": [TOY], "store": tmp_path}
    pipeline.run(RunConfig(selectors=["spread", "head"], **fixed), Progress())
    return tmp_path


def test_what_a_run_makes_again_is_deleted_and_records_and_manifests_are_set_aside(store):
    cell, manifest = next(store.glob("cells/*.json")), next(store.glob("verdict/*/manifest.json"))
    ranking = next(store.glob("ranking/*/test_1.*.json"))
    for path in (cell, manifest, ranking):
        path.write_bytes(path.read_bytes()[:-2])
    listed = damage.diagnosis(store, RECORDS, Progress())
    assert {Path(fault["path"]): fault["cure"] for fault in listed["faults"] if fault["left"]} == {
        cell: "--repair sets it aside",
        manifest: "--repair sets it aside",
        ranking: "--repair deletes it; the next run makes it again",
    }
    repaired = damage.diagnosis(store, RECORDS, Progress(), repair=True)
    assert repaired["set_aside"] == [f"{cell}.damaged", f"{manifest}.damaged"]
    assert not ranking.exists()
    *lines, last = damage.shown(repaired | {"adopted": 2}).splitlines()
    assert [line for line in lines if line.endswith(": done (--repair deletes it; the next run makes it again)")]
    assert last.endswith(": 0 faults, 2 adopted, 2 set aside as NAME.damaged")


def test_a_name_that_is_taken_is_not_overwritten(store):
    path = next(store.glob("pool/*/*.parquet"))
    for content in (b"first", b"second"):
        path.write_bytes(content)
        damage.diagnosis(store, RECORDS, Progress(), repair=True)
    assert path.with_name(f"{path.name}.damaged").read_bytes() == b"first"
    assert path.with_name(f"{path.name}.damaged1").read_bytes() == b"second"


def test_what_is_wrong_with_plugins_is_printed_with_its_trace_and_counted(capsys):
    report = {"registered": {"task": 1, "selector": 2}, "graders": {"mbpp": "cannot grade here"}, "faults": []}
    tables.diagnosis(report)
    out = capsys.readouterr().out
    assert out.splitlines()[:2] == ["registered: 1 task, 2 selectors", "mbpp: cannot grade here"]
    assert out.endswith("no faults\n")
    tables.diagnosis(report | {"faults": [{"fault": "broken", "trace": "Traceback\n"}, {"fault": "old", "trace": ""}]})
    assert capsys.readouterr().out.endswith("\nbroken\nTraceback\n\nold\n\n2 faults\n")
