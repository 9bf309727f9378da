"""Two rows compared on the problems and seeds that they share; and the controls that stand beside selectors."""

import json

import numpy as np
import pytest
from support.cells import cell, entry, failed_cell, keep, subset_entry
from support.choosing import of_duplicates
from support.refusals import refusal_of
from support.stores import all_cells

from harness.results.comparison import compare
from harness.scoring import curves

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
    assert (value["difference"], value["ratio"]) == (pytest.approx(1 / 3), pytest.approx(9 / 10))
    assert value["fewer"] == [{"id": "p1", "first": 4.0, "second": 6.0}]
    assert value["more"] == [{"id": "p2", "first": 4.0, "second": 1.0}]
    assert (value["pass_at_budget"], value["same_pool"], value["seeds_left_out"]) == (None, True, 0)
    about = ("selector", "seeds", "trials", "trust")
    assert [value["first"][name] for name in about] == ["spread", [0], 2, "few problems"]
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


def test_a_key_stands_for_all_its_seeds_and_a_file_for_itself(store):
    spread = [cell(entries("spread"), seed=seed) for seed in (0, 1, 2)]
    shuffle = [cell(entries("shuffle"), "shuffle", seed) for seed in (0, 1)]
    value = store(shuffle[0], spread[2], beside=(*spread, *shuffle))
    assert (value["first"]["seeds"], value["second"]["seeds"]) == ([0, 1], [0, 1])
    assert (value["seeds_left_out"], value["same_pool"], value["problems"]) == (1, True, 4)
    apart = store(shuffle[0], spread[2], by="file")  # no seed in common: all of each, and the pools differ
    assert (apart["first"]["seeds"], apart["second"]["seeds"], apart["same_pool"]) == ([0], [2], False)


def test_what_cannot_be_compared_or_found_is_one_line(store, tmp_path):
    ranker = cell(entries("spread"))
    other = [entry(f"other{i}", [1, 1]) for i in range(2)]
    assert "have no problem in common" in refusal_of(store, ranker, cell(other))
    few = [entry(f"p{i}", [1]) for i in range(4)]
    assert "compare: the cells have 2 and 1 trials" in refusal_of(store, ranker, cell(few, "few"))
    sizes = cell([subset_entry("p0", [1, 1], n=3, c=0), subset_entry("p1", [1, 1], n=1, c=1)], "head")
    assert "the subsets have no common budget of 2" in refusal_of(store, ranker, sizes)
    assert "failed (index 0): run it again" in refusal_of(store, ranker, failed_cell("twice", "index 0"))
    where, folder = [tmp_path / "more"], tmp_path / "more" / "sequences"
    first, second = keep(tmp_path / "more", ranker, cell(entries("shuffle"), "shuffle"))
    folder.mkdir()
    (folder / f"{first.stem[:6]}.json").write_text("{}")
    (tmp_path / "more" / "zz.json").write_text("no cell")
    assert compare([first.stem[:6], second.stem], where)["problems"] == 4  # among readable cells alone
    line = f"compare: no file 'none', and no cell whose key begins so in {where[0]}"
    assert refusal_of(compare, ["none", second.stem], where) == line
    assert "compare: '' begins the keys of 3 cells (" in refusal_of(compare, ["", second.stem], where)


# Controls: norm and length stand beside selectors by vectors, with the references; tables say what is like them.

CONTROLS = ["length", "length:first=long", "norm"]
REFERENCES = ["random", "oracle", "anti-oracle"]


@pytest.fixture
def screen(harness, written, tmp_path):
    """Run selectors on eight problems of 16 candidates with vectors: the outcome, its rows in `rows`."""
    rng = np.random.default_rng(3)
    lines = [
        {"problem_id": f"p{i}", "responses": ["x" * int(size) for size in rng.integers(1, 40, 16)]} for i in range(8)
    ]
    pool = written([line | {"correct": [bool(x) for x in rng.random(16) < 0.25]} for line in lines])
    np.savez(tmp_path / "E.npz", **{line["problem_id"]: of_duplicates(16, 4, at) for at, line in enumerate(lines)})

    def call(*args):
        options = ("--pool", pool, "--embeddings", tmp_path / "E.npz", "--store", tmp_path / "runs")
        outcome = harness("run", *options, *args)
        assert outcome.code == 0, outcome.err
        return outcome

    return call


def sections(text):
    """The selectors in the two sections of a printed table."""
    lines = [line.split() for line in text.splitlines()]
    first = next(place for place, words in enumerate(lines) if words[:1] == ["random"])
    blank = next(place for place in range(first, len(lines)) if not lines[place])
    last = next(place for place in range(blank + 1, len(lines)) if not lines[place])
    return [words[0] for words in lines[first:blank]], [words[0] for words in lines[blank + 1 : last]]


def test_controls_stand_with_the_references_and_in_no_row_unless_they_are_named(screen, harness, tmp_path):
    both = ("--selector", "repexp", "--selector", "uniform")
    assert sections(screen(*both).out) == ([*REFERENCES, *CONTROLS], ["repexp", "uniform"])
    repexp, uniform = screen(*both, "--json").rows
    assert list(repexp["controls"]) == CONTROLS
    assert {"control", "controls"} & {*uniform} == set()  # it reads no vectors
    assert sections(harness("leaderboard", tmp_path / "runs").out)[0] == [*REFERENCES, *CONTROLS]
    [board] = json.loads(harness("leaderboard", tmp_path / "runs", "--json").out)
    assert [row["selector"] for row in board["controls"]] == CONTROLS
    assert {row["selector"] for row in board["rows"]} == {"repexp", "uniform"}
    keep(tmp_path / "alone", *all_cells(tmp_path / "runs"))
    alone = json.loads(harness("leaderboard", tmp_path / "alone", "--json").out)
    assert [row["q_random"] for row in board["rows"]] == [row["q_random"] for row in alone[0]["rows"]]
    named = screen("--selector", "repexp", "--selector", "norm")  # a control before
    assert sections(named.out) == ([*REFERENCES, *CONTROLS[:2]], ["repexp", "norm"])
    assert sections(harness("leaderboard", tmp_path / "runs").out)[0][3:] == CONTROLS[:2]
    assert sections(screen("--selector", "length").out)[0] == REFERENCES


def test_a_line_names_the_selectors_that_cannot_be_told_from_a_control(screen, tmp_path):
    name = "repexp:lam=1e9,first=max"  # which is norm
    line = f"{name}: not told from norm (calls, {name} / norm: 1.00 [1.00, 1.00])."
    assert line in screen("--selector", name).out
    [row] = screen("--selector", "repexp", "--json").rows
    printed = screen("--selector", "repexp").out
    for control, told in row["controls"].items():
        pair = compare([told["cell"], row["cell"]], [tmp_path / "runs"])  # gives second / first
        assert told["ratio"] == pytest.approx(pair["ratio"])
        assert told["ratio_ci"] == pytest.approx(pair["ratio_ci"], rel=0.1)  # resampled with another seed
        assert (f"repexp: not told from {control} (" in printed) == (told["ratio_ci"][0] <= 1 <= told["ratio_ci"][1])
    assert "not told" not in screen("--selector", "repexp", "--limit", "1").out


PLUGIN = """
from harness import hookimpl


class First:
    needs = ()

    def rank(self, pool, rng):
        return iter(range(len(pool)))


class Broken(First):
    def rank(self, pool, rng):
        raise ValueError("not today")


@hookimpl
def register_selectors(register):
    register("first", First, controls=["first"])
    register("broken", Broken, controls=["broken"])
"""


def test_a_plugin_can_add_a_control_and_one_that_fails_is_left_out(screen, written):
    outcome = screen("--selector", "repexp", "--plugin", written(PLUGIN, "more.py"))
    assert sections(outcome.out)[0][3:] == ["first", *CONTROLS]
    line = "control broken left out: selector 'broken', problem 'p0', trial 0: raised ValueError: not today"
    assert line in outcome.err
