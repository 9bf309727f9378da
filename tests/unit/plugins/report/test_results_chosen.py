"""Which cells a report shows: those of the last run, or those that are named."""

import os

from support.refusals import error_line

from harness.results import cells

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
    remark = data["about"]["remarks"][-1]
    pool = cells.read(copied / "cells" / f"{seeded['cell']}.json")["inputs"]["pool"]["key"][:8]
    assert f"seed 3 (harness report --pool {pool})" in remark
    assert "2 problems (harness report --cell" in remark
    assert f"not in this report: seed 3 (harness report --pool {pool})" in report.err
    other = report("--pool", pool)
    assert (names(other), other["about"]["seed"]) == ({"shuffle"}, 3)
    assert "harness report --pool" in other["about"]["remarks"][-1]
    line = error_line(harness("report", "--store", copied, "--pool", "nothing"))
    assert line.startswith(f"error: report: no cell of pool 'nothing' in {copied}/cells; there are cells of ")
    line = error_line(harness("report", "--store", copied, "--cell", newest, "--cell", seeded["cell"]))
    assert line.endswith("differ in pool, verdicts, problems, trials, seed or --correct: one report shows one pool")


def test_cells_can_be_named_by_the_beginning_of_their_keys(report, harness, shown, tmp_path):
    first, second = (shown.rows[name]["cell"] for name in ("repexp", "spread"))
    data = report("--cell", first[:12], "--cell", second, "--out", tmp_path / "deep" / "two.html", store=shown.store)
    assert report.path == tmp_path / "deep" / "two.html"
    assert names(data) == {"repexp", "spread"}
    for key, fault in (("nothing", "no cell whose key begins so"), ("", "'' begins the keys of 7 cells")):
        assert fault in error_line(harness("report", "--store", shown.store, "--cell", key))


def test_an_edited_cell_and_a_failed_one_are_named_and_left_out(toy, report, harness, copied, shown, tmp_path):
    store = tmp_path / "failed"
    assert "report: no cells in" in error_line(harness("report", "--store", store))
    toy("--selector", "raising", store=store)
    assert harness("report", "--store", store).err.endswith(f"error: report: no cell in {store}/cells has results\n")
    toy("--selector", "raising")
    key = shown.rows["shuffle"]["cell"]
    path = copied / "cells" / f"{key}.json"
    path.write_text(path.read_text().replace('"errors":0', '"errors":1'))
    assert names(report()) == SELECTORS - {"shuffle"}
    assert f"left out: cell {path}: was edited" in report.err
    assert "failed (selector 'raising'" in report.err
    assert "was edited" in error_line(harness("report", "--store", copied, "--cell", key))


def test_of_two_cells_of_one_selector_the_newer_is_shown(report, copied, shown):
    older = cells.read(copied / "cells" / f"{shown.rows['shuffle']['cell']}.json")
    older["inputs"]["ranking"]["selector"]["file"] = "another"
    path = copied / "cells" / f"{cells.write(copied / 'cells', older)}.json"
    for seconds, keys in ((1, shown.rows["shuffle"]["cell"]), (2e9, path.stem)):
        os.utime(path, (seconds, seconds))
        (row,) = [row for row in report()["rows"] if row["name"] == "shuffle"]
        assert row["cell"] == keys


def test_of_several_embedders_names_say_which_and_the_map_is_of_the_one_that_most_selectors_read(toy, report, copied):
    toy("--selector", "repexp", "--embedder", "letters")
    data = report()
    assert names(data) == {"repexp · hidden-mean", "repexp · letters", "spread · hidden-mean", "shuffle", "head"}
    assert {problem["map"]["of"] for problem in data["problems"]} == {"hidden-mean"}
