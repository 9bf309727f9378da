"""Two rows compared on the problems and seeds that they share; and the controls that stand beside selectors."""

import re

import numpy as np
import pytest
from support.cells import cell, entry, failed_cell, keep, subset_entry
from support.choosing import of_duplicates
from support.refusals import refusal_of
from support.stores import all_cells

from harness.results.comparison import compare
from harness.scoring import curves

RANKS = {"spread": ([1, 3], [4, 4], [2, 6], [5, 5]), "shuffle": ([2, 2], [7, 5], [1, 1], [5, 5])}
SPREAD, SHUFFLE = ([entry(f"p{i}", ranks) for i, ranks in enumerate(RANKS[name])] for name in RANKS)


@pytest.fixture
def store(tmp_path):
    """Compare cells, each kept in a folder and named by its key; options: `by` file or key."""

    def call(*several, beside=(), by="key"):
        paths = keep(tmp_path / "cells", *several)
        keep(tmp_path / "cells", *beside)
        return compare([str(path) if by == "file" else path.stem for path in paths], [tmp_path / "cells"] * 2)

    return call


def test_two_rankers_are_compared_by_calls_on_the_problems_that_they_share(store):
    value = store(cell(SPREAD), cell([*SHUFFLE[:3][::-1], entry("only here", [1, 1])], "shuffle"))
    assert (value["problems"], value["left_out"], value["budget"]) == (3, 2, None)
    assert value["samples_to_correct"] == pytest.approx([10 / 3, 9 / 3])
    assert (value["difference"], value["ratio"]) == (pytest.approx(1 / 3), pytest.approx(9 / 10))
    assert value["fewer"] == [{"id": "p1", "first": 4.0, "second": 6.0}]
    assert value["more"] == [{"id": "p2", "first": 4.0, "second": 1.0}]
    assert (value["first"]["selector"], value["first"]["trust"]) == ("spread", "few problems")
    value = store(*(cell([entry(f"p{i}", [1 + (i * k) % 5], c=1) for i in range(20)], str(k)) for k in (1, 3)))
    for name in ("difference", "ratio"):
        assert value[f"{name}_ci"][0] < value[name] < value[f"{name}_ci"][1]


def test_a_subset_method_is_compared_by_its_hits_at_the_telling_budget(store):
    value = store(cell(SPREAD), cell([subset_entry(f"p{i}", [4, [4, 1, 4, 8][i]]) for i in range(4)], "head"))
    assert (value["budget"], value["samples_to_correct"], value["ratio"]) == (2, None, None)
    assert (value["pass_at_budget"], value["difference"]) == ([2 / 8, 1 / 8], -1 / 8)
    assert value["fewer"] == [{"id": "p0", "first": 0.5, "second": 0.0}, {"id": "p2", "first": 0.5, "second": 0.0}]
    unsolvable = [cell([entry("p0", [9, 9], c=0)]), cell([subset_entry("p0", [9, 9], c=0)], "head")]
    assert store(*unsolvable)["budget"] == 1


def test_it_says_how_many_times_fewer_calls_the_first_needs_at_the_budgets_of_the_second(store):
    early = cell([entry(f"p{i}", [1 + i % 4] * 2) for i in range(40)])
    late = cell([entry(f"p{i}", [1 + 2 * (i % 4)] * 2) for i in range(40)], "late")
    value = store(early, late)
    # Solved: early 1/4, 2/4, 3/4, 1 at k = 1, 2, 3, 4; late 1/4, 1/4, 2/4, 2/4, 3/4, 3/4, 1, 1 at k = 1, ..., 8.
    times = [(at["k"], at["pass_at_k"], at["calls_behind"], at["calls"], at["times"]) for at in value["efficiency"]]
    assert times == [(1, 0.25, 1, 1, 1), (2, 0.25, 1, 1, 1), (4, 0.5, 3, 2, 1.5), (8, 1, 7, 4, 1.75)]
    assert (value["largest_efficiency"]["k"], value["largest_efficiency"]["times"]) == (5, 5 / 3)
    other = cell([entry(f"p{i}", [9] * 2, c=0) for i in range(40)], "other", pool="elsewhere", sampler="low-temp")
    value = store(other, early)  # another sampler's pool, which has nothing
    assert {(at["times"], at["no_interval"]) for at in value["efficiency"]} == {(None, curves.NEVER)}
    assert value["largest_efficiency"] is None


def test_a_key_stands_for_all_its_seeds_and_a_file_for_itself(store):
    spread = [cell(SPREAD, seed=seed) for seed in (0, 1, 2)]
    shuffle = [cell(SHUFFLE, "shuffle", seed) for seed in (0, 1)]
    value = store(shuffle[0], spread[2], beside=(*spread, *shuffle))
    assert (value["first"]["seeds"], value["second"]["seeds"]) == ([0, 1], [0, 1])
    assert (value["seeds_left_out"], value["same_pool"], value["problems"]) == (1, True, 4)
    apart = store(shuffle[0], spread[2], by="file")  # no seed in common: all of each, and the pools differ
    assert (apart["first"]["seeds"], apart["second"]["seeds"], apart["same_pool"]) == ([0], [2], False)


def test_what_cannot_be_compared_or_found_is_one_line(store, tmp_path):
    for other, words in (
        (cell([entry("other", [1, 1])]), "have no problem in common"),
        (cell([entry(f"p{i}", [1]) for i in range(4)], "few"), "compare: the cells have 2 and 1 trials"),
        (cell([subset_entry(f"p{i}", [1, 1], n=3 - i, c=1) for i in (0, 2)]), "have no common budget of 2"),
        (failed_cell("twice", "index 0"), "failed (index 0): run it again"),
    ):
        assert words in refusal_of(store, cell(SPREAD), other)
    where = tmp_path / "more"
    first, second = keep(where, cell(SPREAD), cell(SHUFFLE, "shuffle"))
    (where / "zz.json").write_text("no cell")
    assert compare([first.stem[:6], second.stem], [where])["problems"] == 4  # among readable cells alone
    line = f"compare: no file 'none', and no cell whose key begins so in {where}"
    assert refusal_of(compare, ["none", second.stem], [where]) == line
    assert "compare: '' begins the keys of 3 cells (" in refusal_of(compare, ["", second.stem], [where])


# Controls: norm and length stand beside selectors by vectors, with the references; tables say what is like them.

CONTROLS = ["length", "length:first=long", "norm"]
REFERENCES = ["random", "oracle", "anti-oracle"]
PLUGIN = """
from harness import hookimpl

class First:
    needs, breaks = (), False
    def rank(self, pool, rng):
        return iter(range(len(pool))) if not self.breaks else 1 / 0

@hookimpl
def register_selectors(register):
    register("first", First, controls=["first"])
    register("broken", type("Broken", (First,), {"breaks": True}), controls=["broken"])
"""


@pytest.fixture
def screen(harness, written, tmp_path):
    """Run selectors on eight problems of 16 candidates with vectors."""
    rng, lines = np.random.default_rng(3), []
    for i in range(8):
        texts, correct = ["x" * int(size) for size in rng.integers(1, 40, 16)], (rng.random(16) < 0.25).tolist()
        lines.append({"problem_id": f"p{i}", "responses": texts, "correct": correct})
    np.savez(tmp_path / "E.npz", **{line["problem_id"]: of_duplicates(16, 4, at) for at, line in enumerate(lines)})
    options = ("--pool", written(lines), "--embeddings", tmp_path / "E.npz", "--store", tmp_path / "runs")
    return lambda *args: harness("run", *options, *args)


def sections(text):
    """The selectors in the two sections of a printed table."""
    parts = re.split(r"\n *\n", text[re.search(r"^ *random\b", text, re.M).start() :])
    return [[line.split()[0] for line in part.splitlines()] for part in parts[:2]]


def test_controls_also_of_plugins_stand_with_the_references_and_in_no_row_unless_they_are_named(
    screen, harness, written, tmp_path
):
    selectors = ("--selector", "repexp", "--selector", "uniform")
    outcome = screen(*selectors, "--plugin", written(PLUGIN, "more.py"))
    assert sections(outcome.out) == [[*REFERENCES, "first", *CONTROLS], ["repexp", "uniform"]]
    line = "control broken left out: selector 'broken', problem 'p0', trial 0: raised ZeroDivisionError: "
    assert line in outcome.err
    repexp, uniform = screen(*selectors, "--json").rows
    assert list(repexp["controls"]) == CONTROLS
    assert {"control", "controls"} & {*uniform} == set()  # it reads no vectors
    keep(tmp_path / "alone", *all_cells(tmp_path / "runs"))
    [board], [alone] = (harness("leaderboard", tmp_path / name, "--json").rows for name in ("runs", "alone"))
    for name in ("selector", "q_random"):
        assert [row[name] for row in board["rows"]] == [row[name] for row in alone["rows"]]
    named = screen("--selector", "repexp", "--selector", "norm")  # a control before
    assert sections(named.out) == [[*REFERENCES, *CONTROLS[:2]], ["repexp", "norm"]]
    assert sections(harness("leaderboard", tmp_path / "runs").out)[0] == [*REFERENCES, "first", *CONTROLS[:2]]


def test_a_line_names_the_selectors_that_cannot_be_told_from_a_control(screen, tmp_path):
    name = "repexp:lam=1e9,first=max"  # which is norm
    line = f"{name}: not told from norm (calls, {name} / norm: 1.00 [1.00, 1.00])."
    assert line in screen("--selector", name).out
    printed, [row] = screen("--selector", "repexp").out, screen("--selector", "repexp", "--json").rows
    for control, told in row["controls"].items():
        pair = compare([told["cell"], row["cell"]], [tmp_path / "runs"])  # gives second / first
        assert told["ratio"] == pytest.approx(pair["ratio"])
        assert told["ratio_ci"] == pytest.approx(pair["ratio_ci"], rel=0.1)  # resampled with another seed
        assert (f"repexp: not told from {control} (" in printed) == (told["ratio_ci"][0] <= 1 <= told["ratio_ci"][1])
