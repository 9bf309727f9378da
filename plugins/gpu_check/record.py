"""What a check is given, and what it returns: plain data, which travel to its process and back as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from harness.errors import HarnessError

PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"


class Skipped(HarnessError):
    """A check that cannot be made here; the line says why."""


@dataclass(frozen=True)
class Setting:
    """What all checks are given.

    device    "cuda" or "cpu"
    model     a name, folder or hub id, as of `--model`
    files     the folder for what one check leaves for another
    outcomes  those of the checks before, by name
    """

    device: str
    model: str
    files: Path
    outcomes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """What came out of a check: its outcome, why in one line, and metrics: name -> (value, unit)."""

    outcome: Literal["passed", "failed", "skipped"]
    reason: str
    metrics: Mapping[str, tuple[float, str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as the file has it; a value that is no finite number is None there."""
        metrics = {name: {"value": _number(value), "unit": unit} for name, (value, unit) in self.metrics.items()}
        return {"outcome": self.outcome, "reason": self.reason, "metrics": metrics}


def judged(holds: bool, reason: str, metrics: Mapping[str, tuple[float, str]]) -> Result:
    """Return the result of a check that was made to its end."""
    return Result("passed" if holds else "failed", reason, metrics)


def _number(value: float) -> float | None:
    """Return the value in four significant digits, a count unchanged; None for NaN and infinity."""
    if isinstance(value, int):
        return value
    value = float(f"{float(value):.4g}")
    return value if abs(value) < float("inf") else None
