"""The options of `harness verify`: those of `harness select`, and how to verify, how often, and where outcomes go."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from harness.errors import HarnessError
from harness.jobs.options import SelectConfig
from harness.plugin_system.command_options import Help


@dataclass(frozen=True, kw_only=True)
class VerifyConfig(SelectConfig):
    """The options of `harness verify`; those that `harness select` also has mean the same."""

    command: ClassVar[str] = "verify"
    at_least: ClassVar[int] = 1  # response of each problem, whatever k is

    k: Annotated[int, Help("With --ask: how many picks are out at a time.", ("-k",))] = 1
    verifier: Annotated[
        str | None, Help("A command that checks one response, e.g. 'python check.py {response_file}'.")
    ] = None
    budget: Annotated[int | None, Help("The most checks in all, those in the journal included.")] = None
    budget_per_problem: Annotated[int | None, Help("The most checks of one problem.")] = None
    workers: Annotated[int, Help("How many checks run at once.")] = 1
    timeout: Annotated[float, Help("A check that takes longer is ended, and is an error.", metavar="SECONDS")] = 60.0
    until: Annotated[int, Help("A problem is done after this number of successes.")] = 1
    threshold: Annotated[float | None, Help("A measured value of at least this is a success.")] = None
    top: Annotated[int | None, Help("Look for the largest values: show this many, and use up the budget.")] = None
    journal: Annotated[Path, Help("Where every outcome is written down; the same file goes on.")] = Path("verify.jsonl")
    retry_errors: Annotated[bool, Help("Check again what ended in an error.")] = False
    ask: Annotated[bool, Help("Print the picks and take the outcomes from you: no verifier runs.")] = False
    answers: Annotated[Path | None, Help("With --ask: a table of outcomes (CSV: problem_id,index,outcome).")] = None
    correct: Annotated[bool, Help("With --answers: an outcome replaces another one that is recorded.")] = False
    sheet: Annotated[Path | None, Help("With --ask: write the picks there as CSV, to fill in and send back.")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        low = {name: getattr(self, name) for name in ("budget", "budget_per_problem", "workers", "until", "top")}
        name, value = next(((name, value) for name, value in low.items() if value is not None and value < 1), ("", 0))
        stops = self.threshold is not None or self.until > 1
        faults = {
            f"--{name.replace('_', '-')} must be at least 1, got {value}": name,
            f"--timeout must be a number of seconds > 0, got {self.timeout:g}": not 0 < self.timeout < math.inf,
            f"--threshold must be finite, got {self.threshold}": not math.isfinite(self.threshold or 0),
            "say how to verify: --verifier 'python check.py {response_file}', or --ask": not self.verifier
            and not self.ask,
            "give --verifier or --ask, not both": self.verifier and self.ask,
            "--answers and --sheet go with --ask": (self.answers or self.sheet) and not self.ask,
            "--correct goes with --answers": self.correct and not self.answers,
            "-k goes with --ask; --workers says how many checks run at once": self.k > 1 and not self.ask,
            "say how many checks may be made: --budget 200": self.budget is None and not self.ask,
            "--top looks for the largest values and stops at no success: leave out --threshold and --until": self.top
            and stops,
        }
        for fault, holds in faults.items():
            if holds:
                raise HarnessError(f"verify: {fault}")

    @property
    def takes_values(self) -> bool:
        """Whether an outcome may be a measured value."""
        return self.threshold is not None or self.top is not None
