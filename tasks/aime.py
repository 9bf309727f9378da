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
instruction at a problem's end that asks for a `\boxed{}` is removed. A row's id, its url or the
order of the rows tells which problem it is (`data/math_rows.py`).

The paper's pools (RepExp, arXiv:2510.11686): 8,192 responses of up to 8,192 tokens at temperature 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from harness import Problem

from .competition_math import FromHub
from .data import math_rows, sources
from .data.sources import Hub

INSTEAD = "--data FILE, JSONL or parquet with problem (or question, or prompt) and answer"


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
        """Return the problems, in the order of the data."""
        return math_rows.problems_of_year(self.hub.task, self.year, list(sources.rows(self.hub, split, self.data)))


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
