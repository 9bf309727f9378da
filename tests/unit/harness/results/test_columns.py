"""The texts of a table's columns: digits, dashes, what is marked, and why an interval is missing."""

from __future__ import annotations

from dataclasses import replace

from support.cells import cell, entry, subset_entry

from harness.results import cells
from harness.results.columns import (
    MARKDOWN,
    TERMINAL,
    absent_intervals,
    chance,
    columns,
    gain,
    improvement,
    k95,
    lines,
    percent,
    shares,
)
from harness.scoring import stats

RANKER = cells.row(cell([entry(f"p{i}", [2, 2]) for i in range(4)]))
SUBSETS = cells.row(cell([subset_entry(f"p{i}", [1, 4]) for i in range(4)], "head"))


def texts(row, style, rows=None):
    """Heading -> text of the row, and -> text of each reference."""
    shown = columns(rows or [row], style)
    references, [line] = lines([row], shown)
    heads = [column.head for column in shown]
    return dict(zip(heads, line, strict=True)), [dict(zip(heads, each, strict=True)) for each in references]


def test_a_ranker_has_calls_improvement_p_shares_gain_and_k95():
    shown, [random, oracle, worst] = texts(RANKER, TERMINAL)
    assert shown["samples-to-\ncorrect"] == "2.00"
    assert shown["improvement\n[95 %]"] == "1.50 [1.50, 1.50]"
    assert (shown["p\n"], shown["win/tie/loss\n%"], shown["k95\n(saved)"]) == ("0.32", "54/21/25", "2 (+4)")
    assert shown["gain@2\npoints [95 %]"] == "+53.6 [+53.6, +53.6]"
    assert [shown[f"pass@{k}\n%"] for k in (1, 4)] == ["0.0", "100.0"]
    assert "pass@16\n%" not in shown
    assert (random["selector"], oracle["selector"], worst["selector"]) == ("random (exact)", "oracle", "anti-oracle")
    calls = [(line["samples-to-\ncorrect"], line["improvement\n[95 %]"]) for line in (random, oracle, worst)]
    assert calls == [("3.00", "1"), ("1.00", "3.00"), ("7.00", "0.43")]
    assert [line["k95\n(saved)"] for line in (random, oracle, worst)] == ["6", "", ""]
    assert [line["pass@1\n%"] for line in (random, oracle, worst)] == ["25.0", "100.0", "0.0"]


def test_a_published_table_has_more_digits_and_q_once_rows_were_corrected():
    row = replace(RANKER, q_random=0.0123456, dist="toy", conformance="passes 31", seeds=(0, 1))
    shown, [random, *_] = texts(row, MARKDOWN)
    assert (shown["samples-to-\ncorrect"], shown["win / tie / loss\n%"]) == ("2", "53.6 / 21.4 / 25.0")
    assert (shown["q\n"], shown["conformance"], shown["seeds"]) == ("0.01235", "passes 31", "2")
    assert (random["k95"], texts(replace(RANKER, k95_random=None), MARKDOWN)[1][0]["k95"]) == ("6", "-")
    assert texts(row, TERMINAL)[0]["q\n"] == "0.012"


def test_a_subset_method_has_dashes_where_a_rank_is_needed_and_marks_its_budget():
    shown, _ = texts(SUBSETS, TERMINAL)
    assert [shown[head] for head in ("samples-to-\ncorrect", "improvement\n[95 %]", "k95\n(saved)")] == ["-"] * 3
    assert shown["win/tie/loss\n%"] == "27/50/23 @2"
    assert shares(replace(SUBSETS, win_budget=None), TERMINAL) == "-"


def test_what_does_not_exist_is_a_dash():
    bare = replace(RANKER, improvement_ci=None, gain_at_k_ci={"2": None}, k95=None)
    assert (improvement(bare, TERMINAL), gain(bare), k95(bare)) == ("1.50 [-]", "+53.6 [-]", "-")
    assert gain(replace(RANKER, budget=None)) == percent(None) == chance(None) == "-"
    assert (chance(9e-10), chance(1e-9), percent(0.123456)) == ("<1e-9", "1e-09", "12.3")
    assert "gain\npoints [95 %]" in texts(replace(RANKER, budget=None), TERMINAL)[0]


def test_the_embedder_is_kept_in_a_narrow_table_only_where_several_are_compared():
    several = [replace(RANKER, embedder=name) for name in ("none", "a", "b")]
    assert [columns(rows, TERMINAL)[1].kept for rows in (several[:2], several)] == [0, 9]


def test_each_reason_for_a_missing_interval_is_named_once_with_its_selectors():
    wide = {"improvement_ci": stats.TOO_WIDE, "gain_at_k_ci": f"k = 2: {stats.BEYOND_RANGE}"}
    first = replace(RANKER, no_interval=wide, gain_at_k_ci={"2": None})
    elsewhere = replace(RANKER, selector="b", no_interval=wide)  # its gain at the budget shown has an interval
    assert absent_intervals([first, elsewhere, RANKER]) == [
        f"improvement [-]: {stats.TOO_WIDE} (spread, b).",
        f"gain [-]: {stats.BEYOND_RANGE} (spread).",
    ]
