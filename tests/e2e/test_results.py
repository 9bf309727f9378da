"""The published results: their cells count, each comes from a study, and the documents say what the cells say."""

import json
import subprocess
import sys

import pytest
from support.paths import ROOT

from harness.results import cells, publishing
from harness.running import study

RESULTS = ROOT / "results"
STUDIES = sorted((ROOT / "studies").glob("*.toml"))


def test_the_cells_can_be_counted_and_are_no_burden():
    assert publishing.validate([RESULTS]) == []
    files = cells.files([RESULTS])
    assert 100 < len(files) <= 800
    assert sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()) < 40e6


@pytest.mark.slow
def test_tables_and_figures_of_the_documents_are_made_from_the_cells_to_the_byte():
    made = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "from_results.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert (made.returncode, made.stdout) == (0, ""), made.stderr


def test_every_published_cell_comes_from_a_study():
    studied = {
        (options["task"], options.get("model"), options.get("limit")) for options in map(study.read_study, STUDIES)
    }
    for path in cells.files([RESULTS]):
        config = json.loads(path.read_text())["config"]
        assert (config["task"], config.get("model"), config.get("limit")) in studied or config.get(
            "model", ""
        ).startswith("tiny24-"), path
