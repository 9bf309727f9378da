"""The model weights that a run uses: their owners and licences, and whether they are on this machine.

Components that use weights name them (`contracts.NamesWeights`). They are shown once a run, and recorded in manifests
and cells. If some are missing, one line names all of these before anything is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harness.contracts import NamesWeights
from harness.errors import Lacking
from harness.records import Weights


def of(components: Iterable[Any]) -> list[Weights]:
    """The weights that the components name, without repeats."""
    named = [
        weights for component in components if isinstance(component, NamesWeights) for weights in component.weights()
    ]
    return list(dict.fromkeys(named))


def require(weights: Sequence[Weights]) -> None:
    """Raise Lacking, one line with all weights that are not on this machine (`fetch`) and how to get each."""
    missing = [model for model in weights if model.fetch]
    if missing:
        listed = "; ".join(f"{model}: {model.fetch}" for model in missing)
        are = "are" if len(missing) > 1 else "is"
        raise Lacking(f"{len(missing)} of {len(weights)} sets of weights {are} not on this machine: {listed}")


def remark(weights: Sequence[Weights]) -> str:
    """Return the line in which a run shows these weights; "" if there are none."""
    return f"weights: {'; '.join(map(str, weights))}" if weights else ""
