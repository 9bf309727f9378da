"""Run the checks of a kind on a component, one after another, and return the finding of each."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from harness.errors import HarnessError, did_you_mean

from .checking import Check, ConformanceError, Inapplicable

KINDS = ("task", "sampler", "engine", "embedder", "selector")

Finding = dict[str, str]


def checks(kind: str) -> tuple[Check, ...]:
    """The checks of a kind ("selector", "task", "sampler", "embedder", "engine"), the basic ones first."""
    kind = kind.removesuffix("s")
    if kind not in KINDS:
        raise HarnessError(f"no checks for kind {kind!r} {did_you_mean(kind, KINDS).replace('installed', 'kinds')}")
    of_kind: tuple[Check, ...] = importlib.import_module(f".{kind}_checks", __package__).CHECKS
    return of_kind


def findings(kind: str, component: Any) -> Iterator[Finding]:
    """Run each check of the kind on the component and yield a dict for each: check, outcome and what.

    check    the check's name
    outcome  "passed", "failed" or "not applicable"
    what     what holds, what is wrong, or why the check does not apply, in one line
    """
    return (finding_of(check, component) for check in checks(kind))


def finding_of(check: Check, component: Any) -> Finding:
    """Run one check on the component and return its finding, as in `findings`."""
    outcome, what = "passed", check.summary
    try:
        check(component)
    except Inapplicable as why:
        outcome, what = "not applicable", str(why)
    except ConformanceError as failure:
        outcome, what = "failed", str(failure)
    return {"check": check.name, "outcome": outcome, "what": what}
