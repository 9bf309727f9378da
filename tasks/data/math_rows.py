r"""Read the rows of MATH, MATH-500 and AIME as problems.

An AIME row may name its problem: `2025-II-7` as its id, or `.../2024_AIME_I_Problems/Problem_7` as its url. If no row
of a file does, the order of the rows tells. The thirty answers are compared with the years' answers in two orders: I-1,
I-2, ..., and that of the names as text, I-1, I-10, I-11, ... (the order of HuggingFaceH4/aime_2024 and of every file
made from it). If they agree with no year in either order, rows 1 to 15 are exam I and the others exam II.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from harness import HarnessError, Problem

from ..math_answers.equality import compare
from ..math_answers.extraction import boxed_contents
from ..math_answers.normal_form import normal_form
from . import sources
from .sources import Row

PLACES = tuple(f"{exam}-{number}" for exam in ("I", "II") for number in range(1, 16))
# The year by the first 16 digits of the SHA-256 of its answers, in the order of PLACES and with a blank between.
ANSWERS = {"c7e02e9441ab23f4": 2024, "31c20588c62ea78a": 2025}

_NAMED = re.compile(r"(20\d\d)(?:-|_AIME_)(II?)(?:-|_Problems/Problem_)(\d\d?)")
_SENTENCE_END = re.compile(r"(?<=[.?!$\])])\s+(?=[A-Z])")
_LONGEST_INSTRUCTION = 200  # characters: a longer sentence is part of the problem


def solved_problem(split: str, row: Row) -> Problem:
    """Return the problem of a row of MATH; its reference is the boxed answer of the solution.

    Its id is `algebra/test-17`, or `test-17` for a row of a local file. Raises HarnessError if there is no such answer.
    """
    name = f"{split}-{row.number}" if row.config is None else f"{row.config}/{split}-{row.number}"
    solution = row.text("solution")
    answer = boxed(solution)
    if not answer:
        raise row.fault("column 'solution' has no \\boxed{...} with an answer")
    return Problem(name, row.text("problem"), reference_in(solution, answer))


def answered_problem(row: Row) -> Problem:
    """Return the problem of a row of MATH-500; its id is the unique_id, else `test-` and the row's number."""
    name = f"test-{row.number}" if row.find("unique_id") is None else row.text("unique_id")
    return Problem(name, row.text("problem"), row.text("answer").strip())


def reference_in(solution: str, last: str) -> str:
    r"""Return the reference of a solution: `last`, the content of its last box, or several boxes if it ends in several.

    These are the boxes that are joined to one answer in a response (see `extraction`), `\boxed{1}, \boxed{2}`. Boxes
    that may be spellings of one value are one: of `\boxed{1\frac{1}{2}} or \boxed{\frac{3}{2}}` the reference is
    `\frac{3}{2}`.
    """
    answers: list[str] = []
    for box in reversed(boxed_contents(solution)):
        if all(compare(other, normal_form(box)).equal is False for other in answers):
            answers.append(box)
    return ", ".join(rf"\boxed{{{answer}}}" for answer in reversed(answers)) if len(answers) > 1 else last


def boxed(solution: str) -> str | None:
    r"""Return the content of a solution's last `\boxed{...}`; None without one, or if its brace is not closed.

    In old solutions (`$\boxed 5$`) it is all up to the end of the formula.
    """
    _, command, rest = solution.rpartition(r"\boxed")
    rest = rest.lstrip()
    if not command or not rest.startswith("{"):
        return rest.partition("$")[0].strip() if command else None
    depth = 0
    for end, sign in enumerate(rest):
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return rest[1:end].strip()
    return None


def ids_of_math500(math500: Sequence[Problem], problems: Sequence[Problem]) -> set[str]:
    """Return the ids of those of MATH's problems that are in MATH-500: their texts are equal, blanks left out.

    A text that occurs twice in MATH but once in MATH-500 counts once. HarnessError if one of MATH-500 is not in MATH.
    """
    missing = Counter("".join(problem.prompt.split()) for problem in math500)
    ids: set[str] = set()
    for problem in problems:
        text = "".join(problem.prompt.split())
        if missing[text] > 0:
            missing[text] -= 1
            ids.add(problem.id)
    if len(ids) < len(math500):
        raise HarnessError(
            f"math: only {len(ids)} of the {len(math500)} problems of MATH-500 are among the {len(problems):,} of "
            "split 'test', so dev and rl-test cannot be told apart: is --data (or math500=FILE) another edition?"
        )
    return ids


# AIME


def problems_of_year(task: str, year: int, rows: Sequence[Row]) -> list[Problem]:
    """Return the problem of each row, in the rows' order. HarnessError, which begins with `task`, for another year."""
    answers = [_whole_number(row) for row in rows]
    texts = [without_instruction(row.text("problem", "question", "prompt")) for row in rows]
    names = [_given_name(row) for row in rows]
    years = {name[:4] for name in names if name}
    if not any(names):
        known_year, places = _order(answers)
        years = {str(known_year or year)}
        names = [f"{year}-{place}" for place in places[: len(rows)]] + [""] * (len(rows) - len(places))
    if years != {str(year)}:
        raise HarnessError(f"{task}: --data is of {', '.join(sorted(years))}, expected problems of {year}")
    if "" in names:
        fault = "no id such as 2025-II-7 nor a url tells which problem this is (a year has 30)"
        raise rows[names.index("")].fault(fault)
    return sources.problems(rows, lambda row: Problem(names[row.number], texts[row.number], answers[row.number]))


def without_instruction(text: str) -> str:
    r"""Return a problem's text without the instruction that some files append to its last line.

    It is a last sentence that asks for a `\boxed{}`, with the sentence before it if that says "step by step".
    """
    head, newline, last = text.rstrip().rpartition("\n")
    sentences = _SENTENCE_END.split(last)
    if r"\boxed{}" not in sentences[-1] or len(sentences[-1]) > _LONGEST_INSTRUCTION:
        return text.strip()
    sentences.pop()
    if sentences and "step by step" in sentences[-1]:
        sentences.pop()
    return f"{head}{newline}{' '.join(sentences)}".strip()


def _whole_number(row: Row) -> str:
    """Return the answer without leading zeros; without a column for it, the one boxed in the solution."""
    text = row.text("answer", "solution")
    match = re.fullmatch(r"0*(\d{1,3})", (boxed(text) or text).strip())
    if match is None:
        raise row.fault(f"the answer must be a whole number from 0 to 999, got {text!r:.60}")
    return match[1]


def _given_name(row: Row) -> str:
    """Return the id that a row gives for itself, as an id or in a url; "" if it gives none."""
    columns = (str(row.find(column) or "") for column in ("url", "id", "problem_id", "unique_id"))
    match = next((match for text in columns if (match := _NAMED.search(text))), None)
    return f"{match[1]}-{match[2]}-{int(match[3])}" if match else ""


def _order(answers: Sequence[str]) -> tuple[int | None, Sequence[str]]:
    """Return the year whose answers these are, None if no year's, and the place of each row in it."""
    for places in (PLACES, tuple(sorted(PLACES))):
        answer_at = dict(zip(places, answers, strict=False))
        listed = " ".join(answer_at.get(place, "") for place in PLACES)
        year = ANSWERS.get(hashlib.sha256(listed.encode()).hexdigest()[:16])
        if year is not None:
            return year, places
    return None, PLACES
