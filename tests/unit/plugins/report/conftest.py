"""The report of one run, made once and only read, and the command that makes another."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.paths import TOY
from support.report_page import parsed

from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.system.progress import Progress
from harness_plugins.report.writing import write_report


@dataclass
class Shown:
    """A run's store, the table's row of each selector, the report's file and its data. Not to be changed."""

    store: Path
    rows: dict[str, dict[str, Any]]
    path: Path
    data: dict[str, Any]


@pytest.fixture(scope="session")
def shown(tmp_path_factory):
    """The report of repexp, shuffle, spread and the subset method head on the toy's six problems."""
    root, selectors = tmp_path_factory.mktemp("report") / "runs", ("repexp", "shuffle", "spread", "head")
    config = RunConfig(task="colours", engine="toy", selectors=selectors, plugin_files=[TOY], store=root)
    rows, _ = pipeline.run(config, Progress())
    path = write_report(root, (), None, [TOY], Progress())
    return Shown(root, {row.selector: row.to_json() for row in rows}, path, parsed(path)[0])


@pytest.fixture
def copied(shown, tmp_path):
    """A copy of that run's store, at the place where `toy` adds to it."""
    return Path(shutil.copytree(shown.store, tmp_path / "runs"))


@pytest.fixture
def report(harness, tmp_path):
    """Make the report of tmp_path/runs: its data; `report.path` and `report.err` are of the last."""

    def call(*args, plugin=TOY, store=tmp_path / "runs"):
        outcome = harness("report", "--store", store, *(("--plugin", plugin) if plugin else ()), *args)
        assert outcome.code == 0, outcome.err
        call.err, call.path = outcome.err, Path(outcome.out.strip())
        return parsed(call.path)[0]

    return call
