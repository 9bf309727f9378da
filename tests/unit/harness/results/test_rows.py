"""Rows: seeds joined, what is averaged, one answer of k, the texts of a table's columns, remarks on its verdicts."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from support.cells import cell, entry, keyed, subset_entry

from harness.results import cells, leaderboard, rows
from harness.results.rows import (
    answer_remarks,
    chance,
    columns,
    lines,
    percent,
    row,
    trust_in,
    verdict_remarks,
)
from harness.scoring import stats

# Ranks of three seeds, on problems of which the last is solvable with the first seed alone.
RANKS = ([[1, 3], [2, 6], [4, 4]], [[2, 2], [1, 5], [9, 9]], [[1, 1], [7, 3], [9, 9]])
C = ([2, 1, 1], [3, 2, 0], [1, 2, 0])


def of_seed(seed, **options):
    entries = [entry(f"p{i}", ranks, c) for i, (ranks, c) in enumerate(zip(RANKS[seed], C[seed], strict=True))]
    return cell(entries, seed=seed, **options)


THREE = [of_seed(seed) for seed in range(3)]


def groups(*several):
    return rows.rows_of(keyed(*several))


def test_seeds_and_trials_are_averaged_inside_a_problem_before_anything_is_said_of_problems():
    [group] = groups(*THREE)
    row = rows.row_of(group)
    ranks, c = np.array(RANKS, float), np.array(C)  # (seeds, problems, trials), (seeds, problems)
    ours, random = ranks.mean(axis=(0, 2)), (9 / (c + 1)).mean(axis=0)
    assert (row.problems, row.solvable, row.seeds, row.seed) == (3, 3, [0, 1, 2], None)
    assert row.samples_to_correct == pytest.approx(ours.mean())
    assert row.samples_to_correct_random == pytest.approx(random.mean())
    assert row.improvement == pytest.approx(random.mean() / ours.mean())
    interval = stats.ratio_interval(random, ours, cells.resampling_seed(*THREE))
    assert row.improvement_ci == pytest.approx(interval, rel=1e-5)
    solvable = [ours[0], ours[1], 4.0]
    assert row.samples_to_correct_solvable == pytest.approx(np.mean(solvable))
    assert row.improvement_solvable == pytest.approx(np.mean([random[0], random[1], 4.5]) / np.mean(solvable))
    assert row.pass_at_k["2"] == pytest.approx((ranks <= 2).mean())
    assert sorted(row.cells) == sorted(keyed(*THREE))
    flat = ranks.reshape(9, 2)
    assert row.p_random == pytest.approx(stats.random_order_test(flat, np.full(9, 8), c.ravel()), rel=1e-5)
    [one] = groups(THREE[0])
    alone = rows.row(THREE[0]).to_json() | {"seeds": [0], "cells": [cells.key_of(THREE[0])]}
    assert rows.row_of(one).to_json() == alone


def test_rankings_of_one_given_pool_are_more_trials_on_it_if_equally_many_and_a_subset_methods_seeds_one_row():
    shared = [of_seed(0, pool="given"), cell([entry(f"p{i}", [2, 2], C[0][i]) for i in range(3)], seed=1, pool="given")]
    outcomes = rows.outcomes(groups(*shared)[0])
    assert (outcomes.pools, outcomes.ranks.tolist()) == (1, [[1, 3, 2, 2], [2, 6, 2, 2], [4, 4, 2, 2]])
    second = of_seed(1, pool=THREE[0]["inputs"]["pool"]["key"])
    assert sorted(map(len, groups(THREE[0], second, THREE[2]))) == [1, 2]
    several = [
        cell([subset_entry("p0", first), subset_entry("p1", [4, 4])], "head", seed)
        for seed, first in enumerate(([1, 2], [8, 8]))
    ]
    row = rows.row_of(groups(*several)[0])
    assert (row.samples_to_correct, row.pass_at_k["2"], row.pass_at_k["4"]) == (None, 2 / 8, 6 / 8)
    assert row.gain_at_k["2"] == pytest.approx(2 / 8 - row.pass_at_k_random["2"])


DIFFERING = {
    "trials": cell([entry(f"p{i}", [1], 2) for i in range(3)], seed=1),
    "problems": cell([entry("p0", [1, 1])], seed=1),
    **{name: of_seed(1, **{name: "other"}) for name in ("model", "sampler", "split", "embedder", "selector", "engine")},
    "n": of_seed(1, inputs={"pool": {"n": 9}}),
    "selector's code": of_seed(1, inputs={"ranking": {"selector": {"name": "spread", "params": {}, "code": "1"}}}),
    "grader's code": of_seed(1, inputs={"verdict": {"code": "1"}}),
    "parameter called seed": of_seed(1, inputs={"ranking": {"selector": {"name": "spread", "params": {"seed": 1}}}}),
    "pool file": of_seed(1, inputs={"pool": {"file": "b.jsonl"}}),
}


def test_what_differs_in_more_than_the_seed_is_a_row_of_its_own():
    assert [name for name, other in DIFFERING.items() if len(groups(THREE[0], other)) != 2] == []
    projected = of_seed(1, inputs={"ranking": {"projection_seed": 1, "embedding": "key", "verdict": "key"}})
    assert len(groups(THREE[0], projected)) == 1


# avg@k, maj@k and best-of-k.

KS = ("1", "2", "4", "8")
BY_SIZE = dict(zip(KS, (0.25, 0.25, 0.5, 1.0), strict=True))


def answered(name, majority=BY_SIZE, c=2, **best):
    """A problem whose maj@k is `majority` (None: without answers) and whose best-of-k by each score is given."""
    votes = {} if majority is None else {"maj_at_k": majority}
    return entry(name, [1, 2], c, **votes, best_of_k=best)


def test_one_answer_of_k_is_the_mean_over_problems_and_each_pool_of_several_seeds_counts_once():
    both = [answered("a", reward=BY_SIZE), answered("b", dict.fromkeys(KS, 0.5), c=4, reward=dict.fromkeys(KS, 0.0))]
    shown = row(cell(both))
    assert shown.avg_at_k == 3 / 8
    assert shown.maj_at_k == dict(zip(KS, (0.375, 0.375, 0.5, 0.75), strict=True))
    assert shown.best_of_k == {"reward": dict(zip(KS, (0.125, 0.125, 0.25, 0.5), strict=True))}
    # A problem without answers counts nothing, one without scores the average.
    shown = row(cell([answered("a", reward=BY_SIZE), answered("b", None, c=4)]))
    assert shown.maj_at_k == dict(zip(KS, (0.125, 0.125, 0.25, 0.5), strict=True))
    assert shown.best_of_k["reward"] == dict(zip(KS, (0.375, 0.375, 0.5, 0.75), strict=True))
    small = {"maj_at_k": {"1": 0.5, "2": 0.5, "3": 1.0}, "best_of_k": {}}
    assert row(cell([answered("a"), entry("b", [1, 2], 1, n=3, **small)])).maj_at_k == {"1": 0.375, "2": 0.375}
    other = answered("a", dict.fromkeys(KS, 1.0))
    pools = [cell([[answered("a"), other][seed % 2]], seed=seed, pool="xy"[seed % 2]) for seed in range(4)]
    assert rows.row_of(groups(*pools)[0]).maj_at_k == dict(zip(KS, (0.625, 0.625, 0.75, 1.0), strict=True))


def test_one_answer_of_k_stands_in_a_remark_in_the_leaderboards_files_and_as_curves():
    shown, bare = row(cell([answered("a", reward=BY_SIZE)])), row(cell([answered("a", None)]))
    expected = "a random one (avg@k): 25.0; the commonest answer (maj@4): 50.0; the highest reward (best of 4): 50.0"
    assert list(answer_remarks([shown])) == [f"one answer taken from k responses, % correct: {expected}"]
    assert list(answer_remarks([bare])) == []
    tables = leaderboard.boards(leaderboard.Gathered(keyed(cell([answered("a", reward=BY_SIZE)]))))
    [line] = csv.DictReader(io.StringIO(leaderboard.as_csv(tables)))
    assert [line[name] for name in ("avg_at_k", "maj_at_k_4", "best_of_k_reward_8")] == ["0.25", "0.5", "1.0"]
    words = r"One answer taken from k responses, % correct: a random one \(avg@k\): 25.0;"
    assert words in leaderboard.markdown(tables, [])
    curves = rows.one_answer_of([[answered("a", reward=BY_SIZE), answered("b", None)]]).curves()
    assert list(curves) == ["avg@k", "maj@k", "best of k by reward"]
    assert curves["avg@k"].tolist() == [[0.25] * 4] * 2
    assert curves["maj@k"].mean(axis=0) == pytest.approx([0.125, 0.125, 0.25, 0.5])
    assert rows.one_answer_of([[answered("a", None)]]).curves() == {}


# The texts of a table's columns, and what it remarks on its verdicts.

RANKER = row(cell([entry(f"p{i}", [2, 2]) for i in range(4)]))


def texts(row, in_file=False):
    """Heading -> text of the row, and -> text of each reference."""
    shown = columns([row], in_file)
    references, _, [line] = lines([row], shown)
    heads = [column.head for column in shown]
    return dict(zip(heads, line, strict=True)), [dict(zip(heads, each, strict=True)) for each in references]


def test_a_ranker_has_calls_improvement_p_shares_gain_and_k95_and_what_does_not_exist_is_a_dash():
    shown, references = texts(RANKER)
    assert shown["samples-to-\ncorrect"] == "2.00"
    assert shown["improvement\n[95 %]"] == "1.50 [1.50, 1.50]"
    assert (shown["p\n"], shown["win/tie/loss\n%"], shown["k95\n(saved)"]) == ("0.32", "54/21/25", "2 (+4)")
    assert shown["gain@2\npoints [95 %]"] == "+53.6 [+53.6, +53.6]"
    assert [shown[f"pass@{k}\n%"] for k in (1, 4)] == ["0.0", "100.0"]
    heads = ("selector", "samples-to-\ncorrect", "improvement\n[95 %]", "k95\n(saved)", "pass@1\n%")
    assert [tuple(line[head] for head in heads) for line in references] == [
        ("random (exact)", "3.00", "1", "6", "25.0"),
        ("oracle", "1.00", "3.00", "", "100.0"),
        ("anti-oracle", "7.00", "0.43", "", "0.0"),
    ]
    shown, [random, *_] = texts(replace(RANKER, q_random=0.0123456, dist="toy", seeds=(0, 1)), in_file=True)
    assert (shown["samples-to-\ncorrect"], shown["win / tie / loss\n%"]) == ("2", "53.6 / 21.4 / 25.0")
    assert (shown["q\n"], shown["seeds"], random["k95"]) == ("0.01235", "2", "6")
    shown, _ = texts(replace(RANKER, improvement_ci=None, gain_at_k_ci={"2": None}, k95=None))
    named = [shown[name] for name in ("improvement\n[95 %]", "gain@2\npoints [95 %]", "k95\n(saved)")]
    assert named == ["1.50 [-]", "+53.6 [-]", "-"]
    assert percent(None) == chance(None) == "-"
    assert (chance(9e-10), chance(1e-9), percent(0.123456)) == ("<1e-9", "1e-09", "12.3")


def test_grades_are_added_up_over_pools_and_the_chance_level_is_the_mean_over_problems():
    def entries(*fields):
        return [entry(f"p{i}", **{"ranks": [1], **own}) for i, own in enumerate(fields)]

    first = entries({"routes": {"boxed": 1, "fallback": 1}, "chance": [1, 4]}, {"routes": {"####": 2}})
    second = entries({"routes": {"fallback": 2}, "chance": [2, 8]}, {"chance": [3, 6], "routes": {}})
    grades = trust_in([*first, *second], 7)
    assert list(grades["routes"].items()) == [("fallback", 3), ("####", 2), ("boxed", 1)]
    assert grades["fallback_share"] == 3 / 6
    level = grades["chance"]
    assert (level["correct"], level["gradings"], level["share"]) == (6, 18, pytest.approx((3 / 12 + 3 / 6) / 2))
    low, high = stats.difference_interval(np.array([3 / 12, 3 / 6]), 7)
    assert level["share_ci"] == [max(0.0, low), min(1.0, high)]
    spent = trust_in(entries({"answering": [4, 1.5]}, {"answering": [4, 0.25]}, {"answering": [4, 0.25]}), 0)
    assert spent["answering"] == {"responses": 12, "cpu_s": 2.0}

    def made(seed, pool, room, disputed):
        return cell([entry("p0", [1], disputed=disputed)], seed=seed, pool=pool) | {"conditions": {"room": [room]}}

    several = [made(0, "a", "1", 2), made(1, "a", "1", 2), made(2, "b", "0", None), made(3, "b", "1", None)]
    joined = rows.row_of(groups(*several)[0])
    assert (joined.conditions, joined.disputed) == ({"room": ["0", "1"]}, 2)


def test_a_table_says_what_answers_cost_fallbacks_and_a_chance_level_make_of_its_verdicts():
    plain = row(cell([entry("p0", [1])]))
    costs = {"responses": 12, "cpu_s": 2.0}
    words = "answers by running 12 responses: 2.0 CPU-seconds, 166.7 ms each, 0.50 s for the 3 of a problem, to set"
    [said] = verdict_remarks(replace(plain, n=3, routes=None, answering=costs))
    assert said == f"{words} against the calls saved"
    start = "correct by a fallback, not stated as asked: "
    for n, words in ((1, "1 of 20 verdicts, 5.0 %"), (2, "2 of 21 verdicts, 10.0 %, over 5 %: read them before you")):
        [line] = verdict_remarks(replace(plain, routes={"boxed": 19, "fallback": n}, fallback_share=n / 20))
        assert line.startswith(f"{start}{words}")
    assert list(verdict_remarks(replace(plain, routes={"-": 3}))) == []
    level = {"correct": 1, "gradings": 1000, "share": 0.001, "share_ci": [0.0, 0.002]}
    [line] = verdict_remarks(replace(plain, chance=level, n=1000))
    assert line == (
        "chance level: 0.10 % [0.00, 0.20], 1 of 1,000 gradings against other problems' answers are correct, 25.00 % "
        "for their own; at that level one of 1,000 responses is correct with a probability of 63 %"
    )
    nothing = {"correct": 0, "gradings": 9, "share": 0.0, "share_ci": None}
    [line] = verdict_remarks(replace(plain, chance=nothing, pass_at_k_random={}))
    assert line == "chance level: 0.00 %, 0 of 9 gradings against other problems' answers are correct"
