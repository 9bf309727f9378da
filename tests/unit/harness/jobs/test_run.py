"""The main job on the toy engine: rows, cells, dry runs, graders, scores, and later correct responses."""

import json
import re

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.paths import TOY
from support.refusals import error_line, wrongly_refused
from support.stores import cell_of, files_of

import harness as door
from harness.columns.store import read
from harness.results import leaderboard
from harness.results.rows import row


def test_a_run_makes_a_row_a_selector_from_one_pool_and_a_cell_that_says_what_made_it(toy, tmp_path):
    rows = toy(
        "--selector", "shuffle:offset=2", "--selector", "spread", "--dim", "3", "--sampler", "nucleus:p=0.8"
    ).rows
    about = [(row["selector"], row["embedder"], row["n"], row["problems"], row["model"]) for row in rows]
    assert about == [("shuffle:offset=2", "none", 16, 6, "parrot"), ("spread", "hidden-mean", 16, 6, "parrot")]
    made = [cell_of(tmp_path / "runs", row) for row in rows]
    beside = [{name: value for name, value in row.items() if name != "controls"} for row in rows]
    assert [json.loads(json.dumps(row(cell).to_json())) for cell in made] == beside
    inputs = made[0]["inputs"]
    assert (inputs["pool"]["engine"], inputs["pool"]["sampler"]["top_p"]) == ({"engine": "toy", "model": "parrot"}, 0.8)
    assert inputs["ranking"]["selector"]["params"] == {"offset": 2}
    assert any(len(set(entry["ranks"])) > 1 for entry in made[0]["problems"])
    assert {read(path).shape for path in files_of(tmp_path / "runs", "vectors")} == {(16, 3)}


def test_a_machine_that_cannot_grade_is_refused_before_the_first_response(toy, tmp_path):
    keyed = ("--task", "keyed", "--selector", "shuffle", "--data", "13")
    assert "nothing here confines 13 colours" in error_line(toy(*keyed))
    assert not list(tmp_path.rglob("*.parquet"))
    graded = toy(*keyed, "--unsafe-exec")
    assert graded.rows[0]["conditions"] == {"room": ["1"]}
    assert "keyed: grading in room 0" in graded.err
    assert "room" not in toy(*keyed).err  # nothing to grade: nothing to check


# `--scorer`: scores are made once, for those that are missing, and enter the right keys.

POOL = [
    {"problem_id": "p", "prompt": "Say it.", "responses": ["sky", "tree", "audio", "dog"], "correct": [0, 0, 1, 0]},
    {"problem_id": "q", "prompt": "Say it.", "responses": ["aa", "by", "gym", "a"], "correct": [0, 0, 0, 1]},
]


@pytest.fixture
def scoring(harness, written, tmp_path):
    """Run selectors on POOL with the toy's scorer, or select; the outcome and how many responses it scored."""

    def call(*selectors, command=("run",), scorer=("--scorer", "vowels")):
        names = [word for name in selectors for word in ("--selector", name)]
        pool = ("--pool", written(POOL), "--plugin", TOY, "--json", "--store", tmp_path / "runs")
        outcome = harness(*command, *names, *scorer, *pool)
        return outcome, sum(map(int, re.findall(r"^score: (\d+) responses in", outcome.err, re.M)))

    return call


def test_scores_are_made_once_for_problems_that_lack_them_and_only_rankings_by_a_score_depend_on_them(
    scoring, tmp_path
):
    outcome, _ = scoring("score", "uniform", scorer=())
    assert outcome.code == 1
    assert "score: the pool has no scores: give them in the pool file or make them by --scorer" in outcome.err
    before = files_of(tmp_path / "runs", "orders")
    outcome, scored = scoring("score", "uniform")
    assert (outcome.code, scored) == (0, 8)
    assert outcome.rows[0]["samples_to_correct"] == 1.5  # "audio" has most vowels, "a" fewer than "aa"
    new = [path.parent.name for path in files_of(tmp_path / "runs", "orders") if path not in before]
    assert [name.split(".")[1] for name in new] == ["score"] * len(POOL)
    files_of(tmp_path / "runs", "scores")[1].unlink()
    assert scoring("majority:weight=vowels")[1] == 4


def test_a_selection_scores_with_the_scorer_of_a_run_and_keeps_it(scoring):
    select = ("select", "-k", 2)
    outcome, scored = scoring("score", command=select)
    assert ([row["order"] for row in outcome.rows], scored) == ([[2, 1], [0, 3]], 8)
    again, scored = scoring("score")
    assert (scored, "scores: reused for 2 of 2 problems" in again.err) == (0, True)
    bare, _ = scoring("score-mmr", command=select, scorer=())
    assert "selector 'score-mmr' reads scores, and problem 'p' has none: give `scores`" in error_line(bare)
    assert "reads no scores: none are made" in scoring("uniform", command=select)[0].err


def test_scores_in_memory_are_given_by_problem_and_name():
    h = np.eye(3, dtype=np.float32)
    assert door.select(h, "score", 3, scores=[0.1, np.nan, 0.3], quiet=True).tolist() == [2, 0, 1]
    assert door.select(["a", "b"], "score:by=rm", 1, scores={"rm": np.array([1, 2]), "x": [2, 1]}, quiet=True) == [1]
    picks = door.select({1: h, 2: h}, "score", 1, scores={1: [3, 2, 1], 2: {"rm": [1, 2, 3]}}, quiet=True)
    assert {name: order.tolist() for name, order in picks.items()} == {1: [0], 2: [2]}
    faults = [
        ((h, [1, 2]), "select: problem 'problem': scores 'score' must be a list as long as responses (3), got 2"),
        (({1: h}, [1, 2, 3]), "select: scores must be a mapping of problem ids to numbers here"),
        (({1: h}, {2: [1, 2, 3]}), "select: scores of '2', which is none of the problems"),
    ]
    assert wrongly_refused(faults, lambda given: door.select(given[0], "score", 1, scores=given[1], quiet=True)) == []


# `--correct M` and `--enrichment` through every door, on pools of unequal sizes: tables, figures, the report.


def test_orders_to_a_later_correct_response_and_their_tables_stand_apart_and_say_so(harness, tmp_path):
    rng, lines, vectors = np.random.default_rng(0), [], {}
    for place, n in enumerate((30, 40, 50, 60, 70, 80)):
        correct = rng.permutation([True] * place * 2 + [False] * (n - place * 2)).tolist()
        lines.append({"problem_id": f"p{place}", "responses": [f"m{i}" for i in range(n)], "correct": correct})
        vectors[f"p{place}"] = rng.normal(size=(n, 4)).astype(np.float32)
    np.savez(tmp_path / "vectors.npz", **vectors)
    pool, store = write_json_lines(tmp_path / "pool.jsonl", lines), tmp_path / "runs"
    selectors = ["uniform", "k-dpp", "repexp"]
    files = {"pool": pool, "embeddings": tmp_path / "vectors.npz", "store": store}
    for options in ({}, {"correct": 3, "enrichment": True}):
        made = door.run(selectors=selectors, trials=2, quiet=True, yes=True, **files, **options)
    assert len({path.parent for path in files_of(store, "orders") if "repexp" in path.parent.name}) == 2
    results = [row for row in made if row.selector in selectors]
    about = {(row.correct, row.n, row.solvable, list(row.pass_at_k_random)[-1], row.budget) for row in results}
    assert about == {(3, 80, 4, "30", 16)}  # 16: the largest of which all pools have a subset
    assert [list(row.hits_at_k or {}) for row in results] == [["1", "2"], [], ["1", "2"]]  # 5 % of 30
    boards = leaderboard.boards(leaderboard.gather([store / "cells"]))
    first, third = sorted(boards, key=lambda board: board.rows[0].correct)
    assert ("correct" in first.about, third.about["correct"]) == (False, 3)
    text = leaderboard.markdown([third], [])
    assert "n = 30 to 80 (budgets up to 30), 6 problems (4 solvable), samples to the 3rd correct; " in text
    assert "pass@k is 3 or more of the first k" in text
    shown = door.read_results(store / "cells").table()
    assert "mean rank of the first or 3rd correct response (n + 1 if none)" in shown
    joined = {(line.selector, line.pools) for line in leaderboard.across([first, third])}
    assert {("repexp", 1), ("repexp, to the 3rd", 1)} <= joined
    one, other = (next(row.cell for row in board.rows if row.selector == "repexp") for board in (first, third))
    line = error_line(harness("compare", one, other, "--in", store / "cells"))
    assert line.endswith("the cells count to the 1st and to the 3rd correct response: run both with one --correct")
    again = harness("rerun", other, "--in", store / "cells", "--store", tmp_path / "anew")
    assert f"rerun: the same cell, {other}, with the same outcomes" in again.err
    line = error_line(harness("run", "--task", "game24", "--correct", 501))
    assert "--correct must be at most 500, got 501" in line
