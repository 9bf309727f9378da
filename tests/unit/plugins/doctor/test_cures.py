"""What `harness doctor` does with each kind of file that cannot be trusted, and what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.paths import TOY

from harness.results import cells
from harness.running import pipeline
from harness.running.config import RunConfig
from harness.store import shards
from harness.system.progress import Progress
from harness_plugins.doctor import damage, tables

RECORDS = {"cells": cells.read}


@pytest.fixture
def store(tmp_path):
    """The store of a run of two selectors on three problems."""
    fixed = {"task": "colours", "engine": "toy", "limit": 3, "plugin_files": [TOY], "store": tmp_path}
    pipeline.run(RunConfig(selectors=["spread", "head"], **fixed), Progress())
    return tmp_path


def files_of(store: Path, kind: str, pattern: str) -> list[Path]:
    return sorted(store.glob(f"{kind}/**/{pattern}"))


def test_what_a_run_makes_again_is_deleted_and_what_cost_money_is_set_aside_with_what_was_made_from_it(store):
    pool, other = files_of(store, "pool", "*.parquet")[:2]
    damaged = {
        pool: "--repair sets it aside; its problem is then sampled again",
        files_of(store, "cells", "*.json")[0]: "--repair sets it aside",
        files_of(store, "verdict", "manifest.json")[0]: "--repair sets it aside",
        files_of(store, "ranking", f"{other.stem}.json")[0]: "--repair deletes it; the next run makes it again",
    }
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-2])
    short = files_of(store, "embedding", f"{other.stem}.safetensors")[0]
    shards.write_vectors(short, shards.read_vectors(short)[:5])
    damaged[short] = "--repair deletes it; the next run makes it again"
    listed = damage.diagnosis(store, RECORDS, Progress())
    assert {Path(fault["path"]): fault["cure"] for fault in listed["faults"]} == damaged
    assert all(fault["left"] for fault in listed["faults"])
    assert all(path.exists() for path in damaged)
    repaired = damage.diagnosis(store, RECORDS, Progress(), repair=True)
    assert not any(fault["left"] for fault in repaired["faults"])
    aside = sorted(f"{path}.damaged" for path, cure in damaged.items() if "aside" in cure)
    assert repaired["set_aside"] == aside
    assert not any(path.exists() for path in damaged)
    assert files_of(store, "embedding", f"{pool.stem}.*") == files_of(store, "ranking", f"{pool.stem}.*") == []
    lines = damage.shown(repaired | {"adopted": 2}).splitlines()
    assert lines[0].startswith(f"{pool} ")
    assert lines[0].endswith(": done (--repair sets it aside; its problem is then sampled again)")
    assert lines[-1].endswith(": 0 faults, 2 adopted, 3 set aside as NAME.damaged")
    assert damage.diagnosis(store, RECORDS, Progress())["faults"] == []


def test_a_name_that_is_taken_is_not_overwritten(store):
    path = files_of(store, "pool", "*.parquet")[0]
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
