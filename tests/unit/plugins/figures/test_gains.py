"""`gains`: improvement by the share of correct responses, of the selectors that have ranked every pool."""

import statistics

import pytest
from support.figure_cells import cell_of, close, expected_calls, mean_calls, refused, rows_of

from harness.results import cells as stored
from harness_plugins.figures.gains import Gains

SHARES = [(0, 0.02), (0.02, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 1)]


@pytest.fixture
def pools(cells, tmp_path):
    """Two pools, ranked by RepExp and by a to f, each better than the one before; `alone` is on the second only."""
    for model in ("jay", "crow"):
        cell = cell_of(cells, model=model)
        for name, late in {
            "repexp": 30,
            **{name: 7 - place for place, name in enumerate("abcdef")},
            "alone": 0,
        }.items():
            cell["labels"]["selector"] = cell["inputs"]["ranking"]["selector"]["name"] = name
            cell["labels"]["trials"] = cell["inputs"]["ranking"]["trials"] = 2
            for place, entry in enumerate(cell["problems"]):
                ranks = [place % 5 + late + 1, late + 3] if place else [101, 101]
                entry.pop("maj_at_k", None)
                c = place * 7 % 61
                entry |= {"n": 100, "c": c, "ranks": ranks, "routes": {"-": c} if c else {}, "best_of_k": {}}
                entry["orders"] = [[*range(rank)] for rank in ranks] if place else []
            if name != "alone" or model == "crow":
                stored.write(tmp_path, cell)
    return tmp_path


def test_the_best_five_over_all_pools_and_repexp_are_shown_with_the_means_of_each_class(pools):
    rows = rows_of("gains", pools, selector=None)
    assert list(dict.fromkeys(row["series"].partition(" ")[0] for row in rows)) == ["f", "e", "d", "c", "b", "repexp"]
    assert len({row["panel"] for row in rows}) == 2
    for row in rows:
        entries = cell_of(pools, model=row["model"], selector=row["selector"])["problems"]
        inside = [entry for entry in entries if row["above"] < entry["c"] / entry["n"] <= row["up_to"]]
        assert row["questions"] == len(inside) >= 5
        random, selected = (statistics.fmean(map(calls, inside)) for calls in (expected_calls, mean_calls))
        assert (row["random"], row["selected"]) == (close(random), close(selected))
        assert row["improvement"] == close(random / selected)
        assert row["improvement_low"] is None or row["improvement_low"] < row["improvement"] < row["improvement_high"]
    shares = [entry["c"] / 100 for entry in entries]
    assert {(row["above"], row["up_to"]) for row in rows} == {
        (low, high) for low, high in SHARES if sum(low < share <= high for share in shares) >= 5
    }
    assert len(Gains().draw(rows).axes) == 2


def test_a_selector_may_be_named_and_pools_without_a_common_one_are_refused(pools, tmp_path):
    assert {row["selector"] for row in rows_of("gains", pools, selector="a")} == {"a"}
    assert {row["model"] for row in rows_of("gains", pools, selector="alone")} == {"crow"}
    for model, selector in (("jay", "a"), ("crow", "b")):
        stored.write(tmp_path / "apart", cell_of(pools, model=model, selector=selector))
    line = refused("gains", tmp_path / "apart", selector=None)
    assert line == "no ranker has cells of all 2 pools: give folders whose cells share one"
