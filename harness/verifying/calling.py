"""Verify by a Python function."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import numpy as np

from harness.errors import contained, error_text
from harness.jobs.selection import Candidates

from .check import Check, measured
from .config import VerifyConfig

Function: TypeAlias = Callable[[str, int, str], bool | float | None]


def name_of(function: Function) -> str:
    """The function's name, as the journal has it."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def called(function: Function, config: VerifyConfig) -> AbstractContextManager[Callable[[Candidates, int], Check]]:
    """The verifier of the loop that calls a function with problem id, index and text."""

    def verify_one(candidates: Candidates, index: int) -> Check:
        name = candidates.problem.id
        try:
            with contained():
                outcome = function(name, index, candidates.responses.texts[index])
                value = None if outcome is None else float(outcome)
        except Exception as failure:
            return Check(name, index, "error", reason=error_text(failure))
        if value is None:
            return Check(name, index, "skip")
        if isinstance(outcome, bool | np.bool_):
            return Check(name, index, "correct" if outcome else "wrong")
        return measured(name, index, value, config.threshold)

    return nullcontext(verify_one)
