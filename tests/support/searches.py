"""Small pools for `harness verify`, and verifiers of them in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness as package
from harness.records import Outcome
from support.json_lines import write_json_lines


class Recorder:
    """A selector that learns: it takes the lowest index left, and keeps what it was told."""

    needs = ()

    def __init__(self) -> None:
        self.told: list[tuple[Outcome, ...]] = []

    def rank(self, pool, rng):
        return iter(range(len(pool)))

    def pick_after(self, pool, outcomes, rng):
        self.told.append(outcomes)
        return min(set(range(len(pool))) - {outcome.index for outcome in outcomes})


def pool_in(folder: Path, correct: dict[str, list[Any]]) -> Path:
    """A pool whose responses say what they are: their verdicts, or values."""
    lines = [
        {"problem_id": name, "responses": [f"{name} {i} {each}" for i, each in enumerate(row)]}
        for name, row in correct.items()
    ]
    return write_json_lines(folder / "pool.jsonl", lines)


def verified(outcomes: dict[str, list[Any]], calls: list[tuple[str, int]] | None = None, **options: Any) -> Any:
    """`harness.verify` in order, where the outcome of each response is given: True, 2.5, "skip" or "error"."""

    def verifier(name, index, text):
        if calls is not None:
            calls.append((name, index))
        outcome = outcomes[name][index]
        if outcome == "error":
            raise ValueError(f"{name} {index}")
        return None if outcome == "skip" else outcome

    texts = {name: [f"{name} {i} {each}" for i, each in enumerate(row)] for name, row in outcomes.items()}
    return package.verify(texts, verifier, quiet=True, **{"selector": "in-order", "budget": 1000} | options)
