"""What `harness doctor` prints of plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.plugin_system.registry import plural
from harness.system.console import put


def diagnosis(value: Mapping[str, Any]) -> None:
    """Print a report of `catalogue.diagnosis`: what is installed, which tasks can be graded here, what is wrong."""
    counts = [f"{count} {kind if count == 1 else plural(kind)}" for kind, count in value["registered"].items()]
    put("installed: " + ", ".join(counts))
    tasks: dict[str, list[str]] = {}
    for task, remark in value["graders"].items():
        tasks.setdefault(remark, []).append(task)
    if tasks:
        put("\ngrading on this machine:")
    for remark, names in tasks.items():
        put(f"  {', '.join(names)}: {remark}")
    if value["lacking"]:
        put("\nlacking on this machine:")
    for line, names in value["lacking"].items():
        put(f"  {', '.join(names)}: {line}")
    for fault in value["faults"]:
        put(f"\n{fault['fault']}")
        if fault["trace"]:
            put(fault["trace"].rstrip())
    faults = len(value["faults"])
    put(f"\nfaults of plugins: {faults}" if faults else "\nno plugin has a fault")
