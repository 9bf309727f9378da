"""Each selector's picks, beyond those in the store, and how novel each was when it was picked."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from support.paths import TOY
from support.report_page import picks_of

from harness import Pool, Problem
from harness.system.progress import Progress
from harness_plugins.report.browsing import PICKS, Browser, nearest_earlier
from harness_plugins.report.results import chosen_cells


def test_orders_go_on_to_the_end_beyond_the_first_correct_pick(shown):
    cell = json.loads((shown.store / "cells" / f"{shown.rows['repexp']['cell']}.json").read_text())
    stored = {entry["id"]: entry["orders"] for entry in cell["problems"]}
    for problem, picks in zip(shown.data["problems"], picks_of(shown.data, "repexp"), strict=True):
        assert sorted(picks["order"]) == list(range(16))
        assert picks["note"] == ""
        first = stored[problem["id"]][0]
        assert picks["order"][: len(first)] == first
        assert problem["verdict"][first[-1]] == "c"
        assert "c" not in [problem["verdict"][index] for index in first[:-1]]


def test_a_selector_that_changed_or_is_gone_shows_its_stored_picks_and_says_so(report, copied, shown, tmp_path):
    changed = tmp_path / "changed.py"
    changed.write_text(TOY.read_text() + "\nEDITED = True\n")
    for plugin, reason in ((changed, "another version"), (None, "unknown selector 'shuffle'")):
        picks = picks_of(report(plugin=plugin), "shuffle")
        for entry, before in zip(picks, picks_of(shown.data, "shuffle"), strict=True):
            assert reason in entry["note"]
            assert entry["order"] == before["order"][: entry["ranks"][0]]
            assert len(entry["values"]) == len(entry["order"])


def ranks(order, raises=False):
    """A selector that ranks as it is given, and then raises if it is told to."""

    def rank(pool, rng):
        yield from order
        if raises:
            raise ZeroDivisionError("oh")

    return SimpleNamespace(rank=rank)


def test_an_order_is_shown_only_where_it_begins_as_the_stored_one_and_as_far_as_it_goes(shown):
    (cell,) = chosen_cells(shown.store, [shown.rows["shuffle"]["cell"]], Progress())
    browser, n = Browser(shown.store, [cell], [TOY]), PICKS + 1
    pool = Pool(["x"] * n, np.zeros((n, 0), np.float32), np.zeros(n), np.zeros(n, np.int64), [None] * n)
    table = [
        (ranks(range(n)), [0, 1], [*range(PICKS)], f"the first {PICKS} picks are shown"),
        (ranks(range(n)), [*range(n)], [*range(n)], ""),
        (ranks(range(n)), [1], [1], "only the stored picks are shown: this machine's order differs from them"),
        (ranks([0, 1], raises=True), [0], [0], "only the stored picks are shown: "),
    ]
    for selector, stored, order, note in table:
        browser.built[cell.key] = selector
        shown_order, shown_note = browser.order(cell, pool, Problem("a", "b"), stored)
        assert shown_order == order
        assert shown_note.startswith(note)
        assert bool(shown_note) == bool(note)
    assert "ZeroDivisionError" in shown_note


def test_repexp_shows_its_bonus_and_others_the_distance_to_the_nearest_earlier_pick(shown):
    bonuses, distances = picks_of(shown.data, "repexp")[0], picks_of(shown.data, "spread")[0]
    assert bonuses["figure"] == "elliptical bonus"
    assert np.all(np.diff(bonuses["values"][1:]) < 1e-3)  # after the random first pick each has the largest left
    assert distances["figure"].startswith("distance")
    assert distances["values"][0] is None
    assert len(bonuses["values"]) == len(distances["values"]) == 16
    assert picks_of(shown.data, "shuffle")[0]["values"][1] > 0  # it reads no vectors, and is measured on the map's
    h = np.random.default_rng(1).normal(size=(7, 3))
    expected = [min(float(np.linalg.norm(h[i] - h[j])) for j in range(i)) for i in range(1, 7)]
    assert nearest_earlier(h) == [None, *map(pytest.approx, expected)]
