"""Cells that differ only in their seeds are one row: what is averaged, what is kept apart, what a row then says."""

import numpy as np
import pytest
from support.cells import cell, entry, keyed, subset_entry

from harness.results import cells, rows
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
    assert row.cell == cells.key_of(THREE[0])
    flat = ranks.reshape(9, 2)
    assert row.p_random == pytest.approx(stats.random_order_test(flat, np.full(9, 8), c.ravel()), rel=1e-5)


def test_one_seed_is_the_row_of_its_cell():
    [group] = groups(THREE[0])
    row, alone = rows.row_of(group).to_json(), rows.row(THREE[0]).to_json()
    assert row == alone | {"seeds": [0], "cells": [cells.key_of(THREE[0])]}


def test_rankings_of_one_given_pool_by_several_seeds_are_more_trials_on_it():
    shared = [of_seed(0, pool="given"), cell([entry(f"p{i}", [2, 2], C[0][i]) for i in range(3)], seed=1, pool="given")]
    [group] = groups(*shared)
    outcomes = rows.outcomes(group)
    assert (outcomes.pools, outcomes.ranks.tolist()) == (1, [[1, 3, 2, 2], [2, 6, 2, 2], [4, 4, 2, 2]])
    assert list(rows.by_pool(group)) == ["given"]


def test_unequally_many_rankings_a_pool_are_not_joined():
    second = of_seed(1, pool=THREE[0]["inputs"]["pool"]["key"])
    assert sorted(map(len, groups(THREE[0], second, THREE[2]))) == [1, 2]
    assert list(map(len, groups(THREE[0], second))) == [2]
    assert list(map(len, groups(*THREE))) == [3]


def test_a_subset_methods_seeds_are_one_row_too():
    several = [
        cell([subset_entry("p0", first), subset_entry("p1", [4, 4])], "head", seed)
        for seed, first in enumerate(([1, 2], [8, 8]))
    ]
    [group] = groups(*several)
    row = rows.row_of(group)
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


def test_conditions_are_joined_and_disputed_grades_counted_once_a_pool():
    def made(seed, pool, room, disputed):
        return cell([entry("p0", [1], disputed=disputed)], seed=seed, pool=pool) | {"conditions": {"room": [room]}}

    several = [made(0, "a", "1", 2), made(1, "a", "1", 2), made(2, "b", "0", None), made(3, "b", "1", None)]
    row = rows.row_of(groups(*several)[0])
    assert (row.conditions, row.disputed) == ({"room": ["0", "1"]}, 2)
    unaudited = [made(seed, str(seed), "1", None) for seed in (0, 1)]
    assert rows.row_of(groups(*unaudited)[0]).disputed is None
