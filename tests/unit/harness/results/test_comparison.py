"""Two rows compared: on the problems and seeds that they share, by calls, or by hits at a budget."""

import pytest
from support.cells import cell, entry, failed_cell, keep, subset_entry
from support.refusals import refusal_of

from harness.results.comparison import compare
from harness.scoring import curves, stats

RANKS = {"spread": ([1, 3], [4, 4], [2, 6], [5, 5]), "shuffle": ([2, 2], [7, 5], [1, 1], [5, 5])}


def entries(selector, **options):
    return [entry(f"p{i}", ranks, **options) for i, ranks in enumerate(RANKS[selector])]


@pytest.fixture
def store(tmp_path):
    """Compare cells, each kept in a folder and named by its key; options: `by` file or key."""

    def call(*several, beside=(), by="key"):
        paths = keep(tmp_path / "cells", *several)
        keep(tmp_path / "cells", *beside)
        names = [str(path) if by == "file" else path.stem for path in paths]
        return compare(names, [tmp_path / "cells", tmp_path / "cells"])

    return call


def test_two_rankers_are_compared_by_calls_on_the_problems_that_they_share(store):
    first = cell(entries("spread"))
    second = cell([*entries("shuffle")[:3][::-1], entry("only here", [1, 1])], "shuffle")
    value = store(first, second)
    assert (value["problems"], value["left_out"], value["budget"]) == (3, 2, None)
    assert value["samples_to_correct"] == pytest.approx([10 / 3, 9 / 3])
    assert value["difference"] == pytest.approx(1 / 3)
    assert value["ratio"] == pytest.approx(9 / 10)
    assert value["fewer"] == [{"id": "p1", "first": 4.0, "second": 6.0}]
    assert value["more"] == [{"id": "p2", "first": 4.0, "second": 1.0}]
    assert (value["pass_at_budget"], value["same_pool"], value["seeds_left_out"]) == (None, True, 0)
    assert {name: value["first"][name] for name in ("selector", "seeds", "trials", "trust")} == {
        **{"selector": "spread", "seeds": [0], "trials": 2, "trust": "few problems"}
    }
    many = [cell([entry(f"p{i}", [1 + (i * k) % 5], c=1) for i in range(20)], str(k)) for k in (1, 3)]
    value = store(*many)
    assert value["difference_ci"][0] < value["difference"] < value["difference_ci"][1]
    assert value["ratio_ci"][0] < value["ratio"] < value["ratio_ci"][1]
    assert "no_interval" not in value


def test_a_subset_method_is_compared_by_its_hits_at_the_telling_budget(store):
    head = cell([subset_entry(f"p{i}", first) for i, first in enumerate(([4, 4], [1, 4], [4, 4], [8, 2]))], "head")
    value = store(cell(entries("spread")), head)
    assert (value["budget"], value["samples_to_correct"], value["ratio"], value["ratio_ci"]) == (2, None, None, None)
    assert value["pass_at_budget"] == pytest.approx([2 / 8, 2 / 8])
    assert value["difference"] == 0
    assert value["fewer"] == [{"id": "p0", "first": 0.5, "second": 0.0}, {"id": "p2", "first": 0.5, "second": 0.0}]
    assert [problem["id"] for problem in value["more"]] == ["p1", "p3"]
    unsolvable = [cell([entry("p0", [9, 9], c=0)]), cell([subset_entry("p0", [9, 9], c=0)], "head")]
    assert store(*unsolvable)["budget"] == 1


def test_it_says_how_many_times_fewer_calls_the_first_needs_at_the_budgets_of_the_second(store):
    early = cell([entry(f"p{i}", [1 + i % 4] * 2) for i in range(40)])
    late = cell([entry(f"p{i}", [1 + 2 * (i % 4)] * 2) for i in range(40)], "late")
    value = store(early, late)
    # Solved: early 1/4, 2/4, 3/4, 1 at k = 1, 2, 3, 4; late 1/4, 1/4, 2/4, 2/4, 3/4, 3/4, 1, 1 at k = 1, ..., 8.
    columns = ("k", "pass_at_k", "calls_behind", "calls", "times")
    assert [tuple(at[name] for name in columns) for at in value["efficiency"]] == [
        *((1, 0.25, 1, 1, 1), (2, 0.25, 1, 1, 1), (4, 0.5, 3, 2, 1.5), (8, 1, 7, 4, 1.75))
    ]
    assert [at["times_ci"] is None for at in value["efficiency"]] == [False, False, False, True]
    assert (value["largest_efficiency"]["k"], value["largest_efficiency"]["times"]) == (5, 5 / 3)
    heads = cell([subset_entry(f"p{i}", [1 + 2 * (i % 4)] * 2) for i in range(40)], "head")
    assert [(at["k"], at["times"]) for at in store(early, heads)["efficiency"]] == [(1, 1), (2, 1), (4, 2), (8, 2)]
    other = cell([entry(f"p{i}", [9] * 2, c=0) for i in range(40)], "other", pool="elsewhere", sampler="low-temp")
    value = store(other, early)  # another sampler's pool, which has nothing
    assert {(at["times"], at["no_interval"]) for at in value["efficiency"]} == {(None, curves.NEVER)}
    assert value["largest_efficiency"] is None


def test_an_interval_that_says_nothing_is_none_with_its_reason(store):
    absurd = [[entry("a", [a], c=1), entry("b", [b], c=1)] for a, b in ((1, 8), (8, 1))]
    value = store(cell(absurd[0]), cell(absurd[1], "other"))
    assert (value["difference_ci"], value["ratio_ci"]) == (None, None)
    assert value["no_interval"] == {"difference_ci": stats.BEYOND_RANGE, "ratio_ci": stats.TOO_WIDE}
    alone = store(cell(absurd[0][:1]), cell(absurd[1][:1], "other"))
    assert set(alone["no_interval"].values()) == {stats.ONE_PROBLEM}


def test_a_key_stands_for_all_its_seeds_and_a_file_for_itself(store):
    spread = [cell(entries("spread"), seed=seed) for seed in (0, 1, 2)]
    shuffle = [cell(entries("shuffle"), "shuffle", seed) for seed in (0, 1)]
    value = store(shuffle[0], spread[2], beside=(*spread, *shuffle))
    assert (value["first"]["seeds"], value["second"]["seeds"]) == ([0, 1], [0, 1])
    assert (value["seeds_left_out"], value["same_pool"], value["problems"]) == (1, True, 4)
    value = store(shuffle[0], spread[0], by="file")
    assert (value["first"]["seeds"], value["second"]["seeds"], value["seeds_left_out"]) == ([0], [0], 0)
    apart = store(shuffle[0], spread[2], by="file")  # no seed in common: all of each, and the pools differ
    assert (apart["first"]["seeds"], apart["second"]["seeds"], apart["same_pool"]) == ([0], [2], False)


def test_what_cannot_be_compared_is_one_line(store, tmp_path):
    ranker = cell(entries("spread"))
    other = [entry(f"other{i}", [1, 1]) for i in range(2)]
    assert "have no problem in common" in refusal_of(store, ranker, cell(other))
    few = [entry(f"p{i}", [1]) for i in range(4)]
    assert "compare: the cells have 2 and 1 trials" in refusal_of(store, ranker, cell(few, "few"))
    sizes = cell([subset_entry("p0", [1, 1], n=3, c=0), subset_entry("p1", [1, 1], n=1, c=1)], "head")
    assert "the subsets have no common budget of 2" in refusal_of(store, ranker, sizes)
    assert "failed (index 0): run it again" in refusal_of(store, ranker, failed_cell("twice", "index 0"))


def test_a_key_is_looked_for_among_readable_cells_alone(tmp_path):
    first, second = keep(tmp_path / "cells", cell(entries("spread")), cell(entries("shuffle"), "shuffle"))
    for name, content in ((f"sequences/{first.stem[:6]}.json", "{}"), ("other/zz.json", "no cell")):
        (tmp_path / "cells" / name).parent.mkdir()
        (tmp_path / "cells" / name).write_text(content)
    assert compare([first.stem[:6], second.stem], [tmp_path])["problems"] == 4
    where = [tmp_path / "cells"]
    assert refusal_of(compare, ["none", second.stem], where) == (
        f"compare: no file 'none', and no cell whose key begins so in {where[0]}"
    )
    assert "compare: '' begins the keys of 3 cells (" in refusal_of(compare, ["", second.stem], where)
