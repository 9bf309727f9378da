"""Controls: norm and length stand beside selectors by vectors, with the references; tables say what is like them."""

import json

import numpy as np
import pytest
from support.choosing import of_duplicates
from support.stores import all_cells

from harness.results import comparison

CONTROLS = ["length", "length:first=long", "norm"]


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


def test_controls_stand_with_the_references_and_in_no_row(screen, harness, tmp_path):
    printed = screen("--selector", "repexp", "--selector", "uniform").out
    assert sections(printed) == (["random", "oracle", "anti-oracle", *CONTROLS], ["repexp", "uniform"])
    repexp, uniform = screen("--selector", "repexp", "--selector", "uniform", "--json").rows
    assert list(repexp["controls"]) == CONTROLS
    assert "controls" not in uniform  # it reads no vectors
    assert {"control"} & {*repexp, *uniform} == set()
    assert sections(harness("leaderboard", tmp_path / "runs").out)[0] == ["random", "oracle", "anti-oracle", *CONTROLS]
    [board] = json.loads(harness("leaderboard", tmp_path / "runs", "--json").out)
    assert [row["selector"] for row in board["controls"]] == CONTROLS
    assert {row["selector"] for row in board["rows"]} == {"repexp", "uniform"}
    alone = json.loads(harness("leaderboard", *_without_controls(tmp_path), "--json").out)
    assert [row["q_random"] for row in board["rows"]] == [row["q_random"] for row in alone[0]["rows"]]


def _without_controls(tmp_path):
    folder = tmp_path / "alone"
    folder.mkdir()
    for path in (tmp_path / "runs" / "cells").iterdir():
        if not json.loads(path.read_text()).get("control"):
            (folder / path.name).write_bytes(path.read_bytes())
    return [folder]


def test_a_line_names_the_selectors_that_cannot_be_told_from_a_control(screen, tmp_path):
    printed = screen("--selector", "repexp:lam=1e9,first=max").out  # which is norm
    assert (
        "repexp:lam=1e9,first=max: not told from norm (calls, repexp:lam=1e9,first=max / norm: 1.00 [1.00, 1.00])."
        in printed
    )
    [row] = screen("--selector", "repexp", "--json").rows
    for control, told in row["controls"].items():
        pair = comparison.compare([told["cell"], row["cell"]], [tmp_path / "runs"])  # gives second / first
        assert told["ratio"] == pytest.approx(pair["ratio"])
        assert told["ratio_ci"] == pytest.approx(pair["ratio_ci"], rel=0.1)  # resampled with another seed
        said = f"repexp: not told from {control} (" in screen("--selector", "repexp").out
        assert said == (told["ratio_ci"][0] <= 1 <= told["ratio_ci"][1])
    assert "not told" not in screen("--selector", "repexp", "--limit", "1").out


def test_a_control_that_is_named_is_an_ordinary_row_once(screen, harness, tmp_path):
    screen("--selector", "repexp")  # where it was a control before
    named = screen("--selector", "repexp", "--selector", "norm")
    assert sections(named.out) == (["random", "oracle", "anti-oracle", *CONTROLS[:2]], ["repexp", "norm"])
    repexp, norm = screen("--selector", "repexp", "--selector", "norm", "--json").rows
    assert (norm["control"], "controls" in norm, sorted(repexp["controls"])) == (False, False, CONTROLS)
    assert sections(harness("leaderboard", tmp_path / "runs").out)[0][3:] == CONTROLS[:2]


def test_nothing_is_added_where_no_selector_reads_vectors(screen, tmp_path):
    assert sections(screen("--selector", "length").out)[0] == ["random", "oracle", "anti-oracle"]
    assert len(list((tmp_path / "runs" / "cells").iterdir())) == len(all_cells(tmp_path / "runs")) == 1


def test_a_plugin_can_add_a_control_and_one_that_fails_is_left_out(screen, written):
    code = """
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
    outcome = screen("--selector", "repexp", "--plugin", written(code, "more.py"))
    assert sections(outcome.out)[0][3:] == ["first", *CONTROLS]
    assert (
        "control broken left out: selector 'broken', problem 'p0', trial 0: raised ValueError: not today" in outcome.err
    )
