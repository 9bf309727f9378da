"""Leaderboards: a table for each pool, the same bytes from the same cells, and what cannot be counted is listed.

Also how names of plugins and users stay text there (`inert_text`).
"""

import csv
import io
import json
import random
import re
import shutil

from support.cells import cell, entry, failed_cell, keep, keyed, subset_entry
from support.refusals import refusal_of

from harness.results import inert_text, leaderboard
from harness.results.leaderboard import Gathered, as_csv, as_json, boards, gather, markdown
from harness.scoring import stats
from harness.system.json_text import digest

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


def test_a_failure_is_shown_until_the_selector_has_a_result_on_that_pool():
    failed, problems = failed_cell("fast", "picked twice"), [entry("p0", [2]), entry("p1", [3])]
    for others, shown in (
        ([], True),
        ([cell(problems, "fast")], False),
        ([cell(problems, "fast", pool="another")], True),
        ([cell(problems, "slow")], True),
    ):
        failures = [failure for table in made(failed, *others) for failure in table.failed]
        assert failures == [("fast", "picked twice")] * shown


def test_versions_of_a_selector_in_one_table_are_told_apart():
    edited = cell(SLOW, "fast", inputs={"ranking": {"code": "2"}})
    (table,) = made(cell(FAST, "fast"), edited, cell(SLOW, "slow"))
    names = [row.name for row in table.rows]
    assert len(set(names)) == 3
    assert "slow" in names
    assert "fast" not in names
    assert "2 versions of fast" in markdown([table], [])


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
    written = leaderboard.write(tmp_path / "whole", content := gather([tmp_path / "whole"]), boards(content))
    assert [path.name for path in written] == list(leaderboard.NAMES)
    first = [path.read_bytes() for path in written]
    random.Random(0).shuffle(paths)
    for number, path in enumerate(paths):
        folder = tmp_path / "split" / str(number % 2) / f"deep{number}"
        folder.mkdir(parents=True)
        shutil.copy(path, folder)
    content = gather([tmp_path / "split" / "1", tmp_path / "split" / "0"])
    assert [path.read_bytes() for path in leaderboard.write(tmp_path / "out", content, boards(content))] == first
    assert gather([tmp_path / "whole"], orders=True).measured != content.measured


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


def test_a_published_table_has_at_most_eight_columns():
    several = made(*CELLS, *(cell(SLOW, "slow", seed=seed) for seed in (0, 1)), cell(FAST, embedder="tfidf"))
    heads = [line.count("|") - 1 for line in markdown(several, []).splitlines() if line.startswith("| selector")]
    assert len(heads) == sum(bool(table.rows) for table in several)
    assert max(heads) == 8


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


def test_the_badge_is_what_the_kit_says_of_the_selector(tmp_path):
    keep(tmp_path, CELLS[0])
    name = digest(CELLS[0]["inputs"]["ranking"]["selector"])
    line = "- slow fails 2 of the conformance kit's checks\n"
    for failed, shown in (([], "passes 31"), (["permutation", "nan"], "fails 2")):
        (tmp_path / "conformance.json").write_text(json.dumps({name: {"failed": failed, "passed": 31}}))
        [table] = boards(gather([tmp_path]))
        assert (table.rows[0].conformance, table.rows[0].dist) == (shown, "toy")
        assert (line in markdown([table], [])) == bool(failed)
        assert f"Conformance kit: {0 if failed else 1} of 1 rows pass." in markdown([table], [])
        assert shown in as_csv([table])


def test_a_name_in_a_table_stays_text():
    hostile = "![x](y)|<b>"
    text = markdown(made(cell(FAST, hostile, task=hostile)), [hostile])
    assert "![" not in text
    assert "<b>" not in text
    assert "|" in text
    assert "pool `xba.b-c_1`." in markdown(made(cell(FAST, pool="`](x) <b>|a.b-c_1")), [])


FORMULAS = [*(f"{start}1" for start in "=+-@\uff1d\uff0b\uff0d\uff20"), "\t=1", "\r=1", "\n=1", "'=1", " =1"]
HARMLESS = ["", "repexp:lam=1", "k-dpp", "a,b", 'a"b', -1.5, 3, None]


def test_a_text_that_a_spreadsheet_would_run_is_marked_and_comes_back():
    assert [inert_text.csv_cell(text) for text in FORMULAS] == [f"'{text}" for text in FORMULAS]
    assert [inert_text.csv_text(inert_text.csv_cell(text)) for text in [*FORMULAS, "'", "''"]] == [*FORMULAS, "'", "''"]
    assert [inert_text.csv_cell(value) for value in HARMLESS] == HARMLESS


def test_a_csv_table_has_all_names_in_order_of_appearance():
    rows = [{"a": 1, "b": "x,y"}, {"a": "=1", "c": None}, {"b": 'q"'}, {"c": "r\rs"}]
    assert inert_text.csv_table(rows) == 'a,b,c\n1,"x,y",\n\'=1,,\n,"q""",\n,,"r\rs"\n'


def test_markdown_starts_no_link_image_table_or_html():
    assert inert_text.markdown("a|b <script>`x`\n") == "a\\|b &lt;script&gt;'x' "
    hostile = "![x](http://evil/p.png) [=cmd|' /C calc'!A0](javascript:1) www.evil.org $x$ \\ *b* ~s~ & \u202e"
    shown = inert_text.markdown(hostile)
    assert shown.startswith(
        "\\!\\[x\\]\\(http:\\//evil/p.png\\) \\[=cmd\\|' /C calc'\\!A0\\]\\(javascript:1\\) www\\.evil"
    )
    assert re.search(r"(?<!\\)[\[\]()!|$*~<>]", shown) is None
    assert shown.endswith("&amp;  ")
    assert inert_text.markdown("repexp:lam=0.1,k=2 (x") == "repexp:lam=0.1,k=2 \\(x"
