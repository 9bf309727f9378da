"""The task game24: its puzzles, its checker against honest and hostile responses, its local files."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import islice, permutations, product
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paths import SHARED
from support.processes import printed_by

from harness import HarnessError, Problem, correct
from harness_tasks.arithmetic import NotArithmetic, evaluate, symbols
from harness_tasks.game24 import Game24, puzzle_id, register_tasks, solvable_hands, split_of

LIMIT_S = 0.010  # for one verdict on any response; the best of several runs counts, since test machines are shared
TASK = Game24()


def puzzle(*numbers: int) -> Problem:
    return Problem(puzzle_id(numbers), " ".join(map(str, sorted(numbers))))


FOUR_FIVE = puzzle(4, 5, 6, 10)
FOURS_EIGHTS = puzzle(4, 4, 8, 8)
HONEST = "10 - 6 = 4\n4 * 5 = 20\n20 + 4 = 24\nAnswer: (10 - 6) * 5 + 4 = 24"


def shared(name: str) -> Path:
    if not (SHARED / name).is_file():
        pytest.skip(f"{name} needs shared/data beside the project")
    return SHARED / name


def published_hands() -> list[tuple[int, ...]]:
    with shared("tasks/game24.csv").open(newline="") as file:
        return [tuple(sorted(map(int, row["Puzzles"].split()))) for row in csv.DictReader(file)]


# Puzzles and splits


def test_the_computed_puzzles_are_the_published_1362() -> None:
    published = published_hands()
    assert len(published) == len(set(published)) == 1362
    assert [problem.id for problem in TASK.problems("test")] == [puzzle_id(hand) for hand in sorted(published)]


def test_puzzles_come_in_the_order_of_their_numbers() -> None:
    hands = solvable_hands()
    assert len(hands) == 1362
    assert list(hands) == sorted(set(hands))
    assert all(list(hand) == sorted(hand) for hand in hands)


def test_the_search_takes_under_two_seconds_of_cpu() -> None:
    code = (
        "from time import process_time as now; from harness_tasks.game24 import solvable_hands; t = now();"
        "solvable_hands(); print(now() - t)"
    )
    assert float(printed_by(code)) < 2


def test_a_problem_has_a_readable_id_and_its_numbers_as_prompt() -> None:
    [problem] = [problem for problem in TASK.problems("test") if problem.id == "4-5-6-10"]
    assert problem.prompt == "4 5 6 10"
    assert problem.reference is None


def test_the_chat_is_one_user_message_with_the_numbers() -> None:
    [message] = TASK.messages(FOUR_FIVE)
    assert message["role"] == "user"
    assert message["content"].startswith("Use the numbers 4, 5, 6, 10, each exactly once, ")


def test_train_dev_and_heldout_part_the_puzzles() -> None:
    parts = {split: [problem.id for problem in TASK.problems(split)] for split in ("train", "dev", "heldout")}
    joined = [problem for part in parts.values() for problem in part]
    assert Counter(joined) == Counter(problem.id for problem in TASK.problems("test"))
    assert {split: len(part) for split, part in parts.items()} == {"train": 948, "dev": 145, "heldout": 269}
    assert all(split_of(problem) == split for split, part in parts.items() for problem in part)


def test_an_unknown_split_is_refused_with_the_known_ones() -> None:
    with pytest.raises(HarnessError, match=r"game24: unknown split 'tset' \(choose from test, train, dev, heldout\)"):
        TASK.problems("tset")


def test_the_embedded_models_are_tested_on_held_out_puzzles_only() -> None:
    split, remark = TASK.default_split("tiny24")
    assert split == "heldout"
    assert remark == (
        "game24: tiny24 was trained by this project, so only the 269 puzzles held out from its training are used"
    )
    assert TASK.default_split("tiny24-large")[0] == "heldout"
    assert TASK.default_split("Qwen/Qwen2.5-7B-Instruct") == ("test", "")


def test_the_task_registers_by_name_without_being_built() -> None:
    registered: list[tuple[str, str | Callable[..., Any]]] = []

    def register(name: str, factory: str | Callable[..., Any]) -> None:
        registered.append((name, factory))

    register_tasks(register)
    assert registered == [("game24", "harness_tasks.game24:Game24")]


def test_importing_the_task_adds_nothing_heavy_to_the_core() -> None:
    code = (
        "import sys, harness; core = set(sys.modules); import harness_tasks.game24;"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - core})"
    )
    added = printed_by(code).split()
    assert not set(added) & {
        "torch",
        "transformers",
        "datasets",
        "pyarrow",
        "scipy",
        "sklearn",
        "numpy",
        "sympy",
    }


# Local files


def local(tmp_path: Path, name: str, text: str) -> Game24:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return Game24(data=str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("24.csv", "Rank,Puzzles,AMT (s)\n1,10 4 6 5,4.4\n2,1 1 1 1,5.5\n"),
        ("24.csv", "\ufeffPuzzles\r\n10 4 6 5\r\n1 1 1 1\r\n"),
        ("24.jsonl", '{"numbers": [10, 4, 6, 5]}\n\n{"numbers": "1 1 1 1"}\n'),
        ("24.jsonl", '{"puzzle": "10 4 6 5"}\n{"prompt": "1, 1, 1, 1", "id": 7}\n'),
    ],
)
def test_a_local_file_is_read_in_its_order_solvable_or_not(tmp_path: Path, name: str, text: str) -> None:
    problems = local(tmp_path, name, text).problems("test")
    assert [(problem.id, problem.prompt) for problem in problems] == [("4-5-6-10", "4 5 6 10"), ("1-1-1-1", "1 1 1 1")]


def test_the_published_file_gives_the_computed_puzzles() -> None:
    task = Game24(data=str(shared("tasks/game24.csv")))
    assert [problem.id for problem in task.problems("test")] == [puzzle_id(hand) for hand in published_hands()]
    assert {problem.id for problem in task.problems("dev")} == {problem.id for problem in TASK.problems("dev")}


def test_the_revision_names_the_files_bytes(tmp_path: Path) -> None:
    task = local(tmp_path, "24.csv", "Puzzles\n1 1 4 6\n")
    assert TASK.revision == "1"
    assert task.revision == "sha256:" + hashlib.sha256(b"Puzzles\n1 1 4 6\n").hexdigest()[:16]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Puzzle,Rank\n1 1 4 6,1\n", "no column 'Puzzles' (found: Puzzle, Rank)"),
        ("", "no column 'Puzzles' (found: none)"),
        ("Puzzles\n", "has no puzzles"),
        ("Puzzles\n1 1 4 6\n1 2 3\n", "line 3: expected four integers from 1 to 9999, got '1 2 3'"),
        ("Puzzles\n1 1 4 x\n", "line 2: expected four integers"),
        ("Puzzles,Rank\n1 1 4 6,1\n6 4 1 1,2\n", "line 3: puzzle 1-1-4-6 is on line 2 already"),
        ('{"numbers": [1, 1, 4, 6.0]}\n', "line 1: expected four integers from 1 to 9999, got [1, 1, 4, 6.0]"),
        ('{"numbers": [1, 1, 4, true]}\n', "line 1: expected four integers"),
        ('{"numbers": "1 1 4 ６"}\n', "line 1: expected four integers"),
        ('{"puzzle": "1 1 4 6"}\n{"question": "1 1 4 6"}\n', "line 2: no field 'numbers', 'puzzle' or 'prompt'"),
        ('{"puzzle": "1 1 4 6"}\n{"puzzle"\n', "line 2: not JSON (Expecting ':' delimiter"),
    ],
)
def test_a_bad_file_is_an_error_of_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(HarnessError, match=re.escape(message)) as refused:
        local(tmp_path, "puzzles", text).problems("test")
    assert str(refused.value).startswith(f"game24: data {tmp_path}")
    assert "\n" not in str(refused.value)


def test_bytes_that_are_no_text_are_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "24.csv").write_bytes(b"Puzzles\n\xff\xfe\n")
    with pytest.raises(HarnessError, match=r"^game24: .*utf-8"):
        Game24(data=str(tmp_path / "24.csv")).problems("test")


def test_a_missing_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    task = Game24(data=str(tmp_path / "none.csv"))
    for read in (lambda: task.problems("test"), lambda: task.revision):
        with pytest.raises(HarnessError, match=r"^game24: cannot read .*none\.csv': No such file or directory$"):
            read()


# The checker on what models write

ACCEPTED = [
    HONEST,
    "(10 - 6) * 5 + 4",
    "(10 - 6) * 5 + 4 = 24",
    "Answer: (10 - 6) * 5 + 4 = 24.",
    "answer:(10-6)*5+4=24",
    "Answer: (10 − 6) × 5 + 4 = 24",
    "Answer: (10 - 6) · 5 + 4",
    "Answer: (10 - 6) x 5 + 4 = 24",
    "Answer: [10 - 6] * 5 + 4 = 24",
    "Answer: {[10 - 6] * 5} + 4",
    "Answer: 4 + ((10 - 6)) * (5)",
    "Answer: 24 = (10 - 6) * 5 + 4",
    "Answer: 24 = (10 - 6) * 5 + 4 = 20 + 4",
    "Answer: 24 = 20 + 4 = (10 - 6) * 5 + 4",
    "Answer: 5*(10-6)+4 = 20+4 = 24",
    "Answer: (10 - 6) * 5 + 4 = 4 * 5 + 4 = 20 + 4 = 24.",
    "Answer: (10 - 6) * 5 + 4 = 20 + 4",
    "Answer: (10 - 6) * 5 + 4 = 48 / 2 = 24",
    "Answer: (10 - 6) * 5 + 4 == 24",
    "Answer: (10 - 6) * 5 + 4 → 20 + 4 → 24",
    "Answer: (10 - 6) * 5 + 4 => 20 + 4 => 24",
    "Answer: (10 - 6) * 5 + 4\n= 4 * 5 + 4\n= 20 + 4\n= 24",
    "Answer: (10 - 6) * 5 + 4\n=> correct",
    "(10 - 6) * 5 + 4\n  = 20 + 4\n\n  = 24",
    "The solution is (10 - 6) * 5 + 4 = 20 + 4 = 24.",
    "Answer: The expression is (10 - 6) * 5 + 4 = 24",
    "Answer: (10 - 6) * 5 + 4 = 24 (using 4, 5, 6 and 10 once each)",
    "Answer: (10 - 6) * 5 + 4, which makes 24",
    "Answer: (10 - 6) * 5 + 4. The result is 24",
    r"Answer: (10 - 6) * 5 + 4 = 24 \boxed{24}",
    r"Answer: $(10 - 6) * 5 + 4 = 24$. $\boxed{24}$",
    r"Answer: (10 - 6) * 5 + 4 = 24. Therefore, \boxed{24}",
    r"Answer: (10 - 6) * 5 + 4 = 20 + 4 = \boxed{\text{24}}",
    r"Answer: $(10 - 6) \times 5 + 4 = 4 \times 5 + 4 = 20 + 4 = \mathbf{24}$",
    r"\boxed{(10 - 6) \times 5 + 4 = 4 \times 5 + 4 = 24}",
    r"\boxed{Answer: (10 - 6) \times 5 + 4 = 24}",
    r"$(10 - 6) \times 5 + 4 \Rightarrow 20 + 4 \Rightarrow 24$",
    "\\[\n\\begin{aligned}\n(10 - 6) \\times 5 + 4 &= 4 \\times 5 + 4 \\\\\n&= 24\n\\end{aligned}\n\\]",
    "Answer: (10 - 6) * 5 + 4 = 24 (using each number exactly once)",
    "Answer: (10 - 6) * 5 + 4 (each number is used once).",
    "Answer: (10 - 6) * 5 + 4 = 24. This uses each number exactly once!",
    "Answer: (10 - 6) * 5 + 4 = 24 ✓",
    "The answer is: (10 - 6) * 5 + 4 = 24",
    "So the final answer is (10 - 6) * 5 + 4 = 24.",
    "**Answer: (10-6)*5+4 = 24**",
    "**Answer:** (10 - 6) * 5 + 4 = 24",
    "**Answer**: (10 - 6) * 5 + 4 = 24.",
    "**Final Answer:** **(10 - 6) * 5 + 4 = 24**",
    "### Answer: `(10 - 6) * 5 + 4 = 24`",
    "Answer: `(10 - 6) * 5 + 4` = 24",
    "> Answer: (10 - 6) * 5 + 4",
    "Answer:\n(10-6)*5+4",
    "**Answer:**\n\n**(10-6)*5+4**\n",
    "Answer:\n```\n(10 - 6) * 5 + 4\n```",
    "Answer：(10 - 6) * 5 + 4 = 24\r\n",
    "Answer: (10 - 6) * 5 + 4 = 24\n\nEach number is used exactly once.",
    "Answer: 10 * 6\nNo, that is 60.\nAnswer: (10 - 6) * 5 + 4",
    r"Answer: $(10-6)\times 5+4=24$",
    r"Answer: $$(10-6)\cdot5+4=24$$.",
    r"Answer: \( (10 - 6) \times 5 + 4 = 24 \)",
    r"Answer: \left(10 - 6\right) \times 5 + 4",
    r"Answer: $5 \times \left\{10 - 6\right\} + 4$",
    "Answer:\n\\[\n(10 - 6) \\times 5 + 4 = 24\n\\]\n",
    "\\[\n(10 - 6) \\times 5 + 4 = 24\n\\]",
    r"\boxed{(10-6)\times5+4}",
    r"The answer is \boxed{(10 - 6) \times 5 + 4 = 24}.",
    r"Answer: $\boxed{\left(10 - 6\right) \cdot {5} + 4}$",
    r"Answer: 4 + 4 = 8. \boxed{(10-6)*5+4} is right",
    r"Answer: (10 - 6) * 5 + 4 = \boxed{24}",
    "Answer: (10 - 6) * 5 + 4\n\n\\boxed{24}",
    r"\boxed{10 + 6} no, \boxed{(10-6)*5+4} and \boxed{",
    "\\boxed{10 + 6}\nAnswer: (10-6)*5+4",
    "<think>Answer: 10 * 6</think>\n<answer>(10 - 6) * 5 + 4</answer>",
    "<answer>\n(10 - 6) * 5 + 4 = 24\n</answer>",
    "thinking " * 100_000 + "\n" + HONEST,
]


@pytest.mark.parametrize("response", ACCEPTED)
def test_a_clear_correct_answer_is_accepted_as_models_write_it(response: str) -> None:
    assert TASK.verify(FOUR_FIVE, response) == correct()
    assert TASK.answer(FOUR_FIVE, response) in {"(10 - 6) * 5 + 4", "4 + (10 - 6) * 5", "5 * (10 - 6) + 4"}


@pytest.mark.parametrize(
    ("hand", "response"),
    [
        ((3, 3, 8, 8), r"\boxed{\frac{8}{3-\frac{8}{3}}=24}"),
        ((3, 3, 8, 8), "Answer: 8 ÷ (3 − 8 ÷ 3) = 24"),
        ((3, 3, 7, 7), r"Answer: $7\left(\right.$ no: $7 \times \left(3 + \dfrac{3}{7}\right)$"),
        ((1, 3, 4, 6), r"Answer: 6 \div (1 - 3 \div 4)"),
        ((2, 2, 6, 13), r"Answer: \[ 13 \times 2 - \tfrac{6}{2} + ... \]" "\nAnswer: 13 * 2 - (6 / 2) + 1"),
        ((1, 1, 4, 6), "1 * 1 * 4 * 6"),
    ],
)
def test_fractions_are_exact(hand: tuple[int, ...], response: str) -> None:
    expected = "wrong" if "no:" in response or "+ 1" in response else "correct"
    assert TASK.verify(puzzle(*hand), response).status == expected


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ("", "no answer"),
        ("Answer:", "no answer"),
        ("Answer: **", "no answer"),
        ("I could not find it", "syntax"),
        ("10 - 6 = 4\n4 * 5 = 20\n20 + 4 = 24", "numbers"),
        ("Answer: 24", "numbers"),
        (r"\boxed{24}", "numbers"),
        ("Answer: (10 - 6) * 5 = 20", "numbers"),
        ("Answer: (10 - 6) * 5 + 4 + 4 - 4", "numbers"),
        ("Answer: (10 + 6) * 5 + 4", "value"),
        ("Answer: (10 + 6) * 5 + 4 = 24", "value"),
        ("Answer: (10 - 6) * 5 + 4 = 25", "right side"),
        ("Answer: (10 - 6) * 5 + 4 =", "right side"),
        ("Answer: (10 - 6) * 5 + 4 = 024", "syntax"),
        ("Answer: (10 - 6) * 5 + 4 = 24.0", "syntax"),
        ("Answer: (10 - 6) * 5 + 4 = 24!", "syntax"),
        ("Answer: (10 - 6) * 5 + 4 = 20 + 5", "right side"),
        ("Answer: (10 - 6) * 5 + 4 = 20 + 5 = 24", "right side"),
        ("Answer: (10 - 6) * 5 + 4 = 4 * 5 = 20 + 4 = 24", "right side"),
        ("Answer: (10 - 6) * 5 + 4 = 20 + 4 = 24 = 25", "right side"),
        ("Answer: (10 - 6) * 5 + 4 = 20 + 4 = 24 =", "right side"),
        ("Answer: (10 - 6) * 5 + 4 = = 24", "right side"),
        ("Answer: (10 - 6) * 5 + 4 = 20 + 4 / 0 = 24", "right side"),
        ("Answer: (10 - 6) * 5 = 20 = 20 + 4 = 24", "numbers"),
        ("Answer: 10 - 6 = 4 = 4 * 5 = 20 + 4 = 24", "numbers"),
        ("Answer: 20 + 4 = (10 - 6) * 5 + 4 = 24", "numbers"),
        ("Answer: (10 + 6) * 5 + 4 = 20 + 4 = 24", "value"),
        ("Answer: 24 = 20 + 5 = (10 - 6) * 5 + 4", "right side"),
        ("Answer: 24 = 24", "numbers"),
        ("Answer: 25 = (10 - 6) * 5 + 4", "numbers"),
        ("Answer: (10 - 6) * 5 + 4 → 20 + 5 → 24", "right side"),
        ("Answer: (10 - 6) * 5 + 4" + " = 24" * 8, "too many sides"),
        ("Answer: (10 - 6) * 5 + 4\n= 48", "right side"),
        ("(10 - 6) * 5 + 4\n= 20 + 5\n= 24", "right side"),
        ("Answer: 4 * 5 + 4 == 24", "numbers"),
        ("Answer: (10 - 6) * 5 + 4 ≈ 24", "syntax"),
        (r"Answer: (10 - 6) * 5 + 4 \neq 24", "syntax"),
        (r"Answer: (10 - 6) * 5 + 4 = 25 \boxed{24}", "right side"),
        (r"Answer: (10 - 6) * 5 = 20. \boxed{24}", "numbers"),
        ("Answer: (10 - 6) * 5 + 4 = 24, or 6 * 4 = 24", "syntax"),
        ("Answer: (10 - 6) * 5 + 4, or 10", "syntax"),
        ("Answer: (10 - 6) * 5 + 4, which is 25", "syntax"),
        ("Answer: (10 - 6) * 5 + 4, which is not 24", "syntax"),
        ("Answer: (10 - 6) * 5 + 4, which is wrong", "syntax"),
        ("The answer is not (10 - 6) * 5 + 4", "syntax"),
        ("Answer: (10 - 6) * 5 + 4 ≠ 24", "syntax"),
        ("Answer: (10 - 6) * 5 + 4 is 24", "syntax"),
        ("Answer: (10 - 6) * 5 + 4 or 6 * 4", "syntax"),
        ("Answer: (10 - 6) * 5 + 4, or 6 * 4", "syntax"),
        ("Answer: (10 - 6) * 5 + 4 = 24 dozen", "syntax"),
        ("Answer: (10 - 6)5 + 4", "syntax"),
        ("Answer: (10 - 6)(5) + 4", "syntax"),
        ("Answer: (10 - 6] * 5 + 4", "syntax"),
        ("Answer: (10 - 6 * 5 + 4", "syntax"),
        ("Answer: 10 - 6) * 5 + 4", "syntax"),
        ("Answer: () * 5 + 4", "syntax"),
        ("Answer: (10 - 6) * 5 + 4 *", "syntax"),
        ("Answer: (10 - 6) ** 5 + 4", "syntax"),
        ("Answer: (10 - 6) // 5 + 4", "syntax"),
        ("Answer: (10 - 6) ^ 5 + 4", "syntax"),
        ("Answer: -(6 - 10) * 5 + 4", "syntax"),
        ("Answer: +4 + (10 - 6) * 5", "syntax"),
        ("- (10 - 6) * 5 + 4", "syntax"),
        ("Answer: (10 - 6) * 5. + 4", "syntax"),
        ("Answer: (1 0 - 6) * 5 + 4", "syntax"),
        ("Answer: (10 - 6) * 5 + 4 # x", "syntax"),
        (r"Answer: \frac45 + 10 + 6", "syntax"),
        (r"Answer: \frac{4} + 5", "syntax"),
        (r"Answer: \frac(4)(5) + 10 + 6", "syntax"),
        (r"Answer: \frac", "syntax"),
        (r"Answer: \sqrt{4} + 5 + 6 + 10", "syntax"),
        ("Answer: " + "(" * 100 + "4" + ")" * 100, "syntax"),
        ("Answer: (10 - 6) * 5" + " " * 200 + "+ 4", "syntax"),
    ],
)
def test_a_wrong_answer_is_wrong_for_a_short_reason(response: str, reason: str) -> None:
    verdict = TASK.verify(FOUR_FIVE, response)
    assert (verdict.status, verdict.reason) == ("wrong", reason)


def test_a_division_by_zero_is_wrong() -> None:
    assert TASK.verify(FOURS_EIGHTS, "Answer: 8 / (4 - 4) + 8").reason == "division by zero"


def test_glued_digits_are_not_the_numbers() -> None:
    assert TASK.verify(puzzle(1, 1, 2, 2), "Answer: 12 + 12 = 24").reason == "numbers"


# The checker on what tries to mislead or to stall it

HOSTILE: dict[str, object] = {
    "empty": "",
    "NUL": "\0",
    "NUL inside": "Answer: 4+4\0+8+8",
    "lone surrogate": "\ud800",
    "surrogate at the end": "Answer: 4+4+8+8\ud800",
    "1 MB of x": "x" * 1_000_000,
    "1 MB of spaces": " " * 1_000_000,
    "1 MB of line ends": "Answer:" + "\n" * 1_000_000,
    "20,000 line ends": "Answer:" + "\n" * 19_000,
    "None": None,
    "an int": 24,
    "a list": ["Answer: 4+4+8+8"],
    "bytes": b"Answer: 4+4+8+8",
    "the prompt": TASK.messages(FOURS_EIGHTS)[0]["content"],
    "the numbers": FOURS_EIGHTS.prompt,
    "right, then boxed wrong": "Answer: 4+4+8+8 = 24\nwait, \\boxed{4*4+8-8}",
    "right, then answer wrong": "\\boxed{4+4+8+8}\nwait, answer: 4*4+8-8",
    "unclosed boxes": r"\boxed{" * 20_000,
    "nested boxes": r"\boxed{" * 1000 + "4+4+8+8" + "}" * 1000 + r" \boxed{4}",
    "closed braces": r"\boxed{4}" + "}" * 1_000_000,
    "a tower of powers": "9**9**9",
    "100,000 brackets": "(" * 100_000 + "4+4+8+8" + ")" * 100_000,
    "9,000 brackets": "(" * 9000 + "4+4+8+8" + ")" * 9000,
    "nested fractions": "Answer: " + r"\frac{" * 3000,
    "code": '__import__("os").system("x")+4+4+8+8',
    "code after the answer": 'Answer: 4+4+8+8+__import__("os").system("x")',
    "comment": "4+4+8+8 # x",
    "glued digits": "44-8*8+4",
    "a number twice": "(4 - 8/8) * 8",
    "a number left out": "8 + 8 + 8",
    "division by zero": "4/0*4*8+8",
    "another right side": "4+4+8+8 = 25",
    "factorial": "4! + (8 - 8) * 4",
    "implicit product": "4(4)+8+8",
    "exponent": "1e3",
    "full-width digits": "４+4+8+8",
    "Arabic digits": "٤+4+8+8",
    "superscript": "4²+8+8-4",
    "zero-width space": "4\u200b+4+8+8",
    "right-to-left mark": "Answer: 4+4+8+8\u202e = 42",
    "200,000 digits": "Answer: " + "4" * 200_000,
    "20,000 answers": "answer:" * 20_000,
    "answers and spaces": "answer   " * 100_000,
    "answers and stars": ("answer" + "*" * 1000) * 1000,
    "1 MB of stars": "Answer: " + "*" * 1_000_000,
    "19,000 stars": "Answer: " + "*" * 19_000 + "4",
    "backslashes": "\\" * 1_000_000,
    "boxes and spaces": (r"\boxed" + " " * 1000) * 1000,
    "statement cut by the window": "Answer: 5+4+4+8+8" + " " * (20_000 - len("4+4+8+8")),
    "unary": "Answer: -8+4*(8+4*1)",
    "a chain of nothing": "Answer: " + "=" * 19_000,
    "lines of chains": "4+4+8+8" + "\n= 24" * 3900,
    "chains of one line each": "Answer: 4+4+8+8" + "\n=(4" * 3900,
    "nines in a chain": "Answer: 4+4+8+8" + (" = " + "*".join(["9999"] * 32)) * 7,
    "a long remark": "Answer: 4+4+8+8, " + "and 4 or 8 " * 1700,
    "arrows": "Answer: 4+4+8+8" + "->" * 9000,
    "environments": r"\begin{a}" * 2000,
    "boxes with 24": r"\boxed{24}" * 1900,
    "a flood of layout": "Answer: " + r"\," * 9000 + "4+4+8+8",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_response_is_wrong_in_time_each_time_and_leaves_no_trace(name: str) -> None:
    response: Any = HOSTILE[name]
    spent, verdicts = [], []
    for _ in range(3):
        start = perf_counter()
        verdicts.append(TASK.verify(FOURS_EIGHTS, response))
        spent.append(perf_counter() - start)
    assert {verdict.status for verdict in verdicts} == {"wrong"}
    assert len({verdict.reason for verdict in verdicts}) == 1
    assert verdicts[0].reason.isascii()
    assert len(verdicts[0].reason) < 20
    assert min(spent) < LIMIT_S
    TASK.answer(FOURS_EIGHTS, response)
    assert TASK.verify(FOUR_FIVE, HONEST) == correct()


# The checker against exact evaluation of random expressions

Tree = int | tuple[str, Any, Any]
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}


@dataclass(frozen=True)
class Style:
    signs: dict[str, str] = field(default_factory=lambda: dict(zip("+-*/", "+-*/", strict=True)))
    brackets: str = "()"
    space: str = " "
    every_bracket: bool = False
    fractions: bool = False


def rendered(tree: Tree, style: Style) -> str:
    if isinstance(tree, int):
        return str(tree)
    sign, left, right = tree
    if sign == "/" and style.fractions:
        return rf"\frac{{{rendered(left, style)}}}{{{rendered(right, style)}}}"
    sides = [inside(left, style, PRECEDENCE[sign]), inside(right, style, PRECEDENCE[sign] + 1)]
    return f"{style.space}{style.signs[sign]}{style.space}".join(sides)


def inside(tree: Tree, style: Style, weakest: int) -> str:
    text = rendered(tree, style)
    if isinstance(tree, int) or (PRECEDENCE[tree[0]] >= weakest and not style.every_bracket):
        return text
    middle = len(style.brackets) // 2
    return style.brackets[:middle] + text + style.brackets[middle:]


def value_of(tree: Tree) -> Fraction | None:
    if isinstance(tree, int):
        return Fraction(tree)
    left, right = value_of(tree[1]), value_of(tree[2])
    if left is None or right is None or (tree[0] == "/" and right == 0):
        return None
    values = {"+": left + right, "-": left - right, "*": left * right}
    return values[tree[0]] if tree[0] in values else left / right


def trees(leaves: tuple[int, ...], signs: tuple[str, ...]) -> Iterator[Tree]:
    """Every shape over the leaves in their order; `signs` are used from the left."""
    if len(leaves) == 1:
        yield leaves[0]
    for cut in range(1, len(leaves)):
        for left in trees(leaves[:cut], signs[: cut - 1]):
            for right in trees(leaves[cut:], signs[cut:]):
                yield signs[cut - 1], left, right


@cache
def solutions(hand: tuple[int, ...]) -> tuple[Tree, ...]:
    every = (
        tree
        for leaves in sorted(set(permutations(hand)))
        for signs in product("/-*+", repeat=3)
        for tree in trees(leaves, signs)
    )
    return tuple(islice((tree for tree in every if value_of(tree) == 24), 8))


SOLVED = [
    (3, 3, 8, 8),
    (3, 3, 7, 7),
    (1, 3, 4, 6),
    (4, 5, 6, 10),
    (1, 1, 11, 11),
    (2, 3, 5, 12),
    (5, 5, 5, 1),
    (4, 4, 8, 8),
]
STYLES = st.builds(
    Style,
    signs=st.fixed_dictionaries(
        {
            "+": st.just("+"),
            "-": st.sampled_from("-−–"),
            "*": st.sampled_from(["*", "×", "·", "x", r"\times ", r"\cdot "]),
            "/": st.sampled_from(["/", "÷", r"\div "]),
        }
    ),
    brackets=st.sampled_from(["()", "[]", "{}", r"\left(\right)", r"\left[\right]"]),
    space=st.sampled_from(["", " ", "  "]),
    every_bracket=st.booleans(),
    fractions=st.booleans(),
)
WRAPPINGS = [
    "{}",
    "Answer: {}",
    "Answer: {} = 24",
    "**Answer:** {} = 24.",
    "Answer: 24 = {}",
    "some steps\nAnswer:\n{}\n\nDone.",
    r"\boxed{{{}}}",
    r"Answer: $\boxed{{{} = 24}}$",
    r"So \[ \boxed{{{}}} \].",
]
RANDOM_TREES = st.builds(
    lambda leaves, signs, shape: list(trees(tuple(leaves), tuple(signs)))[shape],
    st.lists(st.integers(1, 13), min_size=4, max_size=4),
    st.lists(st.sampled_from("+-*/"), min_size=3, max_size=3),
    st.integers(0, 4),
)
SOLVED_TREES = st.sampled_from(SOLVED).flatmap(lambda hand: st.sampled_from(solutions(tuple(sorted(hand)))))


def leaves_of(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else leaves_of(tree[1]) + leaves_of(tree[2])


@settings(max_examples=400, deadline=None)
@given(tree=RANDOM_TREES | SOLVED_TREES, style=STYLES, wrapping=st.sampled_from(WRAPPINGS))
def test_any_expression_in_any_style_gets_the_verdict_of_exact_evaluation(
    tree: Tree, style: Style, wrapping: str
) -> None:
    problem = puzzle(*leaves_of(tree))
    response = wrapping.format(rendered(tree, style))
    expected = {Fraction(24): "", None: "division by zero"}.get(value_of(tree), "value")
    assert TASK.verify(problem, response).reason == expected
    assert TASK.verify(problem, response).status == ("wrong" if expected else "correct")
    assert TASK.answer(problem, response) == rendered(tree, Style())


@settings(max_examples=300, deadline=None)
@given(
    tree=SOLVED_TREES,
    place=st.integers(0, 40),
    cut=st.integers(0, 2),
    put=st.text("0123456789+-*/()=.! \n", max_size=2),
)
def test_a_tampered_answer_is_correct_only_where_it_still_makes_24(tree: Tree, place: int, cut: int, put: str) -> None:
    text = rendered(tree, Style())
    text = text[:place] + put + text[place + cut :]
    if TASK.verify(puzzle(*leaves_of(tree)), text) == correct():
        line = [line for line in text.split("\n") if re.search("[0-9]", line)][-1]
        expression = re.sub(r"^ *\*\*|\*\*[ .]*$", "", line).partition("=")[0].rstrip(" .")
        assert re.fullmatch(r"[0-9+\-*/() ]+", expression)
        assert sorted(map(int, re.findall("[0-9]+", expression))) == sorted(leaves_of(tree))
        assert eval(re.sub("([0-9]+)", r"Fraction(\1)", expression)) == 24


PIECES = st.sampled_from(
    [*"0468+-*/()[]{}=.x \n$", r"\boxed{", r"\frac{", "}{", "Answer:", "4+4+8+8", "= 24", "ſ", "é", "\ud800"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_gets_a_verdict_and_its_answer_reads_as_itself(text: str) -> None:
    assert TASK.verify(FOURS_EIGHTS, text).status in {"correct", "wrong"}
    answer = TASK.answer(FOURS_EIGHTS, text)
    if answer is not None and not answer.endswith(" = "):
        assert TASK.answer(FOURS_EIGHTS, answer) == answer
        assert TASK.verify(FOURS_EIGHTS, answer) == TASK.verify(FOURS_EIGHTS, text)


def steps(tree: Tree) -> Iterator[Tree]:
    """A tree, then again and again with its first operation on two whole numbers done, while the result is whole."""
    yield tree
    if not isinstance(tree, int):
        shorter = one_step(tree)
        if shorter is not None:
            yield from steps(shorter)


def one_step(tree: Tree) -> Tree | None:
    if isinstance(tree, int):
        return None
    sign, left, right = tree
    if isinstance(left, int) and isinstance(right, int):
        value = value_of(tree)
        return int(value) if value is not None and value.denominator == 1 and value >= 0 else None
    done = one_step(left)
    if done is not None:
        return sign, done, right
    done = one_step(right)
    return None if done is None else (sign, left, done)


@settings(max_examples=300, deadline=None)
@given(tree=SOLVED_TREES, style=STYLES, wrapping=st.sampled_from(WRAPPINGS), data=st.data())
def test_a_chain_of_true_steps_is_correct_and_one_false_step_makes_it_wrong(
    tree: Tree, style: Style, wrapping: str, data: st.DataObject
) -> None:
    problem = puzzle(*leaves_of(tree))
    sides = [rendered(step, style) for step in steps(tree)]
    equals = data.draw(st.sampled_from([" = ", "=", " => ", " → ", r" \Rightarrow ", "\n= "]))
    assert TASK.verify(problem, wrapping.format(equals.join(sides))) == correct()
    place = data.draw(st.integers(1, len(sides)))
    false = data.draw(st.sampled_from(["25", "20 + 3", "24 / 0", "(24", "4 4"]))
    tampered = [*sides[:place], false, *sides[place:]]
    assert TASK.verify(problem, wrapping.format(equals.join(tampered))).status == "wrong"


def test_an_answer_keeps_a_wrong_right_side() -> None:
    assert TASK.answer(FOUR_FIVE, "Answer: (10-6)*5+4 = 20+4 = 24") == "(10 - 6) * 5 + 4"
    assert TASK.answer(FOUR_FIVE, "Answer: (10-6)*5+4 = 20+5 = 24") == "(10 - 6) * 5 + 4 = 20 + 5"
    assert TASK.answer(FOUR_FIVE, "Answer: [10-6]×5+4=24") == "(10 - 6) * 5 + 4"
    assert TASK.answer(FOUR_FIVE, "Answer: ((10-6)*5)+4 = 48") == "(10 - 6) * 5 + 4 = 48"
    assert TASK.answer(FOUR_FIVE, "no idea") is None


def test_brackets_that_change_the_tree_are_kept() -> None:
    for text in ("1 - (2 - 3)", "1 + (2 + 3)", "1 / (2 * 3)", "(1 + 2) * 3", "1 - 2 - 3"):
        assert evaluate(symbols(text)).text == text


def test_symbols_and_signs_out_of_place_are_refused() -> None:
    for text in ("", "+", "4 4", "4 + + 4", "(4", "4)", "4 ()", "4 & 4", "12345"):
        with pytest.raises(NotArithmetic, match="syntax"):
            evaluate(symbols(text))


# The checker on a published pool


@cache
def gpt4_pool() -> tuple[tuple[Problem, str, bool], ...]:
    """100 responses to each of the 100 puzzles 900 to 999 of the published file, with the verdicts logged there."""
    hands = published_hands()
    pools = json.loads(shared("pools/tot_game24_gpt4_standard_n100.json").read_text())
    return tuple(
        (puzzle(*hands[pool["idx"]]), response, bool(logged))
        for pool in pools
        for response, logged in zip(pool["ys"], pool["accs"], strict=True)
    )


def test_verdicts_on_the_gpt4_pool_are_the_logged_ones() -> None:
    pool = gpt4_pool()
    assert len(pool) == 10_000
    verdicts = [TASK.verify(problem, response).status == "correct" for problem, response, _ in pool]
    assert verdicts == [logged for _, _, logged in pool]
    assert sum(verdicts) == 734
    assert len({problem.id for (problem, _, _), right in zip(pool, verdicts, strict=True) if right}) == 33


def test_equal_answers_of_the_gpt4_pool_have_equal_verdicts() -> None:
    verdicts: dict[tuple[str, str | None], set[str]] = {}
    for problem, response, _ in gpt4_pool():
        key = problem.id, TASK.answer(problem, response)
        verdicts.setdefault(key, set()).add(TASK.verify(problem, response).status)
    assert all(len(kinds) == 1 for kinds in verdicts.values())


def test_a_claim_of_48_is_wrong_though_the_expression_makes_24() -> None:
    assert TASK.verify(puzzle(6, 9, 12, 13), "Answer: (13 - 9) * (12 - 6) = 48").reason == "right side"
