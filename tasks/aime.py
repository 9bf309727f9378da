r"""AIME 2024 and 2025: thirty problems a year, fifteen of each exam (I and II); every answer is a number from 0 to 999.

Example, invented (`aime25`, id `2025-II-7`): prompt `Let $N$ be the number of ordered pairs $(a, b)$ of positive
integers with $a + b \le 16$ and $ab$ even. Find $N$.`, reference `84`; a correct response ends in `\boxed{84}` (or
`\boxed{084}`: answers are numbers).

Data: HuggingFaceH4/aime_2024 (its one split is called train) and math-ai/aime25, at the commits below, which nine
public files each name (they could not be fetched where this was written). The problems are the MAA's; no text of
theirs is in this project. `data`: JSONL, a JSON array or parquet with problem (or question, or prompt) and answer, or
a folder with a clone of the dataset. An instruction at a problem's end that asks for a `\boxed{}` is taken off.

Ids. A file may name its problems: `2025-II-7` as id, or `.../2024_AIME_I_Problems/Problem_7` as url. Else the order of
the rows tells: where the thirty answers are a year's in the order I-1, I-2, ..., or in the order of the names as text
(I-1, I-10, I-11, ...: aime_2024's, and that of every file made from it), each problem has its place; else rows 1 to 15
are I and the others II.

The paper's pools (RepExp, arXiv:2510.11686): 8,192 responses of up to 8,192 tokens at temperature 1.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from harness import HarnessError, Message, Problem, hookimpl
from harness.hookspecs import Register

from .competition_math import INSTRUCTION, boxed, boxed_chat
from .data import sources
from .data.sources import Hub, Row
from .math_answers import MathTask

INSTEAD = "--data FILE, JSONL or parquet with problem (or question, or prompt) and answer"
HUBS = {
    2024: Hub(
        task="aime24",
        repo="HuggingFaceH4/aime_2024",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        instead=INSTEAD,
        named={"test": "train"},
    ),
    2025: Hub(
        task="aime25",
        repo="math-ai/aime25",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
        instead=INSTEAD,
    ),
}
PLACES = tuple(f"{exam}-{number}" for exam in ("I", "II") for number in range(1, 16))
# A year's answers in the order of PLACES, written with a blank between: the first 16 digits of their SHA-256.
ANSWERS = {"c7e02e9441ab23f4": 2024, "31c20588c62ea78a": 2025}

_NAMED = re.compile(r"(20\d\d)(?:-|_AIME_)(II?)(?:-|_Problems/Problem_)(\d\d?)")
_SENTENCE_END = re.compile(r"(?<=[.?!$\])])\s+(?=[A-Z])")


@dataclass(frozen=True)
class Aime(MathTask):
    """One year's thirty problems, from the hub or a local file.

    fallback   no: a response without a box has no answer; so with --paper
    """

    n = 16
    max_tokens = 2048
    owner = "the MAA"
    paper: ClassVar[Mapping[str, Any]] = {"n": 8192, "max_tokens": 8192, "sampler": {}, "task": {"fallback": "no"}}
    year: ClassVar[int]

    data: str | None = None
    fallback: bool = True

    @property
    def revision(self) -> str:
        """The dataset's commit, or the file's hash."""
        return sources.revision(HUBS[self.year], self.data)

    def problems(self, split: str) -> list[Problem]:
        """The problems, in the file's order."""
        hub = HUBS[self.year]
        sources.refuse_unknown(hub.task, split, self.splits)
        rows = list(sources.rows(hub, split, self.data))
        names = _names(self.year, rows)
        return sources.problems(rows, lambda row: Problem(names[row.number], _problem(row), _gold(row)))

    def messages(self, problem: Problem) -> list[Message]:
        """One user message: the problem and the instruction of `competition_math`."""
        return boxed_chat(problem)

    def plain(self, problem: Problem) -> str:
        """The problem, the instruction, and the beginning of a solution; no examples."""
        return zero_shot(problem)


class Aime24(Aime):
    """The thirty problems of AIME 2024."""

    year = 2024
    pools_as = "aime24"


class Aime25(Aime):
    """The thirty problems of AIME 2025."""

    year = 2025
    pools_as = "aime25"


def zero_shot(problem: Problem) -> str:
    """The problem, the instruction, and the beginning of a solution."""
    return f"Problem: {problem.prompt}\n{INSTRUCTION}\nSolution:"


def without_instruction(text: str) -> str:
    r"""The text without what asks for a `\boxed{}` at the end of its last line, nor a `step by step` before that."""
    head, newline, last = text.rstrip().rpartition("\n")
    sentences = _SENTENCE_END.split(last)
    if r"\boxed{}" not in sentences[-1] or len(sentences[-1]) > 200:  # that long it is part of the problem
        return text.strip()
    sentences.pop()
    if sentences and "step by step" in sentences[-1]:
        sentences.pop()
    return f"{head}{newline}{' '.join(sentences)}".strip()


def _problem(row: Row) -> str:
    return without_instruction(row.text("problem", "question", "prompt"))


def _gold(row: Row) -> str:
    """The answer without leading zeros; a solution's boxed one where there is no column for it."""
    text = row.text("answer", "solution")
    match = re.fullmatch(r"0*(\d{1,3})", (boxed(text) or text).strip())
    if match is None:
        raise row.fault(f"the answer must be a whole number from 0 to 999, got {text!r:.60}")
    return match[1]


def _names(year: int, rows: Sequence[Row]) -> list[str]:
    """An id for each row."""
    task = HUBS[year].task
    found = [_named(row) for row in rows]
    if any(found):
        found_years = {name[:4] for name in found if name}
        names = [name or "" for name in found]
    else:
        of_year, places = _order([_gold(row) for row in rows])
        found_years = {str(of_year or year)}
        names = [f"{year}-{place}" for place in places]
    if found_years != {str(year)}:
        raise HarnessError(f"{task}: --data is of {', '.join(sorted(found_years))}, expected problems of {year}")
    if len(names) < len(rows) or "" in names:
        row = rows[names.index("") if "" in names else len(names)]
        raise row.fault("no id such as 2025-II-7 nor a url tells which problem this is (a year has 30)")
    return names


def _named(row: Row) -> str | None:
    """The id that a row gives itself; None where it gives none."""
    given = (str(row.find(column) or "") for column in ("url", "id", "problem_id", "unique_id"))
    match = next((match for text in given if (match := _NAMED.search(text))), None)
    return match and f"{match[1]}-{match[2]}-{int(match[3])}"


def _order(golds: Sequence[str]) -> tuple[int | None, Sequence[str]]:
    """The year whose answers these are, if they are one's, and the places of the rows."""
    for places in (PLACES, tuple(sorted(PLACES))):
        answer_at = dict(zip(places, golds, strict=False))
        listed = " ".join(answer_at.get(place, "") for place in PLACES)
        year = ANSWERS.get(hashlib.sha256(listed.encode()).hexdigest()[:16])
        if year is not None:
            return year, places
    return None, PLACES


@hookimpl
def register_tasks(register: Register) -> None:
    """The tasks `aime24` and `aime25`."""
    register("aime24", "harness_tasks.aime:Aime24")
    register("aime25", "harness_tasks.aime:Aime25")
