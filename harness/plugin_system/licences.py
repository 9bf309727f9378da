"""The model weights that a run uses: whose they are, under which licence, and whether they are on this machine.

A component that uses some names them (`contracts.NamesWeights`): they are shown once a run, kept beside the manifests
of what they made and in every cell; where some are missing, one line names them all before anything is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harness.contracts import NamesWeights
from harness.errors import HarnessError
from harness.records import Weights


def of(components: Iterable[Any]) -> list[Weights]:
    """The weights that the components name, each once."""
    named = [
        weights for component in components if isinstance(component, NamesWeights) for weights in component.weights()
    ]
    return list(dict.fromkeys(named))


def require(weights: Sequence[Weights]) -> None:
    """HarnessError, one line that names all of them, where some are not on this machine."""
    absent = [one for one in weights if one.fetch]
    if absent:
        listed = "; ".join(f"{one}: {one.fetch}" for one in absent)
        are = "are" if len(absent) > 1 else "is"
        raise HarnessError(f"{len(absent)} of {len(weights)} sets of weights {are} not on this machine: {listed}")


def remark(weights: Sequence[Weights]) -> str:
    """The line that a run shows; "" where it uses none."""
    return f"weights: {'; '.join(map(str, weights))}" if weights else ""
