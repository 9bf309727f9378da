"""Small pools for `harness verify`, and verifiers of them in this process."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from harness.records import Outcome
from harness.system.progress import Progress
from harness.verifying import loop
from harness.verifying.config import VerifyConfig
from harness.verifying.journal import Check
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


def config_of(folder: Path, **options: Any) -> VerifyConfig:
    """A config with in-order picks on the pool of the folder."""
    fixed = {
        "pool": folder / "pool.jsonl",
        "journal": folder / "verify.jsonl",
        "verifier": "as written",
        "budget": 1000,
    }
    return VerifyConfig(**({"selector": "in-order"} | fixed | options))


def verified(config: VerifyConfig, calls: list[tuple[str, int]] | None = None) -> loop.Loop:
    """The loop, where the last word of a response is its outcome: True, False, a value, or the name of an outcome."""

    def verify_one(candidates, index):
        word = candidates.responses.texts[index].split()[-1]
        if calls is not None:
            calls.append((candidates.problem.id, index))
        outcome = {"True": "correct", "False": "wrong"}.get(word, word)
        if outcome in ("correct", "wrong", "error", "skip"):
            reason = f"error of {candidates.problem.id} {index}" if outcome == "error" else ""
            return Check(candidates.problem.id, index, outcome, reason=reason)
        value = float(word)
        threshold = config.threshold
        return Check(
            candidates.problem.id,
            index,
            "measured" if threshold is None else ["wrong", "correct"][value >= threshold],
            value,
        )

    return loop.verify(config, Progress(quiet=True), nullcontext(verify_one))
