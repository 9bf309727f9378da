"""What `harness pool` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from harness.results.verdict_quality import level_text
from harness.system.console import put, short, text


def audit(value: Mapping[str, Any], listed: int) -> None:
    """Print what `jobs.audit` returned: the counts, and the first `listed` of the responses that need a look."""
    counts = {name: entry for name, entry in value.items() if name not in ("routes", "reasons", "chance", "listed")}
    summary(counts | ({"chance level": level_text(value["chance"])} if value["chance"] else {}))
    for name in ("routes", "reasons"):
        if value[name]:
            shares = ", ".join(f"{key}: {count}" for key, count in value[name].items())
            put(f"{name}: {shares}")
    if not value["listed"]:
        return
    table = Table("problem", "index", "why", "answer", "reference", "verdict", "route", "second")
    for entry in value["listed"][:listed]:
        verdict = f"{entry['verdict']} ({entry['reason']})" if entry["reason"] else entry["verdict"]
        shown = [entry["problem_id"], entry["index"], entry["why"], entry["answer"], entry["reference"], verdict]
        second = f"{entry['second'] or '-'} {entry['second_reason']}"
        table.add_row(*[text(short(part)) for part in (*shown, entry["route"], second)])
    put(table)
    if len(value["listed"]) > listed:
        put(f"{len(value['listed']) - listed} more: --listed N, or --json for all")


def summary(value: Mapping[str, Any]) -> None:
    """Print the entries of a summary, one line each."""
    table = Table(show_header=False)
    for key, entry in value.items():
        shown = f"{entry:.4g}" if isinstance(entry, float) else "-" if entry is None else str(entry)
        table.add_row(key.replace("_", " "), text(shown))
    put(table)
