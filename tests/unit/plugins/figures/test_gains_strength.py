"""`strength`: improvement by the pool's pass@1, of RepExp and of the selectors that are best over the pools."""

import statistics

import pytest
from support.cells import N, cell, entry, subset_entry
from support.figure_cells import cell_of, close, expected_calls, mean_calls, refused, rows_of

from harness.results import cells as stored
from harness_plugins.figures.gains import Strength

LATE = {"repexp": 9, "a": 6, "b": 4, "c": 2}  # by how many calls each comes later than it could
SOLVED = {"jay": 61, "crow": 13}


@pytest.fixture
def pools(cells, tmp_path):
    """Two pools, ranked by RepExp and by a, b and c, each better than the one before; `alone` is on the second only."""
    for model, most in SOLVED.items():
        cell = cell_of(cells, model=model)
        for name, late in {**LATE, "alone": 0}.items():
            cell["labels"]["selector"] = cell["inputs"]["ranking"]["selector"]["name"] = name
            cell["labels"]["trials"] = cell["inputs"]["ranking"]["trials"] = 1
            for place, problem in enumerate(cell["problems"]):
                rank = place % 5 + late + 1
                problem.pop("maj_at_k", None)
                c = place * 7 % most + 1
                problem |= {"n": 100, "c": c, "ranks": [rank], "orders": [[*range(rank)]]}
                problem |= {"routes": {"-": c}, "best_of_k": {}}
            if name != "alone" or model == "crow":
                stored.write(tmp_path, cell)
    return tmp_path


def test_the_two_best_and_repexp_have_a_point_a_pool(pools):
    notes = []
    rows = rows_of("strength", pools, selector=None, say=notes.append)
    (line,) = notes
    assert line.startswith("3 of 5 selectors and embedders are shown (repexp · ")
    shown = [(row["panel"].partition(" ")[0], row["model"]) for row in rows]
    assert sorted(shown) == sorted((name, model) for name in ("repexp", "c", "b") for model in SOLVED)
    for row in rows:
        entries = cell_of(pools, model=row["model"], selector=row["selector"])["problems"]
        assert row["pass_at_1"] == close(statistics.fmean(entry["c"] / 100 for entry in entries))
        random, selected = (statistics.fmean(map(calls, entries)) for calls in (expected_calls, mean_calls))
        assert row["improvement"] == close(random / selected)
        assert row["improvement_low"] < row["improvement"] < row["improvement_high"]
    figure = Strength().draw(rows)
    assert [axes.get_title().partition(" ")[0] for axes in figure.axes] == ["repexp", "c", "b"]


def test_a_selector_may_be_named_and_sets_are_refused(pools, tmp_path):
    assert {row["selector"] for row in rows_of("strength", pools, selector="a")} == {"a"}
    notes = []
    assert {row["model"] for row in rows_of("strength", pools, selector="alone")} == {"crow"}
    for model in SOLVED:
        other = cell_of(pools, model=model, selector="a")
        other["inputs"]["pool"]["key"] = other["labels"]["model"] = "dove"
        for problem in other["problems"]:
            problem |= {"c": 0, "ranks": [101], "orders": [], "routes": {}}
    stored.write(tmp_path / "more", other)
    rows_of("strength", pools, tmp_path / "more", selector="a", say=notes.append)
    (line,) = notes
    assert line.startswith("left out: colours · dove · vanilla · n = 100")
    assert "has no correct response (a" in line
    stored.write(tmp_path / "sets", cell([subset_entry("p0", [1, 1])], "subset"))
    line = refused("strength", tmp_path / "sets", selector=None)
    assert line == "cells of selectors that choose sets, not orders: they have no samples-to-correct"
    stored.write(tmp_path / "wrong", cell([entry(name, [N + 1] * 2, c=0) for name in ("p0", "p1")], "a"))
    line = refused("strength", tmp_path / "wrong", selector="a")
    assert line == "no pool has a correct response: there is no improvement to draw"
