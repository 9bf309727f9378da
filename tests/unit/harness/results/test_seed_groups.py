"""Cells that differ only in their seeds are one row: what is averaged, what is kept apart, and what a row then says."""

from __future__ import annotations

import copy
import json
import shutil

import numpy as np
import pytest
from support.stores import all_cells

from harness.results import cells, leaderboard, seed_groups
from harness.scoring import stats


@pytest.fixture
def cells_of(toy, tmp_path):
    """Run the toy task once a seed; the cells of the selector, by seed."""

    def call(*args, of=(0, 1, 2), selector="shuffle"):
        for seed in of:
            outcome = toy("--selector", selector, "--seed", seed, *args)
            assert outcome.code == 0, outcome.err
        chosen = [cell for cell in all_cells(tmp_path / "runs") if cell["labels"]["selector"] == selector]
        return sorted(chosen, key=seed_of)

    return call


def seed_of(cell):
    return cell["labels"]["seed"]


def keyed(found):
    return {cells.key_of(cell): cell for cell in found}


def board_rows(folder):
    boards = leaderboard.boards(leaderboard.gather([folder]))
    return [(board, row.to_json()) for board in boards for row in board.rows]


def test_three_seeds_are_one_row_of_three_pools(cells_of, tmp_path):
    found = cells_of()
    assert len({cell["inputs"]["pool"]["key"] for cell in found}) == 3
    ((board, row),) = board_rows(tmp_path / "runs" / "cells")
    assert (row["seeds"], row["seed"], row["problems"]) == ([0, 1, 2], None, 6)
    assert sorted(row["cells"]) == sorted(keyed(found))
    assert board.about["pools"] == sorted(cell["inputs"]["pool"]["key"] for cell in found)


def test_seeds_and_trials_are_averaged_inside_a_problem_before_anything_is_said_of_problems(cells_of):
    found = cells_of()
    row = seed_groups.row(*seed_groups.rows_of(keyed(found))).to_json()
    by_problem = list(zip(*(cell["problems"] for cell in found), strict=True))
    ours = np.array([np.mean([np.mean(entry["ranks"]) for entry in entries]) for entries in by_problem])
    random = np.array([np.mean([(e["n"] + 1) / (e["c"] + 1) for e in entries]) for entries in by_problem])
    assert row["samples_to_correct"] == pytest.approx(ours.mean())
    assert row["samples_to_correct_random"] == pytest.approx(random.mean())
    assert row["improvement"] == pytest.approx(random.mean() / ours.mean())
    seed = int(cells.digest(sorted(keyed(found)), 8), 16)
    assert row["improvement_ci"] == pytest.approx(stats.ratio_interval(random, ours, seed), rel=1e-5)
    hits = [[np.mean(np.array(e["ranks"]) <= 2 if e["c"] else [0]) for e in entries] for entries in by_problem]
    assert row["pass_at_k"]["2"] == pytest.approx(np.mean(hits))
    assert len(by_problem) == 6  # six problems, not eighteen


def test_the_solvable_problems_are_those_with_a_correct_response_in_any_of_their_pools(cells_of):
    found = cells_of("--n", "4")
    entries = [[cell["problems"][place] for cell in found] for place in range(6)]
    some = [[e for e in of_problem if e["c"]] for of_problem in entries]
    assert any(0 < len(there) < 3 for there in some)  # else this test says nothing
    row = seed_groups.row(*seed_groups.rows_of(keyed(found))).to_json()
    assert row["solvable"] == sum(map(bool, some))
    means = [np.mean([np.mean(e["ranks"]) for e in there]) for there in some if there]
    assert row["samples_to_correct_solvable"] == pytest.approx(np.mean(means))
    random = [np.mean([(e["n"] + 1) / (e["c"] + 1) for e in there]) for there in some if there]
    assert row["improvement_solvable"] == pytest.approx(np.mean(random) / np.mean(means))


def test_a_test_against_random_takes_each_seeds_pool_with_its_own_law(cells_of):
    found = cells_of()
    row = seed_groups.row(*seed_groups.rows_of(keyed(found))).to_json()
    flat = [entry for cell in found for entry in cell["problems"]]
    ranks, n, c = (np.array([entry[name] for entry in flat]) for name in ("ranks", "n", "c"))
    assert row["p_random"] == pytest.approx(stats.random_order_test(ranks, n, c), rel=1e-5)


def test_one_seed_is_the_row_that_its_run_printed(toy, tmp_path):
    printed = toy("--selector", "spread").rows[0]
    ((_, row),) = board_rows(tmp_path / "runs" / "cells")
    assert {name: row[name] for name in printed} == printed
    assert (row["seeds"], row["seed"]) == ([0], 0)


def test_rankings_of_one_given_pool_by_several_seeds_are_more_trials_on_it(harness, tmp_path):
    pool = tmp_path / "pool.jsonl"
    lines = [
        {"problem_id": str(i), "responses": list("abcdefgh"), "correct": [j in (i, 5) for j in range(8)]}
        for i in range(3)
    ]
    pool.write_text("\n".join(map(json.dumps, lines)))
    for seed in (0, 1):
        args = ("--pool", pool, "--selector", "uniform", "--seed", seed, "--store", tmp_path / "runs")
        assert harness("run", *args).code == 0
    found = all_cells(tmp_path / "runs")
    ((board, row),) = board_rows(tmp_path / "runs" / "cells")
    assert len(board.about["pools"]) == 1
    outcomes = seed_groups.outcomes(*seed_groups.rows_of(keyed(found)))
    assert (outcomes.pools, outcomes.ranks.shape) == (1, (3, 10))
    assert row["samples_to_correct"] == pytest.approx(outcomes.ranks.mean())
    assert row["disputed"] is None


def test_a_subset_methods_seeds_are_one_row_too(cells_of):
    found = cells_of(selector="head")
    row = seed_groups.row(*seed_groups.rows_of(keyed(found))).to_json()
    assert row["samples_to_correct"] is None
    flat = [np.mean(entry["hits"]["2"]) for cell in found for entry in cell["problems"]]
    assert row["pass_at_k"]["2"] == pytest.approx(np.mean(flat))
    assert row["gain_at_k"]["2"] == pytest.approx(row["pass_at_k"]["2"] - row["pass_at_k_random"]["2"])


def test_a_ranker_is_corrected_by_its_ranks_and_a_subset_method_by_its_hits(cells_of):
    found = keyed(cells_of(of=(0,)) + cells_of(of=(0,), selector="head"))
    (table,) = leaderboard.boards(leaderboard.Gathered(measured=found))
    shuffle, head = table.rows
    tested = [shuffle.p_random, head.p_budget]
    assert None not in tested
    assert [shuffle.q_random, head.q_random] == stats.false_discovery_rates(tested)


# What is only in the seeds, and what is not.


@pytest.mark.parametrize(
    "args",
    [
        ("--trials", "3"),
        ("--n", "8"),
        ("--max-tokens", "7"),
        ("--sampler", "nucleus:p=0.8"),
        ("--split", "broken"),
        ("--limit", "5"),
        ("--engine", "toy:group=3"),
        ("--model", "macaw"),
        ("--embedder", "letters"),
        ("--dim", "4"),
    ],
    ids=lambda args: args[0],
)
def test_what_differs_in_more_than_the_seed_is_a_row_of_its_own(cells_of, args):
    found = cells_of(of=(0,), selector="spread") + cells_of(*args, of=(1,), selector="spread")
    distinct = keyed(found)
    assert len(distinct) == 2
    rows = seed_groups.rows_of(distinct)
    # How many problems an engine is asked at once is no input of a pool: nothing that it draws depends on it.
    assert len(rows) == (1 if args[0] == "--engine" else 2)


def test_a_parameter_called_seed_is_a_parameter(toy, tmp_path):
    plugin = tmp_path / "seeded.py"
    plugin.write_text(
        "from dataclasses import dataclass\nfrom harness import hookimpl\n@dataclass(frozen=True)\nclass Seeded:\n"
        "    seed: int = 0\n    needs = ()\n    def rank(self, pool, rng):\n        yield from range(len(pool))\n"
        "@hookimpl\ndef register_selectors(register):\n    register('seeded', Seeded)\n"
    )
    outcome = toy("--selector", "seeded:seed=1", "--selector", "seeded:seed=2", "--plugin", plugin)
    assert outcome.code == 0, outcome.err
    assert [row["seeds"] for _, row in board_rows(tmp_path / "runs" / "cells")] == [[0], [0]]


def test_two_pool_files_are_two_pools_and_not_two_seeds(harness, tmp_path):
    for name, text in (("a", "x"), ("b", "y")):
        line = {"problem_id": "p", "responses": [text, "z"], "correct": [True, False]}
        (tmp_path / "pool.jsonl").write_text(json.dumps(line))
        args = ("--pool", tmp_path / "pool.jsonl", "--selector", "uniform", "--seed", "ab".index(name))
        assert harness("run", *args, "--store", tmp_path / "runs").code == 0
    assert len(board_rows(tmp_path / "runs" / "cells")) == 2


def test_an_edited_selector_or_grader_is_another_row(cells_of):
    first, second = cells_of(of=(0, 1))
    for stage, part in (("ranking", "selector"), ("verdict", None)):
        changed = copy.deepcopy(second)
        target = changed["inputs"][stage][part] if part else changed["inputs"][stage]
        target["file"] = "another"
        assert len(seed_groups.rows_of(keyed([first, changed]))) == 2
    assert len(seed_groups.rows_of(keyed([first, second]))) == 1


def test_unequally_many_rankings_a_pool_are_not_thrown_together(cells_of):
    first, second = cells_of(of=(0, 1))
    third = copy.deepcopy(second)
    third["labels"]["seed"] = third["inputs"]["ranking"]["seed"] = 7
    rows = seed_groups.rows_of(keyed([first, second, third]))
    assert sorted(map(len, rows)) == [1, 2]
    assert len(seed_groups.rows_of(keyed([first, third]))) == 1


# In tables and comparisons.


def test_rows_of_other_seeds_stand_in_another_table(cells_of, toy, tmp_path):
    cells_of(of=(0, 1))
    toy("--selector", "spread", "--seed", 0)
    tables = leaderboard.boards(leaderboard.gather([tmp_path / "runs" / "cells"]))
    assert sorted([row.selector for row in table.rows] for table in tables) == [["shuffle"], ["spread"]]
    assert sorted(len(table.about["pools"]) for table in tables) == [1, 2]


def test_rows_of_another_grader_stand_in_another_table(cells_of):
    (first,) = cells_of(of=(0,))
    other = copy.deepcopy(first)
    other["inputs"]["verdict"] |= {"grader": "2", "code": "another"}
    tables = leaderboard.boards(leaderboard.Gathered(measured=keyed([first, other])))
    assert sorted(table.about["grader"] for table in tables) == ["colours 1", "colours 2"]
    other["inputs"]["verdict"]["grader"] = "1"  # edited, and its version left as it was
    assert len(leaderboard.boards(leaderboard.Gathered(measured=keyed([first, other])))) == 2


def test_the_table_says_how_many_seeds_and_comes_back_from_any_folders(cells_of, harness, tmp_path):
    cells_of()
    folder, out = tmp_path / "runs" / "cells", tmp_path / "out"
    shown = harness("leaderboard", folder, "--out", out)
    assert "3 seeds" in shown.out
    text = (out / "leaderboard.md").read_text()
    assert "| selector | embedder | seeds |" in text
    assert "| shuffle | none | 3 |" in text
    assert ",0 1 2," in (out / "leaderboard.csv").read_text()
    for place, path in enumerate(sorted(folder.glob("*.json"))):
        (tmp_path / "split" / str(place)).mkdir(parents=True)
        shutil.copy(path, tmp_path / "split" / str(place))
    parts = [tmp_path / "split" / str(place) for place in (2, 0, 1)]
    harness("leaderboard", *parts, "--out", tmp_path / "again")
    for name in leaderboard.NAMES:
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()


def test_a_key_is_compared_with_all_its_seeds_and_a_file_alone(cells_of, toy, harness, tmp_path):
    found = cells_of(of=(0, 1))
    for seed in (0, 1, 2):
        toy("--selector", "spread", "--seed", seed)
    keys = {
        (cell["labels"]["selector"], seed_of(cell)): path
        for path in (tmp_path / "runs" / "cells").glob("*.json")
        for cell in [cells.read(path)]
    }
    shuffle, spread = keys["shuffle", 0], keys["spread", 2]

    def compare(a, b):
        outcome = harness("compare", a, b, "--store", tmp_path / "runs", "--json")
        assert outcome.code == 0, outcome.err
        return outcome.rows

    value = compare(shuffle.stem, spread.stem)
    assert (value["first"]["seeds"], value["second"]["seeds"]) == ([0, 1], [0, 1])
    assert (value["seeds_left_out"], value["same_pool"], value["problems"]) == (1, True, 6)
    ours = [np.mean([np.mean(cell["problems"][i]["ranks"]) for cell in found]) for i in range(6)]
    assert value["samples_to_correct"][0] == pytest.approx(np.mean(ours))
    alone = compare(shuffle, keys["spread", 0])
    assert (alone["first"]["seeds"], alone["second"]["seeds"], alone["seeds_left_out"]) == ([0], [0], 0)
    apart = compare(shuffle, spread)  # no seed in common: all of each, and the pools differ
    assert (apart["first"]["seeds"], apart["second"]["seeds"], apart["same_pool"]) == ([0], [2], False)
    said = harness("compare", shuffle.stem, spread.stem, "--store", tmp_path / "runs").out
    assert "shuffle (none, 2 seeds)" in said
    assert "1 cells of a seed that only one has left out" in said


@pytest.mark.slow
def test_three_seeds_of_the_embedded_model_are_one_row_of_real_runs(harness, tmp_path):
    for seed in (0, 1, 2):
        options = ("--task", "game24", "--n", "16", "--limit", "12", "--embedder", "tfidf", "--seed", seed)
        chosen = ("--selector", "repexp", "--selector", "kmeans", "--selector", "uniform", "--store", tmp_path / "runs")
        assert harness("run", *options, *chosen).code == 0
    (table,) = leaderboard.boards(leaderboard.gather([tmp_path / "runs" / "cells"]))
    assert sorted((row.selector, row.seeds) for row in table.rows) == [
        (name, [0, 1, 2]) for name in ("kmeans", "repexp", "uniform")
    ]
    assert {row.problems for row in table.rows} == {12}
    assert len({row.samples_to_correct_random for row in table.rows}) == 1
