"""How far correct verdicts can be trusted: by fallbacks, and by chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.cells import cell, entry

from harness.results import cells
from harness.results.verdict_quality import level, quality, remarks
from harness.scoring import stats


def made(*fields):
    return cell([entry(f"p{i}", **{"ranks": [1], **own}) for i, own in enumerate(fields)])


def test_routes_are_added_up_the_most_frequent_first_and_older_cells_have_none():
    first = made({"routes": {"boxed": 1, "fallback": 1}}, {"routes": {"####": 2}})
    second = made({"routes": {"fallback": 1, "a": 1}}, {"c": 0, "ranks": [9], "routes": {}})
    grades = quality([first, second], 0)
    assert list(grades["routes"].items()) == [("####", 2), ("fallback", 2), ("a", 1), ("boxed", 1)]
    assert (grades["fallback_share"], grades["chance"]) == (2 / 6, None)
    nothing = quality([made({"c": 0, "routes": {}})], 0)
    assert (nothing["routes"], nothing["fallback_share"]) == ({}, None)
    older = made({}, {})
    del older["problems"][1]["routes"]
    assert quality([older], 0) == {"routes": None, "fallback_share": None, "chance": None}
    assert list(remarks(replace(cells.row(made({})), routes=None))) == []


def test_the_chance_level_is_the_mean_over_problems_of_all_their_pools():
    several = [made({"chance": [1, 4]}, {"chance": [0, 0]}), made({"chance": [2, 8]}, {"chance": [3, 6]})]
    grades = quality(several, 7)["chance"]
    assert (grades["correct"], grades["gradings"], grades["share"]) == (6, 18, pytest.approx((3 / 12 + 3 / 6) / 2))
    low, high = stats.difference_interval(np.array([3 / 12, 3 / 6]), 7)
    assert grades["share_ci"] == [max(0.0, low), min(1.0, high)]
    assert level([(0, 5), (0, 5)], 0)["share_ci"] is None
    assert level([(0, 1), (1, 1)], 0)["share_ci"] == [0.0, 1.0]
    assert level([], 0) is None


def test_a_table_warns_of_many_fallbacks():
    row = cells.row(made({}))
    lines = [list(remarks(replace(row, routes={"boxed": 19, "fallback": n}, fallback_share=n / 20))) for n in (0, 1, 2)]
    start = "correct by a fallback, not stated as asked: "
    assert [line for [line] in lines] == [
        f"{start}0 of 19 verdicts, 0.0 %",
        f"{start}1 of 20 verdicts, 5.0 %",
        f"{start}2 of 21 verdicts, 10.0 %, over 5 %: read them before you trust this table",
    ]
    assert list(remarks(replace(row, routes={"-": 3}))) == []


def test_a_table_says_what_a_chance_level_makes_of_n_responses():
    row, grades = cells.row(made({})), {"correct": 1, "gradings": 1000, "share": 0.001, "share_ci": [0.0, 0.002]}
    [line] = remarks(replace(row, chance=grades, n=1000))
    assert line == (
        "chance level: 0.10 % [0.00, 0.20], 1 of 1,000 gradings against other problems' answers are correct, 25.00 % "
        "for their own; at that level one of 1,000 responses is correct with a probability of 63 %"
    )
    nothing = {"correct": 0, "gradings": 9, "share": 0.0, "share_ci": None}
    [line] = remarks(replace(row, chance=nothing, pass_at_k_random={}))
    assert line == "chance level: 0.00 %, 0 of 9 gradings against other problems' answers are correct"
