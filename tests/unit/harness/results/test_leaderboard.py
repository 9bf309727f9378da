"""Leaderboards: a table for each pool, selectors across pools, names that stay text, and what cannot be counted."""

import json
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
from harness.system.json_text import digest

SLOW, FAST = ([entry(f"p{i}", [rank, rank]) for i in range(4)] for rank in (5, 2))
HEAD = [subset_entry(f"p{i}", [1, 4]) for i in range(4)]


def made(*several):
    """The tables of cells that were not read from a folder."""
    measured = [each for each in several if "failed" not in each]
    return boards(Gathered(keyed(*measured), keyed(*(each for each in several if "failed" in each))))


def test_each_pool_has_a_table_with_the_fewest_calls_first_and_then_the_largest_gain():
    tables = made(
        *(cell(SLOW, "slow"), cell(FAST, "fast"), cell(FAST, "fast", sampler="nucleus:p=0.8", pool="nucleus")),
        *(cell(HEAD, "head"), cell([subset_entry("p0", [1, 1]), *HEAD[1:]], "ahead")),
        failed_cell("twice", "index 0 was picked twice"),
    )
    shown = {table.about["sampler"]: [row.selector for row in table.rows] for table in tables if table.rows}
    assert shown == {"nucleus:p=0.8": ["fast"], "vanilla": ["fast", "slow", "ahead", "head"]}
    text = markdown(tables, [])
    assert "| random (exact) |" in text
    assert re.search(r"^- failed: twice: index 0 was picked twice$", text, re.M)
    assert "| twice |" not in text
    [table] = [table for table in tables if len(table.rows) == 4]  # corrected together: rankers by ranks, sets by hits
    p = [row.p_random for row in table.rows[:2]] + [row.p_budget for row in table.rows[2:]]
    assert [row.q_random for row in table.rows] == stats.false_discovery_rates(p)


def test_a_failure_is_shown_until_the_selector_has_a_result_on_that_pool():
    failed, problems = failed_cell("fast", "picked twice"), [entry("p0", [2]), entry("p1", [3])]
    for others, shown in (([], 1), ([cell(problems, "fast")], 0), ([cell(problems, "fast", pool="another")], 1)):
        failures = [failure for table in made(failed, *others) for failure in table.failed]
        assert failures == [("fast", "picked twice")] * shown


def test_other_versions_are_told_apart_and_other_pools_graders_sizes_and_problems_stand_in_other_tables():
    edited = cell(SLOW, "fast", inputs={"ranking": {"code": "2"}})
    (table,) = made(cell(FAST, "fast"), edited, cell(SLOW, "slow"))
    names = {row.name for row in table.rows}
    assert (len(names), "slow" in names, "fast" in names) == (3, True, False)
    assert "2 versions of fast" in markdown([table], [])
    changed = ({"verdict": {"grader": "2"}}, {"ranking": {"n": 4}}, {"pool": {"task": {"revision": "2"}}})
    others = [cell(FAST, inputs=inputs) for inputs in changed]
    others += [cell(FAST, **{name: "other"}) for name in ("task", "split", "model", "engine", "sampler")]
    others += [cell(FAST, seed=1), cell(FAST[:3])]
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


def test_the_badge_is_what_the_kit_says_of_the_selector(tmp_path):
    slow = cell(SLOW, "slow")
    keep(tmp_path, slow)
    for failed, shown in (([], "passes 31"), (["permutation", "nan"], "fails 2")):
        badge = {digest(slow["inputs"]["ranking"]["selector"]): {"failed": failed, "passed": 31}}
        (tmp_path / "conformance.json").write_text(json.dumps(badge))
        [table] = boards(gather([tmp_path]))
        assert (table.rows[0].conformance, table.rows[0].dist) == (shown, "toy")
        assert ("- slow fails 2 of the conformance kit's checks\n" in markdown([table], [])) == bool(failed)
        assert f"Conformance kit: {0 if failed else 1} of 1 rows pass." in markdown([table], [])


# Names of plugins and users stay text.

FORMULAS = [*(f"{start}1" for start in "=+-@\uff1d"), "\t=1", "\r=1", "\n=1", "'=1", " =1"]
HARMLESS = ["", "repexp:lam=1", "k-dpp", 'a,"b', -1.5, None]


def test_a_text_that_a_spreadsheet_would_run_is_marked_and_comes_back():
    assert [inert_text.csv_cell(text) for text in FORMULAS] == [f"'{text}" for text in FORMULAS]
    assert [inert_text.csv_text(inert_text.csv_cell(text)) for text in [*FORMULAS, "'", "''"]] == [*FORMULAS, "'", "''"]
    assert [inert_text.csv_cell(value) for value in HARMLESS] == HARMLESS
    rows = [{"a": 1, "b": "x,y"}, {"a": "=1", "c": None}, {"b": 'q"'}, {"c": "r\rs"}]
    assert inert_text.csv_table(rows) == 'a,b,c\n1,"x,y",\n\'=1,,\n,"q""",\n,,"r\rs"\n'


def test_markdown_starts_no_link_image_table_or_html():
    assert inert_text.markdown("a|b <script>`x`\n") == "a\\|b &lt;script&gt;'x' "
    hostile = "![x](http://evil/p.png) [=cmd|' /C calc'!A0](javascript:1) www.evil.org $x$ \\ *b* ~s~ & \u202e"
    shown = inert_text.markdown(hostile)
    assert shown.startswith(
        "\\!\\[x\\]\\(http:\\//evil/p.png\\) \\[=cmd\\|' /C calc'\\!A0\\]\\(javascript:1\\) www\\.evil"
    )
    assert shown.endswith("&amp;  ")
    assert re.search(r"(?<!\\)[\[\]()!|$*~<>]", shown) is None
    text = markdown(made(cell(FAST, "![x](y)|<b>", task="![x](y)|<b>", pool="`](x) <b>|a.b-c_1")), ["![x](y)|<b>"])
    assert ("![" in text, "<b>" in text, "pool `xba.b-c_1`." in text) == (False, False, True)


# Selectors across pools.

RNG = np.random.default_rng(5)
READS = {
    "answer-round-robin": ("answers", ["answers"]),
    "majority:turns=true,weight=mean-logprob": ("answers", ["answers", "logprobs"]),
    "uniform": ("-", []),
    "of-others": ("?", None),  # a plugin that is not installed here
}


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


def test_the_command_prints_them_with_what_each_reads_and_writes_nothing(harness, tmp_path):
    keep(tmp_path / "cells", *POOLS, *(ranked(selector, "s0", 3) for selector in READS))
    command = ("leaderboard", tmp_path / "cells", "--across")
    shown = [line.split()[:2] for line in harness(*command).out.splitlines() if line.split()[:1]]
    assert {selector: text for selector, *text in shown if selector in READS} == {
        selector: [text] for selector, (text, _) in READS.items()
    }
    rows = {row["selector"]: row["reads"] for row in harness(*command, "--json").rows}
    assert {name: rows[name] for name in READS} == {name: reads for name, (_, reads) in READS.items()}
    assert not (tmp_path / "leaderboard.md").exists()
    (tmp_path / "none").mkdir()
    line = error_line(harness("leaderboard", tmp_path / "none", "--across"))
    assert line.startswith(f"error: leaderboard: no cells in {tmp_path / 'none'}: run something first")
