"""The list of all problems, which the page has whatever pools it holds, and the problem on which it opens."""

import json
import math
import statistics

import pytest
from support.cells import cell, entry, subset_entry

from harness_plugins.report import writing
from harness_plugins.report.results import Cell
from harness_plugins.report.writing import beginnings, hardest_first, index, telling

FIRST = Cell("1", cell([entry("a", [1, 3], c=4), entry("b", [9, 9], c=0), entry("<i>", [2, 2], c=1)]), "first")
SECOND = Cell("2", cell([entry("a", [2, 2], c=4), entry("b", [9, 9], c=0), entry("<i>", [7, 5], c=1)]), "second")
SUBSETS = Cell("3", cell([subset_entry(name, [1]) for name in ("a", "b", "<i>")]), "subsets")


def test_every_problem_of_a_run_is_listed_with_what_its_cells_say(shown):
    listed, cells = shown.data["index"], {}
    for name, row in shown.rows.items():
        cells[name] = json.loads((shown.store / "cells" / f"{row['cell']}.json").read_text())["problems"]
    entries = hardest_first(cells["repexp"])
    assert [entry["c"] for entry in entries] == sorted(entry["c"] for entry in entries)
    for name in ("id", "n", "c"):
        assert listed[name] == [entry[name] for entry in entries]
    for selector, ranks in zip(shown.data["selectors"], listed["ranks"], strict=True):
        by_id = {entry["id"]: entry.get("ranks") for entry in cells[selector["name"]]}
        assert ranks is None if selector["kind"] == "subset" else len(ranks) == 6
        for problem, rank in zip(listed["id"], ranks or [], strict=False):
            assert rank == (by_id[problem] if len(set(by_id[problem])) > 1 else by_id[problem][0])
    assert listed["where"] == "pppppp"
    assert shown.data["files"] is None


def test_a_long_list_has_mean_ranks(monkeypatch):
    order = ["b", "<i>", "a"]
    assert index([FIRST, SUBSETS], order)["ranks"] == [[9, 2, [1, 3]], None]
    monkeypatch.setattr(writing, "LIST_BYTES", 10)
    short = index([SECOND, SUBSETS], order)
    assert short["ranks"] == [[9.0, 6.0, 2.0], None]
    assert short["id"] == order


def test_the_beginnings_of_all_prompts_are_listed_where_they_have_room(monkeypatch):
    prompts = {"a": "x\u202e" + "y" * 100, "b": "short"}
    assert beginnings(["b", "<i>", "a"], prompts) == {"prompt": ["short", "", "x⟨U+202E⟩" + "y" * 78]}
    monkeypatch.setattr(writing, "PROMPTS_BYTES", 90)
    assert beginnings(["b", "a"], prompts) == {}


def test_the_page_opens_where_the_first_and_the_last_ranker_differ_most_and_one_alone_against_random():
    assert telling([FIRST, SUBSETS, SECOND], ["b", "<i>", "a"]) == "<i>"
    assert telling([SUBSETS], ["b", "<i>", "a"]) == "b"
    gaps = {
        each["id"]: abs(math.log(statistics.fmean(each["ranks"]) * (each["c"] + 1) / 9))
        for each in FIRST.by_id.values()
    }
    assert telling([FIRST], list(gaps)) == max(gaps, key=gaps.get) == "<i>"
    assert gaps["b"] == pytest.approx(0)
