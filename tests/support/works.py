"""A pool in a store and the work on it, as the functions of `harness.stages` get them, without a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness import Problem, Responses, Verdict, correct, error, wrong
from harness.stages.work import Work
from harness.store import shards
from harness.store.stage import Store
from support.paths import TOY

VERDICTS = {"c": correct(), "w": wrong(), "e": error("no answer")}


def responses_of(texts: Sequence[str], **columns: Any) -> Responses:
    """Responses of three tokens each; the first is the most likely."""
    n = len(texts)
    fixed = {"finish": ["stop"] * n, "lengths": np.full(n, 3), "logprobs": -np.arange(n) / 8.0}
    return Responses(texts, **fixed | columns)


def verdicts_of(letters: str) -> list[Verdict]:
    """A verdict for each letter: c correct, w wrong, e error."""
    return [VERDICTS[letter] for letter in letters]


def work_in(root: Path, **fields: Any) -> Work:
    """Work on one pool of a store, with a stage for everything that is made from it."""
    store = Store(root)
    pool = store.stage("pool", {"n": 3}, ".parquet")
    about = {"pool": pool.key, "task": "keyed", "grader": "1"}
    stages = {
        "verdicts": store.stage("verdict", {**about, "given": False}, ".parquet"),
        "graded": store.stage("graded", {"task": "keyed"}, ".parquet"),
        "audits": store.stage("audit", about, ".json"),
        "embeddings": store.stage("embedding", {**about, "embedder": {"name": "letters"}}, ".safetensors"),
        "rankings": store.stage("ranking", about, ".json"),
    }
    return Work(**{"task": "keyed", "data": None, "plugin_files": (TOY,), "pool": pool, **stages, **fields})


def keep_pool(work: Work, texts: Mapping[str, Sequence[str]], **columns: Any) -> list[Problem]:
    """Write responses, problem id -> texts; the problems, whose reference is red."""
    problems = [Problem(name, f"Say {name}.", reference="red") for name in texts]
    for problem in problems:
        responses = responses_of(texts[problem.id], **columns)
        shards.write_responses(work.pool.path(problem), problem, responses)
    return problems


def keep_verdicts(work: Work, problem: Problem, letters: str, answers: Sequence[str | None] = ()) -> None:
    """Write the verdicts on a problem's responses, a letter each (`verdicts_of`)."""
    shards.write_verdicts(work.verdicts.path(problem), verdicts_of(letters), list(answers) or [None] * len(letters))
