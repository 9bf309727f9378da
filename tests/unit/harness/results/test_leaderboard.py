"""Leaderboards: a table for each pool, the same bytes from the same cells, and what cannot be counted is listed."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import shutil

import pytest
from support.cells import cell, entry, failed_cell, keep, keyed, subset_entry
from support.paths import ROOT
from support.refusals import refusal_of

from harness.results import leaderboard
from harness.results.leaderboard import Gathered, as_csv, as_json, boards, gather, markdown, place
from harness.scoring import stats
from harness.store.keys import digest

SLOW, FAST = ([entry(f"p{i}", [rank, rank]) for i in range(4)] for rank in (5, 2))
HEAD = [subset_entry(f"p{i}", [1, 4]) for i in range(4)]
CELLS = [cell(SLOW, "slow"), cell(FAST, "fast"), cell(FAST, "fast", sampler="nucleus:p=0.8", pool="nucleus")]
CELLS += [cell(HEAD, "head"), cell([subset_entry("p0", [1, 1]), *HEAD[1:]], "ahead")]
CELLS += [failed_cell("twice", "index 0 was picked twice")]


def made(*several):
    """The tables of cells that were not read from a folder."""
    measured = [each for each in several if "failed" not in each]
    return boards(Gathered(keyed(*measured), keyed(*(each for each in several if "failed" in each))))


def test_each_pool_has_a_table_with_the_fewest_calls_first_and_then_the_largest_gain():
    tables = made(*CELLS)
    shown = {table.about["sampler"]: [row.selector for row in table.rows] for table in tables if table.rows}
    assert shown == {"nucleus:p=0.8": ["fast"], "vanilla": ["fast", "slow", "ahead", "head"]}
    text = markdown(tables, [])
    assert "| random (exact) |" in text
    assert "| anti-oracle |" in text
    assert re.search(r"^- failed: twice: index 0 was picked twice$", text, re.M)
    assert "| twice |" not in text


def test_rows_are_corrected_together_a_ranker_by_its_ranks_and_a_subset_method_by_its_hits():
    table = next(table for table in made(*CELLS) if len(table.rows) == 4)
    p = [row.p_random for row in table.rows[:2]] + [row.p_budget for row in table.rows[2:]]
    assert None not in p
    assert [row.q_random for row in table.rows] == stats.false_discovery_rates(p)


def test_other_pools_graders_sizes_and_problems_stand_in_other_tables():
    changed = ({"verdict": {"grader": "2"}}, {"verdict": {"code": "1"}}, {"ranking": {"n": 4}})
    others = [cell(FAST, inputs=inputs) for inputs in (*changed, {"pool": {"task": {"revision": "2"}}})]
    others += [cell(FAST, **{name: "other"}) for name in ("task", "split", "model", "engine", "sampler")]
    others += [cell(FAST, seed=1), cell(FAST[:3])]
    assert [place for place, other in enumerate(others) if len(made(cell(SLOW, "slow"), other)) != 2] == []
    several = [cell(FAST, seed=seed) for seed in (0, 1)]
    [joined, alone] = sorted(made(*several, cell(SLOW, "slow")), key=lambda table: table.rows[0].selector)[::-1]
    assert (len(joined.about["pools"]), len(alone.about["pools"])) in ((1, 2), (2, 1))
    assert "| selector | embedder | seeds |" in markdown(made(*several), [])
    assert "seeds" not in markdown(made(several[0]), []).split("|", 1)[1]


def test_the_tables_come_back_byte_for_byte_however_the_cells_lie(tmp_path):
    paths = keep(tmp_path / "whole", *CELLS)
    written = leaderboard.write(tmp_path / "whole", gather([tmp_path / "whole"]))
    assert [path.name for path in written] == list(leaderboard.NAMES)
    first = [path.read_bytes() for path in written]
    random.Random(0).shuffle(paths)
    for number, path in enumerate(paths):
        folder = tmp_path / "split" / str(number % 2) / f"deep{number}"
        folder.mkdir(parents=True)
        shutil.copy(path, folder)
    content = gather([tmp_path / "split" / "1", tmp_path / "split" / "0"])
    assert [path.read_bytes() for path in leaderboard.write(tmp_path / "out", content)] == first
    assert gather([tmp_path / "whole"], orders=True).measured != content.measured


@pytest.mark.slow
def test_the_published_tables_are_those_of_the_published_cells():
    content = gather([ROOT / "results"])
    assert content.faults == []
    assert len(content.measured) >= 20
    tables = boards(content)
    texts = (markdown(tables, []), as_csv(tables), as_json(tables))
    assert [(ROOT / "results" / name).read_text() for name in leaderboard.NAMES] == list(texts)


def test_figures_have_four_significant_digits():
    rows = [row for table in json.loads(as_json(made(*CELLS))) for row in table["rows"]]
    values = [value for row in rows for value in row.values() if isinstance(value, float)] + rows[0]["improvement_ci"]
    assert values == [float(f"{value:.4g}") for value in values]


def test_a_line_of_csv_has_a_column_for_each_end_and_each_budget():
    rows = list(csv.DictReader(io.StringIO(as_csv(made(cell(FAST), cell(FAST, seed=1), cell(SLOW, "slow"))))))
    by_name = {row["selector"]: row for row in rows}
    assert (by_name["spread"]["seeds"], by_name["slow"]["seeds"]) == ("0 1", "0")
    assert len(by_name["spread"]["cells"].split()) == len(by_name["spread"]["pools"].split()) == 2
    assert float(by_name["slow"]["improvement_ci_low"]) <= float(by_name["slow"]["improvement_ci_high"])
    assert (by_name["slow"]["pass_at_k_4"], by_name["slow"]["pass_at_k_8"]) == ("0.0", "1.0")
    assert by_name["slow"]["task"] == "colours"


def test_what_cannot_be_counted_is_named_and_the_rest_still_counts(tmp_path):
    good, edited = keep(tmp_path, CELLS[0], CELLS[1])
    untrained = cell(FAST, "untrained") | {"weights": [{"is_random": True}]}
    [random_weights] = keep(tmp_path, untrained)
    (tmp_path / "half.json").write_text('{"kind": "diversity-harness cell", "schema"')
    edited.write_text(edited.read_text().replace('"errors":0', '"errors":1', 1))
    content = gather([tmp_path])
    assert (list(content.measured), len(content.faults)) == ([good.stem], 3)
    assert content.faults == sorted(content.faults)
    assert f"cell {random_weights}: was made with random weights: it is a test, no result" in content.faults
    text = markdown(boards(content), content.faults)
    assert text.count("\n- cell ") == 3
    assert "no such folder" in refusal_of(gather, [tmp_path / "nowhere"])


@pytest.mark.parametrize(("failed", "shown"), [([], "passes 31"), (["permutation", "nan"], "fails 2")])
def test_the_badge_is_what_the_kit_says_of_the_selector(tmp_path, failed, shown):
    keep(tmp_path, CELLS[0])
    badge = tmp_path / "conformance" / f"{digest(CELLS[0]['inputs']['ranking']['selector'])}.json"
    badge.parent.mkdir()
    badge.write_text(json.dumps({"failed": failed, "passed": 31}))
    [table] = boards(gather([tmp_path]))
    assert (table.rows[0].conformance, table.rows[0].dist) == (shown, "toy")
    assert f"| {shown} |" in markdown([table], [])


def test_tables_go_beside_a_stores_cells_and_never_among_the_cells_of_one_task(tmp_path):
    keep(tmp_path / "runs" / "cells", CELLS[0])
    keep(tmp_path / "results" / "colours", CELLS[0])
    assert place(tmp_path / "runs" / "cells", None) == tmp_path / "runs"
    assert place(tmp_path / "results", None) == tmp_path / "results"
    assert place(tmp_path / "results" / "colours", None) is None
    assert place(tmp_path / "results" / "colours", tmp_path / "out") == tmp_path / "out"
    keep(tmp_path / "runs", CELLS[0])
    assert place(tmp_path / "runs" / "cells", None) is None


def test_a_name_in_a_table_stays_text():
    hostile = "![x](y)|<b>"
    text = markdown(made(cell(FAST, hostile, task=hostile)), [hostile])
    assert "![" not in text
    assert "<b>" not in text
    assert "|" in text
    key = "`](x) <b>|a.b-c_1"
    assert leaderboard._code(key) == "xba.b-c_1"


def test_remarks_name_absent_intervals_disputed_grades_and_fallbacks():
    entries = [entry(f"p{i}", [8 - 7 * i, 8 - 7 * i], c=1, disputed=i, routes={"fallback": 1}) for i in (0, 1)]
    [table] = made(cell(entries))
    shown = " ".join(leaderboard.remarks_on(table.rows))
    assert f"improvement [-]: {stats.TOO_WIDE} (spread)." in shown
    assert "disputed grades: 1." in shown
    assert "correct by a fallback, not stated as asked: 2 of 2 verdicts, 100.0 %" in shown
    assert "[-]" in leaderboard.markdown([table], [])
