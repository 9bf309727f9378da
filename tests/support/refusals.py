"""The one line with which something is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness import HarnessError


def refusal_of(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """The line of the HarnessError that a call raises."""
    with pytest.raises(HarnessError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def error_line(outcome: Any) -> str:
    """The line of a refused command, which printed nothing else."""
    assert outcome.code == 2, (outcome.out, outcome.err)
    assert outcome.out == ""
    (line,) = outcome.err.strip().splitlines()
    assert line.startswith("error: ")
    return line
