"""Puzzles and their worked solutions: correct, distinct, and none that is held out."""

from __future__ import annotations

import json
from fractions import Fraction
from importlib.resources import files

from harness import Problem
from harness_plugins.models import tiny24
from harness_plugins.models.tiny24.measure import TASK
from harness_plugins.models.tiny24.puzzles import Term, _combined, all_numbers, solve, training_puzzles
from harness_tasks.game24 import puzzle_id, split_of

NUMBERS = [(1, 1, 4, 6), (2, 3, 4, 4), (3, 3, 8, 8), (4, 5, 6, 10), (1, 3, 4, 6), (2, 2, 11, 11), (1, 5, 5, 5)]


def test_a_worked_solution_reads_as_documented(puzzle):
    assert puzzle.responses[0] == "5 * 4 = 20, left 6 10 20\n10 - 6 = 4, left 4 20\n20 + 4 = 24\nAnswer: 5 * 4 + 10 - 6"


def test_every_worked_solution_is_distinct_and_correct():
    for numbers in NUMBERS:
        responses = solve(numbers, [24])[24]
        assert len(set(responses)) == len(responses) > 0
        problem = Problem(puzzle_id(numbers), " ".join(map(str, numbers)))
        assert {TASK.verify(problem, response).status for response in responses} == {"correct"}, numbers
    assert solve((1, 1, 1, 1), [24]) == {}


def test_every_step_of_a_worked_solution_holds():
    for responses in solve((3, 3, 8, 8), range(1, 49)).values():
        for line in (line for response in responses for line in response.split("\n")[:-1]):
            left, sign, right, _, value = line.split(",")[0].split()
            a, b = Fraction(left), Fraction(right)
            assert {"+": a + b, "-": a - b, "*": a * b, "/": a / (b or 1)}[sign] == Fraction(value)


def test_brackets_stand_where_they_are_needed():
    right = Term(4, "2 * 2", 2)
    expressions = [_combined(sign, Term(8, "8"), right, 2).expression for sign in "+-*/"]
    assert expressions == ["8 + 2 * 2", "8 - 2 * 2", "8 * 2 * 2", "8 / (2 * 2)"]
    assert _combined("-", Term(8, "8"), Term(4, "3 + 1", 1), 4).expression == "8 - (3 + 1)"


def test_solutions_with_fractions_are_kept_only_where_there_are_no_others():
    assert any("8/3" in response for response in solve((3, 3, 8, 8), [24])[24])
    assert not any("/2" in response or "/3" in response for response in solve((4, 5, 6, 10), [24])[24])


def test_no_puzzle_held_out_is_trained_on_with_target_24():
    others = [numbers for numbers in all_numbers() if split_of(puzzle_id(numbers)) != "train"]
    assert len(others) > 500
    puzzles = training_puzzles(others[::40], 25, keep=1, seed=0)
    assert {puzzle.target for puzzle in puzzles} == {*range(1, 26)} - {24}
    assert {len(puzzle.responses) for puzzle in puzzles} == {1}


def test_the_recorded_split_is_the_tasks():
    split = json.loads((files(tiny24) / "split.json").read_text())
    assert split == {name: [problem.id for problem in TASK.problems(name)] for name in ("train", "dev", "heldout")}
    assert sum(map(len, split.values())) == 1362
