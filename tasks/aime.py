r"""AIME 2024 and 2025: thirty problems a year, fifteen of each exam (I and II); every answer is a number from 0 to 999.

How a response is graded: the content of its last `\boxed{}` must be the reference's number (`\boxed{084}` is 84: the
rules are those of `math_answers`). Without a box, the last "answer is x" or else the last number counts, if fallbacks
are allowed (`fallback`; with --paper and in RL they are not).

A problem of this shape, invented, since the problems are the MAA's and no text of theirs is in this project (`aime25`,
id `2025-II-7`): prompt `Let $N$ be the number of ordered pairs $(a, b)$ of positive integers with $a + b \le 16$ and
$ab$ even. Find $N$.`, reference `84`.

Data: HuggingFaceH4/aime_2024 (its only split is called train) and math-ai/aime25, at the commits pinned below, which
nine public files each name (the hub could not be reached when this was written). `data` reads a local file (JSONL, a
JSON array or parquet, with problem, question or prompt, and answer), or a folder with a clone of the dataset. An
instruction at a problem's end that asks for a `\boxed{}` is removed. A row may name its problem: `2025-II-7` as its id,
or `.../2024_AIME_I_Problems/Problem_7` as its url. If no row of a file does, the order of the rows tells. The thirty
answers are compared with the years' answers in two orders: I-1, I-2, ..., and that of the names as text, I-1, I-10,
I-11, ... (the order of HuggingFaceH4/aime_2024 and of every file made from it). If they agree with no year in either
order, rows 1 to 15 are exam I and the others exam II.

The paper's pools (RepExp, arXiv:2510.11686): 8,192 responses of up to 8,192 tokens at temperature 1.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from harness import HarnessError, Problem

from .competition_math import FromHub, boxed
from .data import sources
from .data.sources import Hub, Row

INSTEAD = "--data FILE, JSONL or parquet with problem (or question, or prompt) and answer"
PLACES = tuple(f"{exam}-{number}" for exam in ("I", "II") for number in range(1, 16))
# The year by the first 16 digits of the SHA-256 of its answers, in the order of PLACES and with a blank between.
ANSWERS = {"c7e02e9441ab23f4": 2024, "31c20588c62ea78a": 2025}

_NAMED = re.compile(r"(20\d\d)(?:-|_AIME_)(II?)(?:-|_Problems/Problem_)(\d\d?)")
_SENTENCE_END = re.compile(r"(?<=[.?!$\])])\s+(?=[A-Z])")
_LONGEST_INSTRUCTION = 200  # characters: a longer sentence is part of the problem


class Aime(FromHub):
    """One year's thirty problems, from the hub or a local file.

    fallback   no: a response without a box has no answer. With --paper it is no.
    """

    n = 16
    max_tokens = 2048
    owner = "the MAA"
    paper: ClassVar[Mapping[str, Any]] = {"n": 8192, "max_tokens": 8192, "sampler": {}, "task": {"fallback": "no"}}
    year: ClassVar[int]
    sizes: ClassVar[Mapping[str, int]] = {"test": 30}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"limit": 4, "n": 8, "max_tokens": 1024, "selector": ["repexp", "uniform", "facility-location"]}
    }

    def problems(self, split: str) -> list[Problem]:
        """Return the problems, in the order of the data. HarnessError for those of another year."""
        rows = list(sources.rows(self.hub, split, self.data))
        answers = [_whole_number(row) for row in rows]
        texts = [without_instruction(row.text("problem", "question", "prompt")) for row in rows]
        names = [_given_name(row) for row in rows]
        years = {name[:4] for name in names if name}
        if not any(names):
            known_year, places = _order(answers)
            years = {str(known_year or self.year)}
            names = [f"{self.year}-{place}" for place in places[: len(rows)]] + [""] * (len(rows) - len(places))
        if years != {str(self.year)}:
            given = ", ".join(sorted(years))
            raise HarnessError(f"{self.hub.task}: --data is of {given}, expected problems of {self.year}")
        if "" in names:
            fault = "no id such as 2025-II-7 nor a url tells which problem this is (a year has 30)"
            raise rows[names.index("")].fault(fault)
        return sources.problems(rows, lambda row: Problem(names[row.number], texts[row.number], answers[row.number]))


class Aime24(Aime):
    """The thirty problems of AIME 2024."""

    year = 2024
    pools_as = "aime24"
    hub = Hub(
        task="aime24",
        repo="HuggingFaceH4/aime_2024",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        instead=INSTEAD,
        named={"test": "train"},
    )


class Aime25(Aime):
    """The thirty problems of AIME 2025."""

    year = 2025
    pools_as = "aime25"
    hub = Hub(
        task="aime25",
        repo="math-ai/aime25",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
        instead=INSTEAD,
    )


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
    columns = " ".join(str(row.find(column) or "") for column in ("url", "id", "problem_id", "unique_id"))
    match = _NAMED.search(columns)
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
