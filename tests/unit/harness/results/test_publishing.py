"""Where tables are written, what names in them can do, what a failed publish leaves, and intervals that say nothing."""

import csv
import io
import json
import re
import shutil

import numpy as np
import pytest
from support.json_lines import write_json_lines

from harness.results import cells, inert_text, leaderboard
from harness.scoring import stats
from harness.scoring.metrics import Outcomes, summary

SPREADSHEET = ("=", "+", "-", "@", "\t", "\r", "'")


@pytest.fixture
def graded(harness, tmp_path):
    """Run a pool of given verdicts, {problem: verdicts}; the run's rows."""

    def call(verdicts, *selectors, **options):
        lines = [
            {"problem_id": name, "responses": [f"{name} {i}" for i in range(len(given))], "correct": given}
            for name, given in verdicts.items()
        ]
        pool = write_json_lines(tmp_path / "pool.jsonl", lines)
        chosen = [word for name in selectors or ("uniform",) for word in ("--selector", name)]
        outcome = harness(
            "run", "--pool", pool, *chosen, "--store", tmp_path / "runs", *options.get("more", ("--json",))
        )
        assert outcome.code == 0, outcome.err
        return outcome.rows if "more" not in options else outcome

    return call


EASY = {f"p{i}": [True, False] * 4 for i in range(4)}
ABSURD = {"a": [False] * 63 + [True], "b": [True] + [False] * 63}  # in this order ranks 64 and 1


# Where.


def test_an_empty_folder_is_not_all_right(harness, tmp_path):
    outcome = harness("results", "validate", tmp_path)
    assert (outcome.code, outcome.out.strip()) == (
        1,
        f"results {tmp_path}: holds no cells; `harness results publish` copies them there",
    )


def test_the_tables_of_a_stores_cells_go_beside_them_and_publish_works_afterwards(harness, graded, tmp_path):
    graded(EASY)
    folder = tmp_path / "runs" / "cells"
    before = sorted(folder.iterdir())
    outcome = harness("leaderboard", folder, "--quiet")
    assert outcome.code == 0, outcome.err
    assert sorted(folder.iterdir()) == before
    assert all((tmp_path / "runs" / name).exists() for name in leaderboard.NAMES)
    shutil.copy(tmp_path / "runs" / "leaderboard.json", folder)  # as an older version left it
    published = harness("results", "publish", "--store", tmp_path / "runs", "--to", tmp_path / "results", "--json")
    assert (published.code, len(published.rows)) == (0, 1)
    assert harness("results", "validate", tmp_path / "results").out == "all cells can be counted\n"


def test_the_tables_of_one_task_are_shown_and_written_only_where_it_is_said(harness, graded, tmp_path):
    graded(EASY)
    harness("results", "publish", "--store", tmp_path / "runs", "--to", tmp_path / "results")
    folder = tmp_path / "results" / "pool"
    outcome = harness("leaderboard", folder)
    assert (outcome.code, "uniform" in outcome.out) == (0, True)
    assert f"not written: {folder} holds cells" in outcome.err
    assert list(tmp_path.rglob("leaderboard.*")) == []
    assert harness("leaderboard", folder, "--out", tmp_path / "out").code == 0
    assert len(list((tmp_path / "out").iterdir())) == 3


# Publishing.


def test_a_publish_that_meets_a_bad_cell_leaves_nothing(harness, graded, tmp_path):
    graded(EASY, "uniform", "in-order")
    last = sorted((tmp_path / "runs" / "cells").glob("*.json"))[-1]
    last.write_text(last.read_text().replace('"errors":0', '"errors":1', 1))
    outcome = harness("results", "publish", "--store", tmp_path / "runs", "--to", tmp_path / "results")
    assert (outcome.code, "was edited or cut" in outcome.err) == (2, True)
    assert not (tmp_path / "results").exists()


def test_a_publish_that_cannot_write_takes_back_what_it_wrote(harness, graded, tmp_path):
    graded(EASY, "uniform", "in-order")
    first, last = sorted((tmp_path / "runs" / "cells").glob("*.json"))
    results = tmp_path / "results"
    (results / "pool" / last.name).mkdir(parents=True)  # no file can be put there
    publish = ("results", "publish", "--store", tmp_path / "runs", "--to", results)
    assert harness(*publish).code == 2
    assert [path.name for path in results.rglob("*") if path.is_file()] == []
    assert not (results / "conformance").exists()
    (results / "pool" / first.name).write_text("as it was")
    assert harness(*publish).code == 2
    assert (results / "pool" / first.name).read_text() == "as it was"


# Names.

HOSTILE = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "'=1",
    "[x](http://evil)",
    "![x](y)",
    "a|b",
    "<img src=x>",
    "a\nb",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_inert_in_every_table(harness, graded, tmp_path, name):
    graded(EASY)
    (path,) = (tmp_path / "runs" / "cells").glob("*.json")
    cell = json.loads(path.read_text())
    cell["labels"] |= {"selector": name, "embedder": name, "task": name, "sampler": name}
    cell["checksum"] = cells.checksum(cell)
    path.write_text(json.dumps(cell))
    outcome = harness("leaderboard", path.parent, "--out", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    (row,) = csv.DictReader(io.StringIO((tmp_path / "leaderboard.csv").read_bytes().decode(), newline=""))
    assert inert_text.csv_text(row["selector"]) == name
    for value in row.values():
        assert not value.startswith(SPREADSHEET) or value.startswith("'") or float(value) is not None
    text = (tmp_path / "leaderboard.md").read_text()
    (line,) = [
        line for line in text.splitlines() if line.startswith("| ") and line.count("pool") == 0 and "0.9" in line
    ][:1] or [text.splitlines()[-1]]
    cell_of_name = re.split(r"(?<!\\)\|", line)[1]
    assert re.search(r"(?<!\\)[\[\]()!<>]", cell_of_name) is None
    assert json.loads((tmp_path / "leaderboard.json").read_text())[0]["rows"][0]["selector"] == name


@pytest.mark.parametrize("text", [*HOSTILE, "", "repexp:lam=1", "'", "''", " =1", "\uff1d1"])
def test_a_csv_cell_gives_back_what_it_was_given(text):
    assert inert_text.csv_text(inert_text.csv_cell(text)) == text
    assert not inert_text.csv_cell(text).startswith(inert_text.FORMULA)


def test_numbers_and_ordinary_names_stay_as_they_are():
    assert [inert_text.csv_cell(value) for value in (-1.5, 3, None, "k-dpp", "repexp:lam=1")] == [
        *(-1.5, 3, None, "k-dpp", "repexp:lam=1")
    ]


def test_a_task_cannot_publish_outside_of_the_folder(harness, graded, tmp_path):
    graded(EASY)
    (path,) = (tmp_path / "runs" / "cells").glob("*.json")
    cell = json.loads(path.read_text())
    cell["labels"]["task"] = "../../gone/x"
    cell["checksum"] = cells.checksum(cell)
    path.write_text(json.dumps(cell))
    (row,) = harness("results", "publish", "--store", tmp_path / "runs", "--to", tmp_path / "results", "--json").rows
    assert row["file"] == str(tmp_path / "results" / ".._.._gone_x" / path.name)


# Intervals that say nothing.


def test_an_interval_of_a_factor_of_ten_or_more_is_none():
    wide = stats.ratio_intervals(np.array([[32.5], [32.5], [32.5]]), np.array([[64.0], [1.0], [2.0]]), 0)
    assert wide == [None]
    rng = np.random.default_rng(0)
    (ends,) = stats.ratio_intervals(rng.integers(1, 65, (30, 1)), rng.integers(1, 65, (30, 1)), 0)
    assert 1 < ends[1] / ends[0] < stats.WIDEST**2


def test_a_row_says_why_it_has_no_interval():
    n, c = np.array([64, 64]), np.array([1, 1])
    row = summary(Outcomes(n, c, np.zeros(2, int), ranks=np.array([[64], [1]])))
    assert (row["improvement_ci"], row["no_interval"]["improvement_ci"]) == (None, stats.TOO_WIDE)
    one = summary(Outcomes(n[:1], c[:1], np.zeros(1, int), ranks=np.array([[60]])))
    assert one["no_interval"]["improvement_ci"] == stats.ONE_PROBLEM
    n, c = np.full(200, 64), np.tile([4, 8, 16, 32], 50)
    ranks = np.random.default_rng(0).integers(1, 20, (200, 5))
    assert "no_interval" not in summary(Outcomes(n, c, np.zeros(200, int), ranks=ranks))


def test_no_gain_of_more_than_all_is_shown():
    differences = np.array([[1.0], [-0.9], [0.1]])
    (ends,) = stats.difference_intervals(differences, 0)
    assert ends[1] > 1
    assert stats.difference_intervals(differences, 0, widest=1.0) == [None]


def test_an_interval_that_says_nothing_is_a_dash_with_its_reason_everywhere(harness, graded, tmp_path):
    rows = graded(ABSURD, "uniform", "in-order")
    assert (rows[1]["improvement_ci"], rows[1]["no_interval"]["improvement_ci"]) == (None, stats.TOO_WIDE)
    shown = graded(ABSURD, "uniform", "in-order", more=()).out
    store = tmp_path / "runs"
    board = harness("leaderboard", store / "cells").out
    markdown = (store / "leaderboard.md").read_text()
    for text in (shown, board, markdown):
        assert "[-]" in text or r"[-]" in text
        assert "a factor of ten or more either way" in " ".join(text.split())
    compared = ("compare", rows[0]["cell"], rows[1]["cell"], "--store", store)
    value = harness(*compared, "--json").rows
    assert (value["difference_ci"], value["no_interval"]["difference_ci"]) == (None, stats.BEYOND_RANGE)
    assert f"difference [-]: {stats.BEYOND_RANGE}" in harness(*compared).out
    assert harness("report", "--store", store).code == 0
    assert stats.TOO_WIDE in (store / "report.html").read_text()
