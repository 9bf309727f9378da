"""The texts of a table's columns, and what it remarks on its verdicts: fallbacks, and chance."""

from dataclasses import replace

import numpy as np
import pytest
from support.cells import cell, entry

from harness.results.rows import (
    chance,
    chance_level,
    columns,
    lines,
    percent,
    remarks,
    row,
    trust_in,
    verdict_remarks,
)
from harness.scoring import stats

RANKER = row(cell([entry(f"p{i}", [2, 2]) for i in range(4)]))


def texts(row, rows=None, in_file=False):
    """Heading -> text of the row, and -> text of each reference."""
    shown = columns(rows or [row], in_file)
    references, _, [line] = lines([row], shown)
    heads = [column.head for column in shown]
    return dict(zip(heads, line, strict=True)), [dict(zip(heads, each, strict=True)) for each in references]


def test_a_ranker_has_calls_improvement_p_shares_gain_and_k95():
    shown, [random, oracle, worst] = texts(RANKER)
    assert shown["samples-to-\ncorrect"] == "2.00"
    assert shown["improvement\n[95 %]"] == "1.50 [1.50, 1.50]"
    assert (shown["p\n"], shown["win/tie/loss\n%"], shown["k95\n(saved)"]) == ("0.32", "54/21/25", "2 (+4)")
    assert shown["gain@2\npoints [95 %]"] == "+53.6 [+53.6, +53.6]"
    assert [shown[f"pass@{k}\n%"] for k in (1, 4)] == ["0.0", "100.0"]
    assert "pass@16\n%" not in shown
    assert (random["selector"], oracle["selector"], worst["selector"]) == ("random (exact)", "oracle", "anti-oracle")
    calls = [(line["samples-to-\ncorrect"], line["improvement\n[95 %]"]) for line in (random, oracle, worst)]
    assert calls == [("3.00", "1"), ("1.00", "3.00"), ("7.00", "0.43")]
    assert [line["k95\n(saved)"] for line in (random, oracle, worst)] == ["6", "", ""]
    assert [line["pass@1\n%"] for line in (random, oracle, worst)] == ["25.0", "100.0", "0.0"]


def test_a_published_table_has_more_digits_and_q_once_rows_were_corrected():
    row = replace(RANKER, q_random=0.0123456, dist="toy", seeds=(0, 1))
    shown, [random, *_] = texts(row, in_file=True)
    assert (shown["samples-to-\ncorrect"], shown["win / tie / loss\n%"]) == ("2", "53.6 / 21.4 / 25.0")
    assert (shown["q\n"], shown["seeds"]) == ("0.01235", "2")
    assert (random["k95"], texts(replace(RANKER, k95_random=None), in_file=True)[1][0]["k95"]) == ("6", "-")
    assert texts(row)[0]["q\n"] == "0.012"


def test_what_does_not_exist_is_a_dash():
    bare = replace(RANKER, improvement_ci=None, gain_at_k_ci={"2": None}, k95=None)
    shown, _ = texts(bare)
    named = [shown[name] for name in ("improvement\n[95 %]", "gain@2\npoints [95 %]", "k95\n(saved)")]
    assert named == ["1.50 [-]", "+53.6 [-]", "-"]
    assert percent(None) == chance(None) == "-"
    assert (chance(9e-10), chance(1e-9), percent(0.123456)) == ("<1e-9", "1e-09", "12.3")
    assert texts(replace(RANKER, budget=None))[0]["gain\npoints [95 %]"] == "-"


def test_each_reason_for_a_missing_interval_is_named_once_with_its_selectors():
    wide = {"improvement_ci": stats.TOO_WIDE, "gain_at_k_ci": f"k = 2: {stats.BEYOND_RANGE}"}
    first = replace(RANKER, no_interval=wide, gain_at_k_ci={"2": None})
    elsewhere = replace(RANKER, selector="b", no_interval=wide)  # its gain at the budget shown has an interval
    assert remarks([first, elsewhere, RANKER]) == [
        f"improvement [-]: {stats.TOO_WIDE} (spread, b).",
        f"gain [-]: {stats.BEYOND_RANGE} (spread).",
    ]


def made(*fields):
    return cell([entry(f"p{i}", **{"ranks": [1], **own}) for i, own in enumerate(fields)])


def trusted(cells, seed):
    return trust_in([each for cell in cells for each in cell["problems"]], seed)


def test_routes_are_added_up_the_most_frequent_first():
    first = made({"routes": {"boxed": 1, "fallback": 1}}, {"routes": {"####": 2}})
    second = made({"routes": {"fallback": 1, "a": 1}}, {"c": 0, "ranks": [9], "routes": {}})
    grades = trusted([first, second], 0)
    assert list(grades["routes"].items()) == [("####", 2), ("fallback", 2), ("a", 1), ("boxed", 1)]
    assert (grades["fallback_share"], grades["chance"]) == (2 / 6, None)
    nothing = trusted([made({"c": 0, "routes": {}})], 0)
    assert (nothing["routes"], nothing["fallback_share"]) == ({}, None)


def test_the_chance_level_is_the_mean_over_problems_of_all_their_pools():
    several = [made({"chance": [1, 4]}, {"chance": [0, 0]}), made({"chance": [2, 8]}, {"chance": [3, 6]})]
    grades = trusted(several, 7)["chance"]
    assert (grades["correct"], grades["gradings"], grades["share"]) == (6, 18, pytest.approx((3 / 12 + 3 / 6) / 2))
    low, high = stats.difference_interval(np.array([3 / 12, 3 / 6]), 7)
    assert grades["share_ci"] == [max(0.0, low), min(1.0, high)]
    assert chance_level([(0, 5), (0, 5)], 0)["share_ci"] is None
    assert chance_level([(0, 1), (1, 1)], 0)["share_ci"] == [0.0, 1.0]
    assert chance_level([], 0) is None


def test_what_answers_cost_is_added_up_over_pools_and_set_against_the_calls_saved():
    pools = [made({"answering": [4, 1.5]}, {"answering": [4, 0.25]}), made({"answering": [4, 0.25]})]
    assert trusted(pools, 0)["answering"] == {"responses": 12, "cpu_s": 2.0}
    line = "answers by running 12 responses: 2.0 CPU-seconds, 166.7 ms each, 0.50 s for the 3 of a problem, to set"
    [said] = verdict_remarks(replace(row(made({})), n=3, routes=None, answering={"responses": 12, "cpu_s": 2.0}))
    assert said == f"{line} against the calls saved"


def test_a_table_warns_of_many_fallbacks():
    plain = row(made({}))
    lines = [
        list(verdict_remarks(replace(plain, routes={"boxed": 19, "fallback": n}, fallback_share=n / 20)))
        for n in (0, 1, 2)
    ]
    start = "correct by a fallback, not stated as asked: "
    assert [line for [line] in lines] == [
        f"{start}0 of 19 verdicts, 0.0 %",
        f"{start}1 of 20 verdicts, 5.0 %",
        f"{start}2 of 21 verdicts, 10.0 %, over 5 %: read them before you trust this table",
    ]
    assert list(verdict_remarks(replace(plain, routes={"-": 3}))) == []


def test_a_table_says_what_a_chance_level_makes_of_n_responses():
    plain, grades = row(made({})), {"correct": 1, "gradings": 1000, "share": 0.001, "share_ci": [0.0, 0.002]}
    [line] = verdict_remarks(replace(plain, chance=grades, n=1000))
    assert line == (
        "chance level: 0.10 % [0.00, 0.20], 1 of 1,000 gradings against other problems' answers are correct, 25.00 % "
        "for their own; at that level one of 1,000 responses is correct with a probability of 63 %"
    )
    nothing = {"correct": 0, "gradings": 9, "share": 0.0, "share_ci": None}
    [line] = verdict_remarks(replace(plain, chance=nothing, pass_at_k_random={}))
    assert line == "chance level: 0.00 %, 0 of 9 gradings against other problems' answers are correct"
