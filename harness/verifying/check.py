"""A check: one response that was verified, and its outcome."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

TOO_LATE = "no end within"  # begins the reason of a check that took too long
OUTCOMES = ("correct", "wrong", "measured", "error", "skip")


@dataclass(frozen=True)
class Check:
    """The outcome of verifying one response.

    outcome  "correct", "wrong", "measured" (a value alone), "error" (the verifier failed; it counts as a call), or
             "skip" (nobody could check it; no call)
    value    what the verifier measured; None if it measured nothing
    reason   of an error, one line
    """

    problem_id: str
    index: int
    outcome: str
    value: float | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The check as a line of the journal."""
        line = {"problem_id": self.problem_id, "index": self.index, "outcome": self.outcome}
        line |= {} if self.value is None else {"value": self.value}
        return line | ({"reason": self.reason} if self.reason else {})

    @property
    def is_call(self) -> bool:
        """Whether it used up a call."""
        return self.outcome != "skip"

    def is_success(self, threshold: float | None) -> bool:
        """Whether it is what is looked for: a value of at least the threshold, else the outcome "correct"."""
        if threshold is not None and self.value is not None:
            return self.value >= threshold
        return self.outcome == "correct"

    @property
    def known(self) -> float | None:
        """What a selector that learns is told: the value, else 1.0 or 0.0; None after an error or a skip."""
        return {"correct": 1.0, "wrong": 0.0}.get(self.outcome) if self.value is None else self.value


def measured(problem_id: str, index: int, value: float, threshold: float | None) -> Check:
    """The check that gave a value; an error if the value is not finite."""
    if not math.isfinite(value):
        return Check(problem_id, index, "error", reason=f"the value {value} is not finite")
    if threshold is None:
        return Check(problem_id, index, "measured", value)
    return Check(problem_id, index, "correct" if value >= threshold else "wrong", value)
