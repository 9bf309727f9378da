"""Run the checks of a kind on a component, one after another, and return the finding of each."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, did_you_mean
from harness.plugin_system.component import build
from harness.plugin_system.registry import Registry, load_registry

from .checking import Check, ConformanceError, Inapplicable

KINDS = ("task", "sampler", "engine", "embedder", "selector")
EMBEDDED_MODEL = "tiny24"  # comes with the package; engines are checked with it unless another model is given

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
    for check in checks(kind):
        outcome, what = "passed", check.summary
        try:
            check(component)
        except Inapplicable as why:
            outcome, what = "not applicable", str(why)
        except ConformanceError as failure:
            outcome, what = "failed", str(failure)
        yield {"check": check.name, "outcome": outcome, "what": what}


def check_registered(
    kind: str,
    name: str,
    *,
    data: Path | None = None,
    model: str | None = None,
    plugin_files: Sequence[Path] = (),
    report: Callable[[str], None] = lambda text: None,
) -> list[Finding]:
    """Run the checks on a registered component (`name` or `name:param=value`), or with `*` on all of the kind.

    data    a task's local file with problems; None is the task's own source
    model   the model of an engine; None is the small one that comes with the package
    report  called with a line of text before the checks of each component

    Each finding is as in `findings`, with the kind and the component's name added. A component that cannot be built
    or checked raises HarnessError; with `*` it is reported as not applicable, and the others are still checked.
    """
    kind = kind.removesuffix("s")
    checks(kind)
    registry = load_registry(plugin_files)
    contexts: dict[str, dict[str, Any]] = {
        "task": {"data": data and str(data)},
        "engine": {"model": model or EMBEDDED_MODEL},
    }
    context = contexts.get(kind, {})
    if name != "*":
        return _findings_on(registry, kind, name, context, report)
    rows: list[Finding] = []
    for registration in registry.of_kind(kind):
        try:
            rows += _findings_on(registry, kind, registration.full_name, context, report)
        except HarnessError as refusal:
            labels = {"kind": kind, "name": registration.full_name, "check": "-"}
            rows.append({**labels, "outcome": "not applicable", "what": str(refusal)})
    return rows


def _findings_on(
    registry: Registry, kind: str, name: str, context: dict[str, Any], report: Callable[[str], None]
) -> list[Finding]:
    component = build(registry, kind, name, **context)
    report(f"{kind} {name}: {len(checks(kind))} checks")
    return [{"kind": kind, "name": name, **finding} for finding in findings(kind, component)]
