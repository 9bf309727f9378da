"""The published results: their cells count, each comes from a study, and the documents say what the cells say."""

import re
import sys
from pathlib import Path

import pytest
from support.documents import table_rows
from support.paths import ROOT
from support.processes import run_to_end

from harness.jobs import study
from harness.results import leaderboard
from harness.results.published import places, read
from studies.screens import HALF, SCREENS

RESULTS = ROOT / "results"


@pytest.fixture(scope="module")
def published():
    """Every published cell, checked, by its place."""
    return {place: read(place) for place in places([RESULTS])}


@pytest.mark.slow
def test_the_cells_can_be_counted_are_no_burden_and_come_from_studies(published):
    assert len(published) > 500
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert len(files) <= 40
    assert sum(path.stat().st_size for path in files) < 4 * 2**20
    studies = map(study.read_study, sorted((ROOT / "studies").glob("*.toml")))
    studied = {(options["task"], options.get("model"), options.get("limit")) for options in studies}
    screens = {f"{name}-{half}.csv" for name in SCREENS for half in HALF}
    for place, cell in published.items():
        config = cell["config"]
        if "task" not in config:
            assert Path(config["pool"]).name in screens, place
        elif not config.get("model", "").startswith("tiny24-"):
            assert (config["task"], config.get("model"), config.get("limit")) in studied, place


@pytest.mark.slow
def test_tables_and_figures_of_the_documents_are_made_from_the_cells_to_the_byte():
    """But for two figures, which take as long as all tables."""
    assert leaderboard.validate([RESULTS]) == []
    code = "import sys; sys.path.insert(0, 'docs'); sys.argv += ['--check']; import from_results as made\n"
    code += "del made.FIGURES['strength'], made.FIGURES['samplers']; sys.exit(made.main())"
    made = run_to_end([sys.executable, "-c", code], cwd=ROOT)
    assert (made.returncode, made.stdout) == (0, ""), made.stderr


def test_the_readmes_table_says_what_each_order_reads_and_how_far_its_mean_goes():
    heads, *rows = table_rows("README.md", "best-selectors")
    assert heads[:4] == ["selector", "reads", "language models' answers, first hit", "[pools like these]"]
    reads = {row[0]: row[1] for row in rows}
    assert {name for name, text in reads.items() if "answers" in text} == {"answer-coverage"}
    assert {"facility-location", "repexp"} <= reads.keys()
    every = {row[0]: row for row in table_rows("docs/which-selector.md", "all-selectors")}
    assert all(row[:4] == every[row[0]][:4] for row in rows if row[2] != "-")  # controls: on screens alone
    assert every["dedup"][1] == "texts"
    assert "outcomes" in every["outcome-ucb-seen (learns)"][1]


def test_the_readmes_range_on_hard_puzzles_covers_every_pool_that_was_measured():
    advice = (ROOT / "docs" / "which-selector.md").read_text()
    [apart] = re.findall(r"and random ([\d.]+) and ([\d.]+) times those of RepExp", " ".join(advice.split()))
    puzzles = [row for row in table_rows("docs/which-selector.md", "hard-pools") if "Game of 24" in row[0]]
    measured = [*map(float, apart), *(float(row[3].split()[0]) for row in puzzles)]
    [(low, high)] = re.findall(r"needs ([\d.]+) to ([\d.]+) times fewer calls", (ROOT / "README.md").read_text())
    assert (float(low), float(high)) == (round(min(measured), 1), round(max(measured)))


@pytest.mark.slow
def test_the_ridges_of_repexp_are_published_on_two_pools_as_their_cells_have_them(published):
    heads, *rows = table_rows("docs/paper.md", "by-ridge")
    by_pool = {}
    for cell in published.values():
        name, _, ridge = cell["labels"]["selector"].partition(":lam=")
        if (name, cell["labels"]["embedder"]) == ("repexp", "tfidf"):
            random = sum((entry["n"] + 1) / (entry["c"] + 1) for entry in cell["problems"])
            calls = sum(sum(entry["ranks"]) / len(entry["ranks"]) for entry in cell["problems"])
            by_pool.setdefault(cell["inputs"]["verdict"]["key"], {})[f"λ = {ridge or 1}"] = f"{random / calls:.3f}"
    assert heads[1:] == ["λ = 1", "λ = 0.1", "λ = 0.01", "λ = 0.001"]
    assert len(rows) == 2
    for row in rows:
        shown = {head: text.split()[0] for head, text in zip(heads, row, strict=True) if "λ" in head}
        assert shown in [{head: ridges.get(head) for head in heads[1:]} for ridges in by_pool.values()]
