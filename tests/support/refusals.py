"""The one line with which something is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


def wrongly_refused(cases: Iterable[tuple[Any, str]], call: Callable[[Any], Any]) -> list[str]:
    """A line on each case, an input and words, that `call` does not refuse in one line with these words."""
    wrong = []
    for value, words in cases:
        try:
            call(value)
            line = "no refusal"
        except HarnessError as refusal:
            line = str(refusal)
        if words not in line or "\n" in line:
            wrong.append(f"{value!r:.80}: expected {words!r}, got {line!r:.300}")
    return wrong
