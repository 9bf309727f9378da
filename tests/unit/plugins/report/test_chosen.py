"""Which cells a report shows: those of the last run, or those that are named."""

from __future__ import annotations

import os

from support.refusals import error_line

SELECTORS = {"repexp", "shuffle", "spread", "head"}


def names(data):
    return {selector["name"] for selector in data["selectors"]}


def test_cells_of_another_pool_or_other_problems_are_left_out_and_refused_where_both_are_named(
    toy, report, harness, copied, shown
):
    (seeded,) = toy("--selector", "shuffle", "--seed", "3").rows
    toy("--selector", "spread", "--limit", "2")
    newest = shown.rows["shuffle"]["cell"]
    os.utime(copied / "cells" / f"{newest}.json", (2e9, 2e9))
    data = report()
    assert names(data) == SELECTORS
    assert data["about"]["problems"] == 6
    line = error_line(harness("report", "--store", copied, "--cell", newest, "--cell", seeded["cell"]))
    assert line.endswith("differ in pool, verdicts, problems, trials or seed: one report shows one pool")


def test_cells_can_be_named_by_the_beginning_of_their_keys(report, harness, shown, tmp_path):
    first, second = (shown.rows[name]["cell"] for name in ("repexp", "spread"))
    data = report("--cell", first[:12], "--cell", second, "--out", tmp_path / "deep" / "two.html", store=shown.store)
    assert report.path == tmp_path / "deep" / "two.html"
    assert names(data) == {"repexp", "spread"}
    for key, count in (("nothing", "no cell"), ("", "4 cells")):
        line = error_line(harness("report", "--store", shown.store, "--cell", key))
        assert f"{key!r} begins the key of {count} of " in line


def test_a_store_without_results_is_refused(harness, toy, tmp_path):
    assert "report: no cells in" in error_line(harness("report", "--store", tmp_path / "runs"))
    toy("--selector", "raising")
    outcome = harness("report", "--store", tmp_path / "runs")
    assert outcome.code == 2
    assert outcome.err.endswith(f"error: report: no cell in {tmp_path}/runs/cells has results\n")


def test_an_edited_cell_and_a_failed_one_are_named_and_left_out(toy, report, harness, copied, shown):
    toy("--selector", "raising")
    key = shown.rows["shuffle"]["cell"]
    path = copied / "cells" / f"{key}.json"
    path.write_text(path.read_text().replace('"errors":0', '"errors":1'))
    assert names(report()) == SELECTORS - {"shuffle"}
    assert f"left out: cell {path}: was edited" in report.err
    assert "failed (selector 'raising'" in report.err
    assert "was edited" in error_line(harness("report", "--store", copied, "--cell", key))


def test_of_two_cells_of_one_selector_the_newer_is_shown(toy, report, tmp_path):
    plugin = tmp_path / "mine.py"
    source = "class Mine:\n    needs = ()\n    def rank(self, pool, rng):\n        yield from {order}\n\n\n"
    source += "from harness import hookimpl\n@hookimpl\ndef register_selectors(register):\n    register('mine', Mine)\n"
    keys = []
    for order in ("range(len(pool))", "reversed(range(len(pool)))"):
        plugin.write_text(source.format(order=order))
        keys.append(toy("--selector", "mine", "--plugin", plugin).rows[0]["cell"])
        os.utime(tmp_path / "runs" / "cells" / f"{keys[-1]}.json", (len(keys), len(keys)))
    data = report("--plugin", plugin)
    assert [row["cell"] for row in data["rows"] if not row["reference"]] == keys[1:]


def test_of_several_embedders_names_say_which_and_the_map_is_of_the_one_that_most_selectors_read(toy, report, copied):
    toy("--selector", "repexp", "--embedder", "letters")
    data = report()
    assert names(data) == {"repexp · hidden-mean", "repexp · letters", "spread · hidden-mean", "shuffle", "head"}
    assert {problem["map"]["of"] for problem in data["problems"]} == {"hidden-mean"}
