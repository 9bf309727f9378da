"""What `harness doctor` prints of plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.plugin_system.registry import plural
from harness.system.console import put


def diagnosis(value: Mapping[str, Any]) -> None:
    """Print a report of `catalogue.diagnosis`: how many plugins of each kind there are, and what is wrong with them."""
    counts = [f"{count} {kind if count == 1 else plural(kind)}" for kind, count in value["registered"].items()]
    put("registered: " + ", ".join(counts))
    for task, remark in value["graders"].items():
        put(f"{task}: {remark}")
    for fault in value["faults"]:
        put(f"\n{fault['fault']}")
        if fault["trace"]:
            put(fault["trace"].rstrip())
    put(f"\n{len(value['faults'])} faults" if value["faults"] else "no faults")
