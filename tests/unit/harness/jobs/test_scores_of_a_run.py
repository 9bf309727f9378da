"""`--scorer` of a run and a selection: scores are made once, for those that are missing, and enter the right keys."""

import json
import re

import numpy as np
import pytest
from support.paths import TOY
from support.refusals import error_line, refusal_of
from support.stores import files_of

from harness import select

POOL = [
    {"problem_id": "p", "prompt": "Say it.", "responses": ["sky", "tree", "audio", "dog"], "correct": [0, 0, 1, 0]},
    {"problem_id": "q", "prompt": "Say it.", "responses": ["aa", "by", "gym", "a"], "correct": [0, 0, 0, 1]},
]
FIXED = ("--plugin", TOY, "--json")


def scored_in(outcome):
    """How many responses a command says that it scored."""
    return sum(map(int, re.findall(r"^score: (\d+) responses in", outcome.err, re.M)))


@pytest.fixture
def scored_run(harness, written, tmp_path):
    """Run selectors on POOL with the toy's scorer."""

    def call(*selectors, scorer=("--scorer", "vowels")):
        names = [word for name in selectors for word in ("--selector", name)]
        return harness("run", "--pool", written(POOL), *scorer, *names, *FIXED, "--store", tmp_path / "runs")

    return call


def test_scores_are_made_once_and_only_for_problems_that_lack_them(scored_run, tmp_path):
    outcome = scored_run("score")
    assert outcome.code == 0, outcome.err
    assert outcome.rows[0]["samples_to_correct"] == 1.5  # "audio" has most vowels, "a" fewer than "aa"
    assert scored_in(outcome) == 8
    again = scored_run("score", "score-mmr")
    assert (again.code, scored_in(again)) == (0, 0)
    assert "scores: reused for 2 of 2 problems" in again.err
    [_, path] = files_of(tmp_path / "runs", "scores")
    path.unlink()
    assert scored_in(scored_run("majority:weight=vowels")) == 4
    assert json.loads((path.parent / "column.json").read_text())["scorer"]["name"] == "vowels"


def test_only_rankings_by_a_score_depend_on_the_scorer(scored_run, tmp_path):
    scored_run("uniform", "dedup", scorer=())
    before = files_of(tmp_path / "runs", "orders")
    scored_run("uniform", "dedup", "score")
    new = [path.parent.name for path in files_of(tmp_path / "runs", "orders") if path not in before]
    assert [name.split(".")[1] for name in new] == ["score"] * len(POOL)


def test_without_scores_a_selector_by_score_says_what_to_do(scored_run):
    outcome = scored_run("score", scorer=())
    assert outcome.code == 1
    assert "score: the pool has no scores: give them in the pool file or make them by --scorer" in outcome.err


def test_a_selection_scores_with_the_scorer_of_a_run_and_keeps_it(harness, written, tmp_path, scored_run):
    def chosen(selector):
        more = ("--store", tmp_path / "runs", "-k", 2, *FIXED)
        return harness("select", "--pool", written(POOL), "--scorer", "vowels", "--selector", selector, *more)

    outcome = chosen("score")
    assert [row["order"] for row in outcome.rows] == [[2, 1], [0, 3]]
    assert scored_in(outcome) == 8
    assert scored_in(scored_run("score")) == 0
    bare = harness("select", "--pool", written(POOL), "--selector", "score-mmr", "-k", 2, *FIXED)
    assert "selector 'score-mmr' reads scores, and problem 'p' has none: give `scores`" in error_line(bare)
    outcome = chosen("uniform")
    assert (scored_in(outcome), "reads no scores: none are made" in outcome.err) == (0, True)


def test_scores_in_memory_are_given_by_problem_and_name():
    vectors = np.eye(3, dtype=np.float32)
    assert select(vectors, "score", 3, scores=[0.1, np.nan, 0.3], quiet=True).tolist() == [2, 0, 1]
    assert select(["a", "b"], "score:by=rm", 1, scores={"rm": np.array([1, 2]), "x": [2, 1]}, quiet=True) == [1]
    picks = select({1: vectors, 2: vectors}, "score", 1, scores={1: [3, 2, 1], 2: {"rm": [1, 2, 3]}}, quiet=True)
    assert {name: order.tolist() for name, order in picks.items()} == {1: [0], 2: [2]}
    faults = [
        (vectors, [1, 2], "select: problem 'problem': scores 'score' must be a list as long as responses (3), got 2"),
        ({1: vectors}, [1, 2, 3], "select: scores must be a mapping of problem ids to numbers here"),
        ({1: vectors}, {2: [1, 2, 3]}, "select: scores of '2', which is none of the problems"),
    ]
    for source, scores, fault in faults:
        assert refusal_of(select, source, "score", 1, scores=scores, quiet=True).startswith(fault)
