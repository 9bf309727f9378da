"""Weights that a run stands on: whose they are, where they come from, under which licence, and whether they are here.

A component that has such weights says so (`weights()`): they are shown once a run, kept beside the manifests of what
they made and in every cell, and where some are not on this machine one line names them all before anything is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import HarnessError


@dataclass(frozen=True)
class Weights:
    """One model's weights.

    source     the hub's id or the folder that they are read from
    licence    as their owner states it, with the date on which that was looked up
    fetch      how one gets them, where they are not on this machine; "" where they are
    is_random  they were never trained: for tests, and nothing made with them is a result
    """

    name: str
    source: str
    licence: str
    fetch: str = ""
    is_random: bool = False

    def __str__(self) -> str:
        return f"{self.name}{' with RANDOM weights' * self.is_random} ({self.source}; {self.licence})"

    def row(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: value for name, value in asdict(self).items() if name != "fetch"}


def of(components: Iterable[Any]) -> list[Weights]:
    """The weights that the components name, each once."""
    found = [weights for one in components if hasattr(one, "weights") for weights in one.weights()]
    return list(dict.fromkeys(found))


def require(found: Sequence[Weights]) -> None:
    """HarnessError, one line that names all of them, where some are not on this machine."""
    absent = [weights for weights in found if weights.fetch]
    if absent:
        listed = "; ".join(f"{weights}: {weights.fetch}" for weights in absent)
        are = "are" if len(absent) > 1 else "is"
        raise HarnessError(f"{len(absent)} of {len(found)} sets of weights {are} not on this machine: {listed}")


def remark(found: Sequence[Weights]) -> str:
    """The line that a run shows; "" where it stands on none."""
    return f"weights: {'; '.join(map(str, found))}" if found else ""
