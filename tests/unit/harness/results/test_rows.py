"""Rows: seeds joined, what is averaged, one answer of k, remarks on its verdicts."""

from dataclasses import replace

import numpy as np
import pytest
from support.cells import cell, entry, keyed, subset_entry

from harness.results import cells, rows
from harness.results.rows import answer_remarks, row, verdict_remarks
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
    assert sorted(row.cells) == sorted(keyed(*THREE))
    assert [row.samples_to_correct, row.samples_to_correct_random] == pytest.approx([ours.mean(), random.mean()])
    assert row.improvement == pytest.approx(random.mean() / ours.mean())
    interval = stats.ratio_interval(random, ours, cells.resampling_seed(*THREE))
    assert row.improvement_ci == pytest.approx(interval, rel=1e-5)
    solvable = [ours[0], ours[1], 4.0]
    assert row.samples_to_correct_solvable == pytest.approx(np.mean(solvable))
    assert row.improvement_solvable == pytest.approx(np.mean([random[0], random[1], 4.5]) / np.mean(solvable))
    assert row.pass_at_k["2"] == pytest.approx((ranks <= 2).mean())
    flat = ranks.reshape(9, 2)
    assert row.p_random == pytest.approx(stats.random_order_test(flat, np.full(9, 8), c.ravel()), rel=1e-5)
    [one] = groups(THREE[0])
    alone = rows.row(THREE[0]).to_json() | {"seeds": [0], "cells": [cells.key_of(THREE[0])]}
    assert rows.row_of(one).to_json() == alone


def test_rankings_of_one_given_pool_are_more_trials_on_it_and_a_subset_methods_seeds_one_row():
    shared = [of_seed(0, pool="given"), cell([entry(f"p{i}", [2, 2], C[0][i]) for i in range(3)], seed=1, pool="given")]
    outcomes = rows.outcomes(groups(*shared)[0])
    assert (outcomes.pools, outcomes.ranks.tolist()) == (1, [[1, 3, 2, 2], [2, 6, 2, 2], [4, 4, 2, 2]])
    several = [cell([subset_entry("p0", first)], "head", seed) for seed, first in enumerate(([1, 2], [8, 8]))]
    row = rows.row_of(groups(*several)[0])
    assert (row.samples_to_correct, row.pass_at_k["1"], row.pass_at_k["4"]) == (None, 1 / 4, 1 / 2)


OTHER = {"name": "spread", "params": {"seed": 1}}
DIFFERING = {
    "trials": cell([entry(f"p{i}", [1], 2) for i in range(3)], seed=1),
    "problems": cell([entry("p0", [1, 1])], seed=1),
    "pools": of_seed(1, pool=THREE[0]["inputs"]["pool"]["key"]),
    **{name: of_seed(1, **{name: "other"}) for name in ("model", "sampler", "split", "embedder", "selector", "engine")},
    "n": of_seed(1, inputs={"pool": {"n": 9}}),
    "selector's parameter called seed": of_seed(1, inputs={"ranking": {"selector": OTHER}}),
    "grader's code": of_seed(1, inputs={"verdict": {"code": "1"}}),
}


def test_what_differs_in_more_than_the_seed_is_a_row_of_its_own():
    assert [name for name, other in DIFFERING.items() if len(groups(THREE[0], THREE[2], other)) != 2] == []
    projected = of_seed(1, inputs={"ranking": {"projection_seed": 1, "embedding": "key", "verdict": "key"}})
    assert len(groups(THREE[0], projected)) == 1


KS = ("1", "2", "4", "8")


def by_k(*shares):
    return dict(zip(KS, shares, strict=False))


BY_SIZE = by_k(0.25, 0.25, 0.5, 1.0)


def answered(name, majority=BY_SIZE, c=2, **best):
    """A problem whose maj@k is `majority` (None: without answers) and whose best-of-k by each score is given."""
    return entry(name, [1, 2], c, **({} if majority is None else {"maj_at_k": majority}), best_of_k=best)


def test_one_answer_of_k_is_the_mean_over_problems_and_each_pool_of_several_seeds_counts_once():
    # A problem without answers counts nothing, one without scores the average.
    shown = row(cell([answered("a", reward=BY_SIZE), answered("b", None, c=4)]))
    line = (
        "one answer taken from k responses, % correct: a random one (avg@k): 37.5; the commonest answer (maj@4): 25.0"
    )
    assert [remark[: len(line)] for remark in answer_remarks([shown])] == [line]
    assert (shown.avg_at_k, shown.maj_at_k) == (3 / 8, by_k(0.125, 0.125, 0.25, 0.5))
    assert shown.best_of_k == {"reward": by_k(0.375, 0.375, 0.5, 0.75)}
    small = {"maj_at_k": {"1": 0.5, "2": 0.5, "3": 1.0}, "best_of_k": {}}
    assert row(cell([answered("a"), entry("b", [1, 2], 1, n=3, **small)])).maj_at_k == by_k(0.375, 0.375)
    kinds = [answered("a"), answered("a", dict.fromkeys(KS, 1.0))]
    pools = [cell([kinds[seed % 2]], seed=seed, pool="xy"[seed % 2]) for seed in range(4)]
    assert rows.row_of(groups(*pools)[0]).maj_at_k == by_k(0.625, 0.625, 0.75, 1.0)


def test_grades_are_added_up_over_pools_and_the_chance_level_is_the_mean_over_problems():
    def entries(*fields):
        return [entry(f"p{i}", **{"ranks": [1], **own}) for i, own in enumerate(fields)]

    first = entries({"routes": {"boxed": 1, "fallback": 1}, "chance": [1, 4]}, {"routes": {"####": 2}})
    second = entries({"routes": {"fallback": 2}, "chance": [2, 8]}, {"chance": [3, 6], "routes": {}})
    grades = rows.trust_in([*first, *second], 7)
    assert list(grades["routes"].items()) == [("fallback", 3), ("####", 2), ("boxed", 1)]
    level = grades["chance"]
    assert (grades["fallback_share"], level["correct"], level["gradings"]) == (3 / 6, 6, 18)
    low, high = stats.difference_interval(np.array([3 / 12, 3 / 6]), 7)
    assert (level["share"], level["share_ci"]) == (pytest.approx(3 / 8), [max(0.0, low), min(1.0, high)])
    spent = rows.trust_in(entries({"answering": [4, 1.5]}, {"answering": [4, 0.25]}), 0)
    assert spent["answering"] == {"responses": 8, "cpu_s": 1.75}


LEVEL = {"correct": 1, "gradings": 1000, "share": 0.001, "share_ci": [0.0, 0.002]}
NO_LEVEL = {"correct": 0, "gradings": 9, "share": 0.0, "share_ci": None}
REMARKS = [
    (
        {"n": 3, "routes": None, "answering": {"responses": 12, "cpu_s": 2.0}},
        "166.7 ms each, 0.50 s for the 3 of a pro",
    ),
    ({"routes": {"boxed": 19, "fallback": 1}, "fallback_share": 0.05}, "not stated as asked: 1 of 20 verdicts, 5.0 %"),
    ({"routes": {"boxed": 19, "fallback": 2}, "fallback_share": 0.1}, "2 of 21 verdicts, 10.0 %, over 5 %: read them"),
    ({"chance": LEVEL, "n": 1000}, "chance level: 0.10 % [0.00, 0.20], 1 of 1,000 gradings against other problems'"),
    ({"chance": LEVEL, "n": 1000}, "one of 1,000 responses is correct with a probability of 63 %"),
    ({"chance": NO_LEVEL, "pass_at_k_random": {}}, "chance level: 0.00 %, 0 of 9 gradings against other problems'"),
]


def test_a_table_says_what_answers_cost_fallbacks_and_a_chance_level_make_of_its_verdicts():
    plain = row(cell([entry("p0", [1])]))
    assert [
        words for changes, words in REMARKS if words not in "".join(verdict_remarks(replace(plain, **changes)))
    ] == []
    assert list(verdict_remarks(replace(plain, routes={"-": 3}))) == []
