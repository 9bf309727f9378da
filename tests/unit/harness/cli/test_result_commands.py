"""`harness leaderboard`, `compare` and `results`: what a person sees, and where tables are written."""

import pytest
from support.cells import cell, entry, failed_cell, keep, subset_entry
from support.paths import TOY

from harness.results import leaderboard
from harness.scoring import stats

SPREAD = [entry("a", [1, 3]), entry("b", [4, 4]), entry("c", [2, 6])]
SHUFFLE = [entry("a", [2, 2]), entry("b", [7, 5]), entry("d", [1, 1])]
HEAD = [subset_entry("a", [4, 4]), subset_entry("b", [4, 4]), subset_entry("c", [8, 2])]


@pytest.mark.slow
def test_a_comparison_says_on_which_problems_the_first_does_better(harness, tmp_path):
    def compared(*pair):
        outcome = harness("compare", *(path.stem for path in keep(tmp_path / "cells", *pair)), "--store", tmp_path)
        assert outcome.code == 0, outcome.err
        return outcome.out

    keep(tmp_path / "cells", cell(SPREAD, seed=1), cell(SHUFFLE, "shuffle", 1), cell(SHUFFLE, "shuffle", 2))
    calls, hits = compared(cell(SPREAD), cell(SHUFFLE, "shuffle")), compared(cell(SPREAD), cell(HEAD, "head"))
    for line in (
        "spread (none, 2 seeds): 3.00 calls; shuffle (none, 2 seeds): 4.00 calls; 2 problems, 2 that only one has left",
        "; 1 cells of a seed that only one has left out",
        "below 0 the first needs fewer",
        "the first needs fewer on 1 problems: b (4.0 for 6.0)",
        "the first needs more on 0 problems",
    ):
        assert line in calls
    for line in (
        "head (none): pass@2 16.7 %",
        "difference +16.67 [",
        "points; above 0 the first hits more",
        "the first hits more on 1 problems: a (0.5 for 0.0)",
    ):
        assert line in hits
    absurd = [cell([entry("a", [a], c=1), entry("b", [b], c=1)], str(a)) for a, b in ((1, 8), (8, 1))]
    assert f"difference [-]: {stats.BEYOND_RANGE}" in compared(*absurd)


def test_a_comparison_ends_with_how_many_times_fewer_calls_the_first_needs(harness, tmp_path):
    many = [cell([entry(f"p{i}", [1 + rank * (i % 4)] * 2) for i in range(40)], str(rank)) for rank in (1, 2)]
    paths = keep(tmp_path, *many)
    out = harness("compare", *paths).out.split(
        "calls for the pass@k that the second has at k; above 1 the first needs fewer\n"
    )[1]
    lines = [line.split() for line in out.splitlines()]
    assert ["2", "25.0", "1", "1.0", "1.00", "[1.00,", "1.00]"] in lines
    assert ["8", "100.0", "7", "4.0", "1.75", "[-]"] in lines
    assert "largest factor: 1.67, at k = 5\n" in out
    assert "times fewer [-]: fewer than 5 problems lie between this pass@k and 0" in out
    never = keep(tmp_path, cell([entry(f"p{i}", [9, 9], c=0) for i in range(40)], "never", pool="other"))
    assert ["1", "25.0", "1", "never", "-"] in [
        line.split() for line in harness("compare", *never, paths[0]).out.splitlines()
    ]


def test_tables_are_written_beside_a_stores_cells_and_what_is_not_counted_is_named(harness, tmp_path):
    paths = keep(tmp_path / "cells", cell(SPREAD), cell(HEAD, "head"), failed_cell("twice", "index 0 was picked twice"))
    paths[1].write_text("{")
    outcome = harness("leaderboard", tmp_path / "cells")
    assert outcome.code == 0
    assert outcome.err.startswith(f"not counted: cell {paths[1]}: not JSON")
    assert "failed: twice: index 0 was picked twice" in outcome.out
    assert sorted(path.name for path in tmp_path.glob("leaderboard.*")) == sorted(leaderboard.NAMES)
    quiet = harness("leaderboard", tmp_path / "cells", "--quiet", "--out", tmp_path / "out")
    assert quiet.out.startswith("written: ")
    boards = harness("leaderboard", tmp_path / "cells", "--json").rows
    assert [row["selector"] for board in boards for row in board["rows"]] == ["spread"]


def test_cells_are_published_and_checked(harness, tmp_path):
    keep(tmp_path / "cells", cell(SPREAD))
    assert harness("results", "validate", tmp_path / "results").code == 2
    shown = harness("results", "publish", "--store", tmp_path, "--to", tmp_path / "results")
    assert shown.out.split(": conformance ")[1].startswith("not tried: unknown selector 'spread'")
    valid = harness("results", "validate", tmp_path / "results")
    assert (valid.code, valid.out) == (0, "all cells can be counted\n")
    (tmp_path / "results" / "colours.parquet").write_text("{")
    assert harness("results", "validate", tmp_path / "results").code == 1


def test_a_run_until_correct_is_shown_as_shares_and_restricted_means(harness, tmp_path):
    fixed = ("--task", "colours", "--engine", "toy", "--plugin", TOY, "--store", tmp_path, "--until-correct")
    shown = harness("run", *fixed, "--n", "2", "--limit", "3").out
    assert "restricted mean at k" in shown
    assert "3 problems, " in shown
    assert " censored; " in shown
