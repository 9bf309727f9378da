"""Leaderboards: a table for each pool, selectors across pools, names that stay text, and what cannot be counted."""

import math
import re

import numpy as np
import pytest
from scipy.stats import t
from support.cells import cell, entry, failed_cell, keep, keyed, subset_entry
from support.refusals import error_line, refusal_of

from harness.results import inert_text
from harness.results.leaderboard import Gathered, across, boards, gather, markdown
from harness.scoring import stats

SLOW, FAST = ([entry(f"p{i}", [rank, rank]) for i in range(4)] for rank in (5, 2))
HEAD = [subset_entry(f"p{i}", [1, 4]) for i in range(4)]


def made(*several):
    """The tables of cells that were not read from a folder."""
    measured = [each for each in several if "failed" not in each]
    return boards(Gathered(keyed(*measured), keyed(*(each for each in several if "failed" in each))))


def test_each_pool_has_a_table_with_the_fewest_calls_first_and_a_failure_until_there_is_a_result():
    failed = failed_cell("twice", "index 0 was picked twice")
    tables = made(
        *(cell(SLOW, "slow"), cell(FAST, "fast"), cell(FAST, "fast", sampler="nucleus:p=0.8", pool="nucleus")),
        *(cell(HEAD, "head"), cell([subset_entry("p0", [1, 1]), *HEAD[1:]], "ahead"), failed),
    )
    shown = {table.about["sampler"]: [row.selector for row in table.rows] for table in tables if table.rows}
    assert shown == {"nucleus:p=0.8": ["fast"], "vanilla": ["fast", "slow", "ahead", "head"]}
    text = markdown(tables, [])
    assert "| random (exact) |" in text
    assert re.search(r"^- failed: twice: index 0 was picked twice$", text, re.M)
    assert not [each for table in made(failed, cell([entry("p0", [2])], "twice")) for each in table.failed]
    [table] = [table for table in tables if len(table.rows) == 4]  # corrected together: rankers by ranks, sets by hits
    p = [row.p_random for row in table.rows[:2]] + [row.p_budget for row in table.rows[2:]]
    assert [row.q_random for row in table.rows] == stats.false_discovery_rates(p)


def test_other_versions_are_told_apart_and_other_pools_graders_sizes_and_problems_stand_in_other_tables():
    edited = cell(SLOW, "fast", inputs={"ranking": {"code": "2"}})
    (table,) = made(cell(FAST, "fast"), edited, cell(SLOW, "slow"))
    names = {row.name for row in table.rows}
    assert (len(names), "slow" in names, "fast" in names) == (3, True, False)
    assert "2 versions of fast" in markdown([table], [])
    changed = ({"verdict": {"grader": "2"}}, {"ranking": {"n": 4}}, {"pool": {"task": {"revision": "2"}}})
    others = [cell(FAST, inputs=inputs) for inputs in changed] + [cell(FAST, seed=1), cell(FAST[:3])]
    assert [place for place, other in enumerate(others) if len(made(cell(SLOW, "slow"), other)) != 2] == []
    assert "| selector | embedder | seeds |" in markdown(made(*(cell(FAST, seed=seed) for seed in (0, 1))), [])


def test_what_cannot_be_counted_is_named_and_the_rest_still_counts(tmp_path):
    good, edited = keep(tmp_path, cell(SLOW, "slow"), cell(FAST, "fast"))
    [random_weights] = keep(tmp_path, cell(FAST, "untrained") | {"weights": [{"is_random": True}]})
    (tmp_path / "half.json").write_text('{"kind": "diversity-harness cell", "schema"')
    edited.write_text(edited.read_text().replace('"errors":0', '"errors":1', 1))
    content = gather([tmp_path])
    assert (list(content.measured), len(content.faults)) == ([good.stem], 3)
    assert f"cell {random_weights}: was made with random weights: it is a test, no result" in content.faults
    assert markdown(boards(content), content.faults).count("\n- cell ") == 3
    assert "no such folder" in refusal_of(gather, [tmp_path / "nowhere"])


FORMULAS = [*(f"{start}1" for start in "=+-@\uff1d"), "\t=1", "\r=1", "\n=1", "'=1", " =1"]


def test_a_text_that_a_spreadsheet_would_run_is_marked_and_comes_back():
    assert [inert_text.csv_cell(text) for text in FORMULAS] == [f"'{text}" for text in FORMULAS]
    assert [inert_text.csv_text(inert_text.csv_cell(text)) for text in [*FORMULAS, "'", "''"]] == [*FORMULAS, "'", "''"]
    rows = [{"a": 1, "b": "x,y"}, {"a": "=1", "c": None}, {"b": 'q"'}, {"c": "r\rs"}, {"a": -1.5, "b": "k-dpp"}]
    assert inert_text.csv_table(rows) == 'a,b,c\n1,"x,y",\n\'=1,,\n,"q""",\n,,"r\rs"\n-1.5,k-dpp,\n'


def test_markdown_starts_no_link_image_table_or_html():
    assert inert_text.markdown("a|b <script>`x`\n") == "a\\|b &lt;script&gt;'x' "
    hostile = "![x](http://evil/p.png) [=cmd|' /C calc'!A0](javascript:1) www.evil.org $x$ \\ *b* ~s~ & \u202e"
    shown = inert_text.markdown(hostile)
    assert shown.startswith("\\!\\[x\\]\\(http:\\//evil/p.png\\) \\[=cmd\\|' /C calc'\\!A0\\]\\(javascript:1\\) www\\.")
    assert re.search(r"(?<!\\)[\[\]()!|$*~<>]", shown) is None
    text = markdown(made(cell(FAST, "![x](y)|<b>", task="![x](y)|<b>", pool="`](x) <b>|a.b-c_1")), ["![x](y)|<b>"])
    assert ("![" in text, "<b>" in text, "pool `xba.b-c_1`." in text) == (False, False, True)


RNG = np.random.default_rng(5)
MAJORITY = "majority:turns=true,weight=mean-logprob"
READS = {"answer-round-robin": ["answers"], MAJORITY: ["answers", "logprobs"], "uniform": [], "of-others": None}


def ranked(selector, sampler, most):
    """A cell of 40 problems with ranks up to `most`."""
    entries = [entry(f"p{i}", RNG.integers(1, most, size=5).tolist()) for i in range(40)]
    return cell(entries, selector, sampler=sampler, pool=sampler)


POOLS = [ranked(selector, f"s{pool}", most) for pool in range(3) for selector, most in (("a", 3 + pool), ("b", 6))]
POOLS += [ranked("c", "s1", 3), cell([subset_entry("p0", [1, 1])], "subset")]


def test_across_pools_the_mean_is_geometric_with_an_interval_by_problems_and_one_by_pools():
    tables = made(*POOLS)
    lines = across(tables)
    assert [(line.selector, line.pools) for line in lines] == [("a", 3), ("b", 3), ("c", 1)]  # no sets
    line, rows = lines[0], [row for table in tables for row in table.rows if row.selector == "a"]
    improvements = [row.improvement for row in rows]
    assert line.improvement == pytest.approx(math.prod(improvements) ** (1 / 3))
    assert (line.worst, line.worst_pool) == (pytest.approx(min(improvements)), "colours, parrot, s2, n = 8")
    assert line.win == pytest.approx(np.mean([row.win for row in rows]))
    assert line.solvable == pytest.approx(math.prod(row.improvement_solvable for row in rows) ** (1 / 3))
    logs = np.log(improvements)
    halves = np.log([row.improvement_ci[1] / row.improvement for row in rows])
    assert line.improvement_ci[1] == pytest.approx(line.improvement * math.exp(np.sqrt((halves**2).sum()) / 3), 1e-4)
    half = t.ppf(0.975, 2) * logs.std(ddof=1) / math.sqrt(3)
    assert line.pools_ci == pytest.approx([math.exp(logs.mean() - half), math.exp(logs.mean() + half)], 1e-4)
    assert lines[2].pools_ci is None


def test_the_command_prints_them_with_what_each_reads(harness, tmp_path):
    keep(tmp_path / "cells", *(ranked(selector, "s0", 3) for selector in READS))
    command = ("leaderboard", tmp_path / "cells", "--across")
    assert {row["selector"]: row["reads"] for row in harness(*command, "--json").rows} == READS
    shown = [line.split()[:2] for line in harness(*command).out.splitlines()]
    assert {(words[0], words[1]) for words in shown if words and words[0] in READS} == {
        *(("answer-round-robin", "answers"), (MAJORITY, "answers"), ("uniform", "-"), ("of-others", "?"))
    }
    (tmp_path / "none").mkdir()
    line = error_line(harness("leaderboard", tmp_path / "none", "--across"))
    assert line.startswith(f"error: leaderboard: no cells in {tmp_path / 'none'}: run something first")
