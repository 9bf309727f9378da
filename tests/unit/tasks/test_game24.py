"""The task game24: its splits and its checker, on what models write and on a published pool; its arithmetic."""

import json
from collections import Counter

import pytest
from corpora.game24 import ACCEPTED, HONEST, OF_OTHER_HANDS, WRONG

from harness import Problem, correct
from harness_tasks.game24 import MAX_TOKENS, Game24, NotArithmetic, evaluate, puzzle_id, split_of, symbols

TASK = Game24()
FOUR_FIVE = Problem("4-5-6-10", "4 5 6 10")


def puzzle(*numbers):
    return Problem(puzzle_id(numbers), " ".join(map(str, sorted(numbers))))


# Puzzles and splits


def test_a_problem_has_a_readable_id_and_is_asked_in_one_user_message():
    [problem] = [problem for problem in TASK.problems("test") if problem.id == "4-5-6-10"]
    assert problem == FOUR_FIVE
    [message] = TASK.messages(problem)
    assert message["role"] == "user"
    assert message["content"].startswith("Use the numbers 4, 5, 6, 10, each exactly once, ")


def test_train_dev_and_heldout_part_the_puzzles():
    parts = {split: [problem.id for problem in TASK.problems(split)] for split in ("train", "dev", "heldout")}
    joined = [problem for part in parts.values() for problem in part]
    assert Counter(joined) == Counter(problem.id for problem in TASK.problems("test"))
    assert {split: len(part) for split, part in parts.items()} == {"train": 948, "dev": 145, "heldout": 269}
    assert all(split_of(problem) == split for split, part in parts.items() for problem in part)


def test_the_embedded_models_are_tested_on_held_out_puzzles_only():
    remark = "game24: tiny24 was trained by this project, so only the 269 puzzles held out from its training are used"
    assert TASK.default_split("tiny24") == ("heldout", remark)
    assert TASK.default_split("tiny24-large")[0] == "heldout"
    assert TASK.default_split("Qwen/Qwen2.5-7B-Instruct") == ("test", "")


# The checker


def test_a_clear_correct_answer_is_accepted_as_models_write_it():
    spellings = {"(10 - 6) * 5 + 4", "4 + (10 - 6) * 5", "5 * (10 - 6) + 4"}
    refused = [text for text in ACCEPTED if TASK.verify(FOUR_FIVE, text) != correct()]
    assert not refused
    assert not [text for text in ACCEPTED if TASK.answer(FOUR_FIVE, text) not in spellings]


def test_a_wrong_answer_is_wrong_for_a_short_reason():
    verdicts = [(text, reason, TASK.verify(FOUR_FIVE, text)) for text, reason in WRONG]
    assert not [row for row in verdicts if (row[2].status, row[2].reason) != ("wrong", row[1])]


def test_fractions_are_exact_and_digits_are_not_glued_together():
    verdicts = [(row, TASK.verify(puzzle(*row[0]), row[1])) for row in OF_OTHER_HANDS]
    assert not [row for row, verdict in verdicts if (verdict.status, verdict.reason) != row[2:]]


def test_an_answer_keeps_a_wrong_right_side():
    answers = {
        "Answer: (10-6)*5+4 = 20+4 = 24": "(10 - 6) * 5 + 4",
        "Answer: (10-6)*5+4 = 20+5 = 24": "(10 - 6) * 5 + 4 = 20 + 5",
        "Answer: [10-6]×5+4=24": "(10 - 6) * 5 + 4",
        "Answer: ((10-6)*5)+4 = 48": "(10 - 6) * 5 + 4 = 48",
        "no idea": None,
    }
    assert {text: TASK.answer(FOUR_FIVE, text) for text in answers} == answers


def test_only_the_whole_lines_among_the_last_20_000_characters_are_read():
    assert TASK.verify(FOUR_FIVE, "x\n" * 50_000 + HONEST) == correct()
    filler = "Answer: (10 - 6) * 5 + 4" + " " * (20_000 - len("(10 - 6) * 5 + 4"))
    assert TASK.verify(FOUR_FIVE, filler).reason == "no answer"  # its line begins before


def test_verdicts_on_the_gpt4_pool_are_the_logged_ones_and_equal_answers_have_equal_verdicts(shared_data):
    """100 responses to each of the 100 puzzles 900 to 999 of the published file, with the verdicts logged there."""
    rows = (shared_data / "tasks" / "game24.csv").read_text().splitlines()[1:]
    pools = json.loads((shared_data / "pools" / "tot_game24_gpt4_standard_n100.json").read_text())
    verdicts, solved = {}, set()
    for pool in pools:
        problem = puzzle(*map(int, rows[pool["idx"]].split(",")[1].split()))
        for response, logged in zip(pool["ys"], pool["accs"], strict=True):
            status = TASK.verify(problem, response).status
            assert (status == "correct") == bool(logged), response
            verdicts.setdefault((problem.id, TASK.answer(problem, response)), set()).add(status)
            solved |= {problem.id} if logged else set()
    assert (sum(sum(pool["accs"]) for pool in pools), len(solved)) == (734, 33)
    assert all(len(statuses) == 1 for statuses in verdicts.values())


# Arithmetic


def test_brackets_that_change_the_tree_are_kept_and_others_left_out():
    for text in ("1 - (2 - 3)", "1 + (2 + 3)", "1 / (2 * 3)", "(1 + 2) * 3", "1 - 2 - 3"):
        assert evaluate(symbols(text)).text == text
    assert evaluate(symbols("((1) - 2) - (3 * 4)")).text == "1 - 2 - 3 * 4"


def test_symbols_out_of_place_and_sides_that_are_too_long_are_refused():
    longest = "+".join("1" * (MAX_TOKENS // 2))
    assert evaluate(symbols(longest)).value == MAX_TOKENS // 2
    for text in ("", "+", "4 4", "4 + + 4", "(4", "4)", "4 ()", "4 & 4", "12345", f"({longest})"):
        with pytest.raises(NotArithmetic, match="syntax"):
            evaluate(symbols(text))
