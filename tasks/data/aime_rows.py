r"""Read the rows of an AIME data set as problems: which of the year's thirty problems a row is, its text, its answer.

A row may name its problem: `2025-II-7` as its id, or `.../2024_AIME_I_Problems/Problem_7` as its url. If no row of a
file does, the order of the rows tells. The thirty answers are compared with the years' answers in two orders: I-1, I-2,
..., and that of the names as text, I-1, I-10, I-11, ... (the order of HuggingFaceH4/aime_2024 and of every file made
from it). If they agree with no year in either order, rows 1 to 15 are exam I and the others exam II.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from harness import HarnessError, Problem

from . import sources
from .math_rows import boxed
from .sources import Row

PLACES = tuple(f"{exam}-{number}" for exam in ("I", "II") for number in range(1, 16))
# The year by the first 16 digits of the SHA-256 of its answers, in the order of PLACES and with a blank between.
ANSWERS = {"c7e02e9441ab23f4": 2024, "31c20588c62ea78a": 2025}

_NAMED = re.compile(r"(20\d\d)(?:-|_AIME_)(II?)(?:-|_Problems/Problem_)(\d\d?)")
_SENTENCE_END = re.compile(r"(?<=[.?!$\])])\s+(?=[A-Z])")
_LONGEST_INSTRUCTION = 200  # characters: a longer sentence is part of the problem


def problems_of_year(task: str, year: int, rows: Sequence[Row]) -> list[Problem]:
    """Return the problem of each row, in the rows' order. Raises HarnessError if a row is no problem of that year.

    task   its name begins every error message
    """
    names = _names(task, year, rows)
    return sources.problems(rows, lambda row: Problem(names[row.number], _text(row), _answer(row)))


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


def _text(row: Row) -> str:
    return without_instruction(row.text("problem", "question", "prompt"))


def _answer(row: Row) -> str:
    """Return the answer without leading zeros; without a column for it, the one boxed in the solution."""
    text = row.text("answer", "solution")
    match = re.fullmatch(r"0*(\d{1,3})", (boxed(text) or text).strip())
    if match is None:
        raise row.fault(f"the answer must be a whole number from 0 to 999, got {text!r:.60}")
    return match[1]


def _names(task: str, year: int, rows: Sequence[Row]) -> list[str]:
    """Return the id of each row's problem, such as 2025-II-7."""
    given = [_given_name(row) for row in rows]
    if any(given):
        years = {name[:4] for name in given if name}
        names = [name or "" for name in given]
    else:
        known_year, places = _order([_answer(row) for row in rows])
        years = {str(known_year or year)}
        names = [f"{year}-{place}" for place in places]
    if years != {str(year)}:
        raise HarnessError(f"{task}: --data is of {', '.join(sorted(years))}, expected problems of {year}")
    if len(names) < len(rows) or "" in names:
        row = rows[names.index("") if "" in names else len(names)]
        raise row.fault("no id such as 2025-II-7 nor a url tells which problem this is (a year has 30)")
    return names


def _given_name(row: Row) -> str | None:
    """Return the id that a row gives for itself, as an id or in a url; None if it gives none."""
    columns = (str(row.find(column) or "") for column in ("url", "id", "problem_id", "unique_id"))
    match = next((match for text in columns if (match := _NAMED.search(text))), None)
    return match and f"{match[1]}-{match[2]}-{int(match[3])}"


def _order(answers: Sequence[str]) -> tuple[int | None, Sequence[str]]:
    """Return the year whose answers these are, None if no year's, and the place of each row in it."""
    for places in (PLACES, tuple(sorted(PLACES))):
        answer_at = dict(zip(places, answers, strict=False))
        listed = " ".join(answer_at.get(place, "") for place in PLACES)
        year = ANSWERS.get(hashlib.sha256(listed.encode()).hexdigest()[:16])
        if year is not None:
            return year, places
    return None, PLACES
